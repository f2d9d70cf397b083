package strictyaml

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// decoder decodes a document and collects its problems.
type decoder struct {
	src         *source
	problems    Problems
	reported    int // number of all problems, including those beyond maxProblems
	outOfBounds int // number of problems that are only numbers or durations outside their bounds
	aliased     int // number of values that were reached through aliases
	shapes      map[reflect.Type]*shape
}

func (d *decoder) addProblem(p Pos, check, message, fix string) {
	d.reported++
	switch {
	case d.reported <= maxProblems:
		d.problems = append(d.problems, p.Problem(Error, check, message, fix))
	case d.reported == maxProblems+1:
		d.problems = append(d.problems, p.Problem(Error, "too-many-problems", "the file has more problems after this line, which are not listed", "fix the listed problems, then check again"))
	}
}

// isFull reports whether more than maxProblems were found. Then the rest of the file is not read.
func (d *decoder) isFull() bool { return d.reported > maxProblems }

func (d *decoder) nodePos(n *yaml.Node) Pos { return d.src.yamlPos(n.Line, n.Column) }

func (d *decoder) posOr(n *yaml.Node, key Pos) Pos {
	if n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0 {
		return key
	}
	return d.nodePos(n)
}

// checkKey reports whether a key is usable. It adds a problem if the key is not.
func (d *decoder) checkKey(k *yaml.Node, pos Pos, seen map[string]Pos) bool {
	switch {
	case k.Kind == yaml.AliasNode || k.Anchor != "":
		d.addProblem(pos, "anchor", "anchors and aliases are not allowed as keys", "write the key out")
	case k.Kind != yaml.ScalarNode:
		d.addProblem(pos, "wrong-type", "a key is "+kindName(k)+", but must be text", "quote a value that starts with { or [")
	case k.Tag == "!!merge":
		d.addProblem(pos, "merge-key", "merge key << is not allowed", "write the keys out")
	case k.Style&yaml.TaggedStyle != 0:
		d.addProblem(pos, "tag", "tags are not allowed", "remove the tag")
	case k.Tag != "!!str" && k.Tag != "!!timestamp":
		d.addProblem(pos, "wrong-type", fmt.Sprintf("key %s is %s, but must be text", k.Value, kindName(k)), "quote the key")
	default:
		if first, twice := seen[k.Value]; twice {
			d.addProblem(pos, "duplicate-key", fmt.Sprintf("key `%s` is given twice, first on line %d", k.Value, first.Line), "keep one of them")
			return false
		}
		seen[k.Value] = pos
		return true
	}
	return false
}

// decode decodes a node into v. If own is set, it uses the method DecodeYAML of v's type.
func (d *decoder) decode(n *Node, v reflect.Value, hints map[string]Hint, own bool) {
	if own && !n.followAlias() {
		return
	}
	var address any
	if v.CanAddr() {
		address = v.Addr().Interface()
	}
	if u, ok := address.(Unmarshaler); ok && own {
		u.DecodeYAML(n)
		return
	}
	switch u, isText := address.(encoding.TextUnmarshaler); {
	case v.Type() == reflect.TypeFor[time.Duration]():
		if dur, ok := n.Duration(); ok {
			v.SetInt(int64(dur))
		}
	case isText:
		if s, ok := n.Text(); ok {
			if err := u.UnmarshalText([]byte(s)); err != nil {
				n.Errorf("bad-value", "%s: %v", n.name, err)
			}
		}
	case v.Kind() == reflect.Pointer:
		d.decodePointer(n, v)
	case v.Kind() == reflect.Struct:
		d.decodeStruct(n, v, hints)
	case v.Kind() == reflect.Slice:
		d.decodeSlice(n, v)
	case v.Kind() == reflect.Map:
		d.decodeMap(n, v)
	default:
		d.decodeScalar(n, v)
	}
}

// decodePointer decodes a node into a new value to which v then points.
func (d *decoder) decodePointer(n *Node, v reflect.Value) {
	if isNull(n.n) {
		n.wrongType("a value")
		return
	}
	before := d.reported
	p := reflect.New(v.Type().Elem())
	d.decode(n, p.Elem(), nil, true)
	// A struct with problems is kept, because its valid fields can still be checked.
	if d.reported == before || p.Elem().Kind() == reflect.Struct && n.n.Kind == yaml.MappingNode {
		v.Set(p)
	}
}

