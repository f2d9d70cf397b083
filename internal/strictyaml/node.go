package strictyaml

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Unmarshaler is implemented by pointers to types that decode themselves. DecodeYAML reports problems to the node. If
// it reports a problem, it must leave the value zero. The node is valid only during the call.
type Unmarshaler interface {
	DecodeYAML(n *Node)
}

// Kind is the kind of a node.
type Kind int

// The kinds of nodes.
const (
	Scalar Kind = iota
	List
	Map
)

// Node is a value of a file during decoding.
type Node struct {
	d       *decoder
	n       *yaml.Node
	pos     Pos
	name    string // name of the value in messages, such as "item 2 of `by`"
	depth   int
	anchors bool // whether anchors and aliases are allowed inside the value
	aliased bool // whether the value was reached through an alias
	settled bool // whether followAlias was called
	usable  bool // result of followAlias
}

// Kind returns the kind of the node.
func (n *Node) Kind() Kind {
	switch n.n.Kind {
	case yaml.SequenceNode:
		return List
	case yaml.MappingNode:
		return Map
	}
	return Scalar
}

// Pos returns where the value starts.
func (n *Node) Pos() Pos { return n.pos }

// Name returns the name of the node in messages, such as "`by`" or "item 2 of `by`".
func (n *Node) Name() string { return n.name }

// Raw returns a scalar as written, without quotes.
func (n *Node) Raw() string { return n.n.Value }

// IsText reports whether the node is a scalar that represents text, because it is quoted or cannot be parsed as a
// number, a boolean or null.
func (n *Node) IsText() bool {
	if n.n.Kind != yaml.ScalarNode {
		return false
	}
	// A date is also text, because most people mean it as text. Its spelling is kept.
	return n.n.Tag == "!!str" || n.n.Tag == "!!timestamp" || n.n.Tag == "!!merge" || n.n.Tag == "!!binary"
}

// Text returns the text of the node. If it is not a text, Text reports a problem.
func (n *Node) Text() (string, bool) {
	if n.IsText() {
		return n.n.Value, true
	}
	n.wrongType("text")
	return "", false
}

// Error reports a problem of this node.
func (n *Node) Error(check, message, fix string) { n.d.addProblem(n.pos, check, message, fix) }

// Errorf reports a problem of this node without a fix.
func (n *Node) Errorf(check, format string, args ...any) {
	n.Error(check, fmt.Sprintf(format, args...), "")
}

// WrongType reports that the node does not have the type want, such as "a list". fix is used unless the kind of the
// node suggests another fix.
func (n *Node) WrongType(want, fix string) {
	is := kindName(n.n)
	if is == "empty" {
		n.Error("no-value", n.name+" has no value", "write a value, or remove the empty entry")
		return
	}
	n.Error("wrong-type", fmt.Sprintf("%s is %s, but must be %s", n.name, is, want), cmp.Or(n.typeFix(want), fix))
}

// Items returns the items of a list. If the node is not a list, it reports a problem.
func (n *Node) Items() []*Node {
	if n.n.Kind != yaml.SequenceNode {
		n.wrongType("a list")
		return nil
	}
	var out []*Node
	for _, item := range n.items() {
		if item.followAlias() {
			out = append(out, item)
		}
	}
	return out
}

// items returns the items of a list. It does not follow an alias.
func (n *Node) items() []*Node {
	var out []*Node
	for i, c := range n.n.Content {
		if n.d.isFull() {
			break
		}
		item := n.childNode(c, n.d.nodePos(c), fmt.Sprintf("item %d of %s", i+1, n.name))
		if item != nil {
			out = append(out, item)
		}
	}
	return out
}

// Entry is a key of a mapping with its value.
type Entry struct {
	Key   string
	Pos   Pos // position of the key
	Value *Node
}

// Entries returns the entries of a mapping in the order of the file. If the node is not a mapping, it reports a
// problem. It omits and reports keys that are duplicate, merged or not text.
func (n *Node) Entries() []Entry {
	if n.n.Kind != yaml.MappingNode {
		n.wrongType("a mapping")
		return nil
	}
	var out []Entry
	for _, e := range n.entries() {
		if e.Value.followAlias() {
			out = append(out, e)
		}
	}
	return out
}

