package importer

import (
	"bytes"

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

// maxDocuments bounds the documents of one file.
const maxDocuments = 500

// readObjects translates a file of Kubernetes objects.
func (im *importer) readObjects(f File) {
	before := len(im.out)
	for i, doc := range documents(f.Data) {
		if i == maxDocuments {
			im.skip(File{Name: f.Name}, 0, "the file has more documents than can be read: divide it")
			return
		}
		im.readObject(File{Name: f.Name, Data: doc, Found: f.Found})
	}
	if len(im.out) == before {
		im.skip(f, 0, "the file has neither a PrometheusRule nor an AlertingRule")
	}
}

func (im *importer) readObject(f File) {
	doc, ps := strictyaml.Parse(f.Name, f.Data, strictyaml.Options{MaxBytes: 2 * MaxFileBytes, AllowEmpty: true})
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

// documents divides a file at lines that are only ---. Each document starts with as many empty
// lines as lie before it, so that positions stay those of the file.
func documents(data []byte) [][]byte {
	if len(data) > MaxFileBytes {
		return [][]byte{data} // refused for its size
	}
	var out [][]byte
	start, line, padding := 0, 0, 0
	for at := 0; at < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line++
		if text := bytes.TrimRight(data[at:end], " \r\n"); string(text) == "---" {
			if len(bytes.TrimSpace(data[start:at])) > 0 && len(out) <= maxDocuments {
				out = append(out, padded(padding, data[start:at]))
			}
			start, padding = end, line
		}
		at = end
	}
	if len(bytes.TrimSpace(data[start:])) > 0 {
		out = append(out, padded(padding, data[start:]))
	}
	return out
}

func padded(lines int, data []byte) []byte {
	return append(bytes.Repeat([]byte{'\n'}, lines), data...)
}
