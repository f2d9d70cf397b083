package web

import (
	"encoding/json"
	"strings"

	"crowsnest/rules/schema"
)

// keyHint describes a key of the rule language for completion on the page Scan.
type keyHint struct {
	Text string `json:"d,omitempty"` // first sentence of the key's description
	In   string `json:"r,omitempty"` // kind of object that the key's value is or contains
}

// schemaNode is the part of a JSON Schema that completion needs.
type schemaNode struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Properties  map[string]schemaNode `json:"properties"`
	Items       *schemaNode           `json:"items"`
	AnyOf       []schemaNode          `json:"anyOf"`
}

// keyHints returns the keys of all kinds of objects in a rule file, as JSON.
func keyHints() ([]byte, error) {
	text, err := schema.Rules()
	if err != nil {
		return nil, err
	}
	var root struct {
		Defs map[string]schemaNode `json:"$defs"`
	}
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	out := map[string]map[string]keyHint{}
	for kind, def := range root.Defs {
		keys := map[string]keyHint{}
		for _, form := range append(def.AnyOf, def) { // the value may be a text or an object
			for name, key := range form.Properties {
				keys[name] = keyHint{firstSentence(key.Description), key.objectKind()}
			}
		}
		if len(keys) > 0 {
			out[kind] = keys
		}
	}
	return json.Marshal(out)
}

// objectKind returns the kind of object that a value is or contains, or "".
func (n *schemaNode) objectKind() string {
	if n.Ref != "" {
		return strings.TrimPrefix(n.Ref, "#/$defs/")
	}
	if n.Items != nil {
		return n.Items.objectKind()
	}
	for i := range n.AnyOf {
		if kind := n.AnyOf[i].objectKind(); kind != "" {
			return kind
		}
	}
	return ""
}

func firstSentence(text string) string {
	first, _, more := strings.Cut(text, ". ")
	if more {
		first += "."
	}
	return first
}