func (d *decoder) decodeSlice(n *Node, v reflect.Value) {
	if n.n.Kind != yaml.SequenceNode {
		n.wrongType("a list")
		return
	}
	items := n.items()
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if d.isFull() {
			out = out.Slice(0, i)
			break
		}
		d.decode(item, out.Index(i), nil, true)
	}
	v.Set(out)
}

func (d *decoder) decodeMap(n *Node, v reflect.Value) {
	if n.n.Kind != yaml.MappingNode {
		n.wrongType("a mapping")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, e := range n.entries() {
		before := d.reported
		elem := reflect.New(v.Type().Elem()).Elem()
		d.decode(e.Value, elem, nil, true)
		if d.reported == before {
			out.SetMapIndex(reflect.ValueOf(e.Key).Convert(v.Type().Key()), elem)
		}
	}
	v.Set(out)
}

// decodeStruct decodes a mapping into the struct v. It returns the positions of all keys, including keys for which the
// struct has no field.
func (d *decoder) decodeStruct(n *Node, v reflect.Value, hints map[string]Hint) (keys Keys) {
	if n.n.Kind != yaml.MappingNode {
		n.wrongType("a mapping")
		return keys
	}
	shape := d.structShape(v.Type())
	keys.Pos = n.pos
	start, outside := d.reported, d.outOfBounds
	for _, e := range n.entries() {
		f, known := shape.fields[e.Key]
		if !known {
			if d.isFull() {
				continue
			}
			keys.meant = append(keys.meant, d.unknownKey(e, shape.names, hints)...)
			continue
		}
		e.Value.anchors = e.Value.anchors || f.anchors
		before := d.reported
		value := v.FieldByIndex(f.index)
		d.decode(e.Value, value, nil, true)
		if d.reported == before {
			d.checkBounds(e.Value, f, value)
		}
		k := key{name: e.Key, entry: entry{e.Pos, e.Value.pos}, broken: d.reported > before}
		k.items, k.entries = d.memberPositions(e.Value)
		keys.list = append(keys.list, k)
	}
	// Unusable keys were already reported, so they must not also be reported as missing.
	for i := 0; i+1 < len(n.n.Content); i += 2 {
		if k := n.n.Content[i]; k.Kind == yaml.ScalarNode && !keys.Has(k.Value) {
			keys.meant = append(keys.meant, k.Value)
		}
	}
	for _, name := range shape.required {
		if keys.Lacks(name) {
			d.addProblem(n.pos, "missing-key", fmt.Sprintf("%s lacks `%s`", n.name, name), "add `"+name+":`")
		}
	}
	keys.damaged = d.reported > start
	keys.unreadable = d.reported-start > d.outOfBounds-outside
	if shape.keys != nil {
		v.FieldByIndex(shape.keys).Set(reflect.ValueOf(keys))
	}
	return keys
}

// memberPositions returns the positions of the items of a list or the entries of a mapping.
func (d *decoder) memberPositions(n *Node) (items []Pos, entries map[string]entry) {
	switch n.n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.n.Content {
			items = append(items, d.nodePos(c))
		}
	case yaml.MappingNode:
		entries = make(map[string]entry, len(n.n.Content)/2)
		for i := 0; i+1 < len(n.n.Content); i += 2 {
			k, at := n.n.Content[i], d.nodePos(n.n.Content[i])
			if _, twice := entries[k.Value]; !twice {
				entries[k.Value] = entry{at, d.posOr(n.n.Content[i+1], at)}
			}
		}
	}
	return items, entries
}

// unknownKey reports a key for which the struct has no field. It returns the names that the key probably means.
func (d *decoder) unknownKey(e Entry, names []string, hints map[string]Hint) []string {
	if hint, ok := hints[e.Key]; ok {
		d.addProblem(e.Pos, "unknown-key", fmt.Sprintf("`%s` %s", e.Key, hint.Message), hint.Fix)
		return nil
	}
	message := fmt.Sprintf("unknown key `%s`", e.Key)
	if meant := Closest(e.Key, names); meant != "" {
		d.addProblem(e.Pos, "unknown-key", message, "did you mean `"+meant+"`?")
		return []string{meant}
	}
	d.addProblem(e.Pos, "unknown-key", message, "use one of "+strings.Join(names, ", "))
	return nil
}