// EntriesOf returns the entries whose key is in keys, and reports all other keys.
func (n *Node) EntriesOf(keys []string) []Entry { return n.EntriesHints(keys, nil) }

// EntriesHints returns entries like EntriesOf. hints are messages for unknown keys.
func (n *Node) EntriesHints(keys []string, hints map[string]Hint) []Entry {
	return slices.DeleteFunc(n.Entries(), func(e Entry) bool {
		known := slices.Contains(keys, e.Key)
		if !known {
			n.d.unknownKey(e, keys, hints)
		}
		return !known
	})
}

// entries returns the entries of a mapping. It does not follow an alias.
func (n *Node) entries() []Entry {
	var out []Entry
	seen := map[string]Pos{}
	for i := 0; i+1 < len(n.n.Content) && !n.d.isFull(); i += 2 {
		k, v := n.n.Content[i], n.n.Content[i+1]
		at := n.d.nodePos(k)
		if !n.d.checkKey(k, at, seen) {
			continue
		}
		if value := n.childNode(v, n.d.posOr(v, at), "`"+k.Value+"`"); value != nil {
			out = append(out, Entry{Key: k.Value, Pos: at, Value: value})
		}
	}
	return out
}

// Hint explains why a key is not allowed in a mapping.
type Hint struct {
	Message string // continuation of a message that begins with the name of the key
	Fix     string
}

// Decode decodes the node into the value to which into points. It does not call the method DecodeYAML of into, so
// DecodeYAML itself may call Decode.
func (n *Node) Decode(into any) {
	n.d.decode(n, reflect.ValueOf(into).Elem(), nil, false)
}

// DecodeStruct decodes the node into a struct, and returns the positions of its keys.
func (n *Node) DecodeStruct(into any) Keys {
	return n.d.decodeStruct(n, reflect.ValueOf(into).Elem(), nil)
}

// DecodeHints decodes the node like Decode. hints are messages for keys for which the struct has no field.
func (n *Node) DecodeHints(into any, hints map[string]Hint) {
	n.d.decode(n, reflect.ValueOf(into).Elem(), hints, false)
}

// childNode returns the node of a value inside n. It reports a problem if the value is nested too deeply.
func (n *Node) childNode(c *yaml.Node, pos Pos, name string) *Node {
	out := &Node{d: n.d, n: c, pos: pos, name: name, depth: n.depth + 1, anchors: n.anchors, aliased: n.aliased}
	if out.depth > maxDepth {
		out.Error("too-deep", fmt.Sprintf("values are nested more than %d deep", maxDepth), "flatten them")
		return nil
	}
	return out
}

// followAlias follows an alias, and reports a problem for tags and other YAML that is not plain data. It reports
// whether the node is usable.
func (n *Node) followAlias() bool {
	if !n.settled {
		n.settled, n.usable = true, n.follow()
	}
	return n.usable
}

func (n *Node) follow() bool {
	if n.n.Kind == yaml.AliasNode {
		if !n.anchors {
			n.Error("anchor", "alias *"+n.n.Value+" is not allowed here", "write the value out; aliases are for tests only")
			return false
		}
		n.n, n.aliased = n.n.Alias, true
	}
	if n.aliased {
		n.d.aliased++
		if n.d.aliased > maxAliased {
			if n.d.aliased == maxAliased+1 {
				n.Error("anchor", fmt.Sprintf("aliases expand to more than %d values", maxAliased), "use fewer of them")
			}
			return false
		}
	}
	ok := true
	if n.n.Anchor != "" && !n.anchors {
		n.Error("anchor", "anchor &"+n.n.Anchor+" is not allowed here", "remove it; anchors are for tests only")
		ok = false
	}
	if n.n.Style&yaml.TaggedStyle != 0 {
		n.Error("tag", "tag "+strings.ReplaceAll(n.n.Tag, "tag:yaml.org,2002:", "!!")+" is not allowed", "remove the tag; quote the value if text is meant")
		ok = false
	}
	return ok
}
