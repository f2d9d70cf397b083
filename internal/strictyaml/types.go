package strictyaml

import "gopkg.in/yaml.v3"

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

// Raw is a section of a file that another library decodes. Only anchors, tags and merge keys are refused.
type Raw struct {
	Text []byte // YAML, as the library encodes it
	// Present reports whether the file contains the section.
	Present bool
}

// DecodeYAML implements Unmarshaler.
func (r *Raw) DecodeYAML(n *Node) {
	if !n.checkTree(n.n) {
		return
	}
	text, err := yaml.Marshal(n.n)
	if err != nil {
		n.Errorf("bad-value", "%s: %v", n.name, err)
		return
	}
	r.Text, r.Present = text, true
}

// checkTree applies the checks of followAlias to all values below the node.
func (n *Node) checkTree(y *yaml.Node) bool {
	ok := true
	seen := map[string]Pos{}
	for i, c := range y.Content {
		if y.Kind == yaml.MappingNode && i%2 == 0 {
			ok = n.d.checkKey(c, n.d.nodePos(c), seen) && ok
			continue
		}
		child := n.childNode(c, n.d.nodePos(c), n.name)
		ok = child != nil && child.followAlias() && child.checkTree(child.n) && ok
	}
	return ok
}
