package importer

import (
	"bytes"
	"iter"

	"crowsnest/strictyaml"
)

// rulerObject is a Kubernetes object with rule groups, or a list of objects.
type rulerObject struct {
	APIVersion string       `yaml:"apiVersion"`
	Kind       string       `yaml:"kind"`
	Metadata   ignored      `yaml:"metadata"`
	Status     ignored      `yaml:"status"`
	Spec       rulerSpec    `yaml:"spec"`
	Items      rulerObjects `yaml:"items"`

	Keys strictyaml.Keys `yaml:"-"`
}

type rulerSpec struct{ groups rulerGroups }

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *rulerSpec) DecodeYAML(n *strictyaml.Node) {
	eachKey(n, map[string]func(*strictyaml.Node){"groups": s.groups.DecodeYAML})
}

// rulerObjects are the objects of a list.
type rulerObjects []rulerObject

// DecodeYAML implements strictyaml.Unmarshaler.
func (os *rulerObjects) DecodeYAML(n *strictyaml.Node) {
	for _, item := range n.Items() {
		var o rulerObject
		item.Decode(&o)
		*os = append(*os, o)
	}
}

// maxPadding bounds the lines before the documents of a file, added up.
const maxPadding = 4 << 20

// readObjects translates a file of Kubernetes objects.
func (im *importer) readObjects(f File) {
	if len(f.Data) > MaxFileBytes {
		im.readObject(f) // refused for its size
		return
	}
	before := len(im.out)
	padding := 0
	for lines, doc := range documents(f.Data) {
		if padding += lines; padding > maxPadding {
			im.skip(File{Name: f.Name}, lines, "the file has more documents than can be read: divide it")
			return
		}
		im.readObject(File{Name: f.Name, Data: append(bytes.Repeat([]byte{'\n'}, lines), doc...), Found: f.Found})
	}
	if len(im.out) == before {
		im.skip(f, 0, "the file has neither a PrometheusRule nor an AlertingRule")
	}
}

func (im *importer) readObject(f File) {
	limit := MaxFileBytes
	if bytes.HasPrefix(f.Data, []byte{'\n'}) {
		limit += maxPadding
	}
	doc, ps := strictyaml.Parse(f.Name, f.Data, strictyaml.Options{MaxBytes: limit, AllowEmpty: true})
	if doc == nil {
		im.refuseFile(f, ps)
		return
	}
	if doc.Has("groups") && !doc.Has("kind") {
		im.skip(f, doc.Start().Line, "the document is a file of Loki's ruler: import it as loki")
		return
	}
	if !doc.Has("kind") {
		return // empty, or no object
	}
	var o rulerObject
	ps = doc.Decode(&o)
	groups := o.Spec.groups
	if !o.hasRules() {
		groups = nil
		for _, item := range o.Items {
			if item.hasRules() {
				groups = append(groups, item.Spec.groups...)
			}
		}
		if groups == nil {
			return
		}
	}
	im.addGroups(f, groups, ps)
}

// hasRules reports whether rules are what the object is for.
func (o *rulerObject) hasRules() bool { return o.Kind == "PrometheusRule" || o.Kind == "AlertingRule" }

// documents returns the documents of a file, which lines that are only --- divide, each with how
// many lines are before it. With as many empty lines before it, its positions are those of the file.
func documents(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		start, line, before := 0, 0, 0
		for at := 0; at <= len(data); {
			end := len(data)
			if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
				end = at + i + 1
			}
			last := end == len(data)
			line++
			divides := string(bytes.TrimRight(data[at:end], " \r\n")) == "---"
			if doc := data[start:at]; divides && len(bytes.TrimSpace(doc)) > 0 && !yield(before, doc) {
				return
			}
			if divides {
				start, before = end, line
			}
			if at = end; last {
				break
			}
		}
		if doc := data[start:]; len(bytes.TrimSpace(doc)) > 0 {
			yield(before, doc)
		}
	}
}
