package show

import (
	"fmt"
	"strings"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/strictyaml"
)

// Veil redacts the secrets of one line in the explanation of that line, because people paste
// explanations into tickets. The zero Veil redacts nothing.
type Veil struct {
	red    *redact.Redactor
	line   string
	hidden redact.Text
}

// NewVeil returns the Veil of a line.
func NewVeil(line string) Veil {
	red := redact.New(nil)
	return Veil{red: red, line: line, hidden: red.Text(line)}
}

// Explanation redacts e, an explanation of the line, in place.
func (v Veil) Explanation(e *matcher.Explanation) {
	if v.red == nil {
		return
	}
	e.Text = string(v.red.Text(e.Text))
	v.redactValues(e.Fields)
	for i := range e.Fields { // a token that ends with = looks like the name of a field
		e.Fields[i].Name = v.redactPart(e.Fields[i].Name)
	}
	for i := range e.Parts {
		v.redactValues(e.Parts[i].Values)
		v.redactConditions(e.Parts[i].Conditions)
	}
}

func (v Veil) redactPart(s string) string { return string(v.red.Part(v.line, v.hidden, s)) }

func (v Veil) redactValues(all []matcher.NamedValue) {
	for i := range all {
		if all[i].From != "label" {
			all[i].Value = v.redactPart(all[i].Value)
		}
	}
}

func (v Veil) redactConditions(all []matcher.Condition) {
	for i := range all {
		c := &all[i]
		c.Got = v.redactPart(c.Got)
		v.redactValues(c.Captures)
		v.redactConditions(c.Conditions)
	}
}

// FindRule returns the rule with a name. If there is none, the error names rules with similar
// names.
func FindRule(set *rules.Set, name string) (*rules.Rule, error) {
	if r := set.Rule(name); r != nil {
		return r, nil
	}
	var similar, all []string
	for _, r := range set.Rules {
		all = append(all, r.Alert)
		if strings.Contains(strings.ToLower(r.Alert), strings.ToLower(name)) {
			similar = append(similar, r.Alert)
		}
	}
	if best := strictyaml.Closest(name, all); len(similar) == 0 && best != "" {
		similar = []string{best}
	}
	hint := "list all with crowsnest rules list"
	if len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar[:min(len(similar), 5)], ", ") + "?"
	}
	return nil, fmt.Errorf("there is no rule %s; %s", name, hint)
}
