package show

import (
	"fmt"
	"strings"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/strictyaml"
)

// Veil redacts the secrets of one line in its explanation, because people paste
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

// Explanation redacts an explanation of the line in place.
func (v Veil) Explanation(e *matcher.Explanation) {
	if v.red == nil {
		return
	}
	e.Text = string(v.red.Text(e.Text))
	v.values(e.Fields)
	for i := range e.Fields { // a token with = at its end looks like a field
		e.Fields[i].Name = v.part(e.Fields[i].Name)
	}
	for i := range e.Parts {
		v.values(e.Parts[i].Values)
		v.conditions(e.Parts[i].Conditions)
	}
}

func (v Veil) part(s string) string { return string(v.red.Part(v.line, v.hidden, s)) }

func (v Veil) values(all []matcher.NamedValue) {
	for i := range all {
		if all[i].From != "label" {
			all[i].Value = v.part(all[i].Value)
		}
	}
}

func (v Veil) conditions(all []matcher.Condition) {
	for i := range all {
		c := &all[i]
		c.Got = v.part(c.Got)
		v.values(c.Captures)
		v.conditions(c.Conditions)
	}
}

// Find returns the rule of a name. The error names rules with similar names.
func Find(set *rules.Set, name string) (*rules.Rule, error) {
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
