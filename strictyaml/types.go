package strictyaml

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Strings is a text or a list of texts.
type Strings []string

// DecodeYAML implements Unmarshaler.
func (s *Strings) DecodeYAML(n *Node) {
	if n.Kind() == List {
		n.Decode((*[]string)(s))
		return
	}
	if n.Kind() == Map {
		n.wrongType("text or a list of texts")
		return
	}
	if text, ok := n.Text(); ok {
		*s = Strings{text}
	}
}

// Raw is a part of a file that another library decodes. Its keys are not checked here;
// anchors, tags and merge keys are refused.
type Raw struct {
	// Text is YAML. Its line 1 is line At.Line of the file, and its columns are
	// the file's columns, if the part is in block style.
	Text []byte
	At   Pos
	// Present reports whether the file has the part.
	Present bool
}

// DecodeYAML implements Unmarshaler.
func (r *Raw) DecodeYAML(n *Node) {
	if !n.checkTree(n.n) {
		return
	}
	r.At, r.Present = n.pos, true
	if n.n.Style&yaml.FlowStyle == 0 && (n.n.Kind == yaml.MappingNode || n.n.Kind == yaml.SequenceNode) {
		r.Text = n.blockText()
		return
	}
	text, err := yaml.Marshal(n.n)
	if err != nil {
		n.Errorf("bad-value", "%s: %v", n.name, err)
		return
	}
	r.Text = text
}

// blockText returns the lines of a value in block style: those up to the first line with
// less indentation.
func (n *Node) blockText() []byte {
	var b strings.Builder
	indent := n.pos.Column - 1
	for i := n.pos.Line; i <= len(n.d.src.starts); i++ {
		line := n.d.src.line(i)
		text := strings.TrimLeft(line, " ")
		if i == n.pos.Line {
			b.WriteString(strings.Repeat(" ", indent) + line[min(indent, len(line)):] + "\n")
			continue
		}
		blank := text == "" || text[0] == '#'
		if !blank && (len(line)-len(text) < indent || n.n.Kind == yaml.SequenceNode && len(line)-len(text) == indent && text[0] != '-') {
			break
		}
		b.WriteString(line + "\n")
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

// checkTree applies the checks of settle to the whole value.
func (n *Node) checkTree(y *yaml.Node) bool {
	ok := true
	seen := map[string]Pos{}
	for i, c := range y.Content {
		if y.Kind == yaml.MappingNode && i%2 == 0 {
			ok = n.d.checkKey(c, n.d.posOf(c), seen) && ok
			continue
		}
		child := n.child(c, n.d.posOf(c), n.name)
		ok = child != nil && child.settle() && child.checkTree(child.n) && ok
	}
	return ok
}
