package matcher

import (
	"fmt"
	"strings"
)

// String renders the explanation for a terminal, one item per line:
//
//	CAPIConditionAggregationFailing: the line matches
//	  from
//	    ok  container="manager"
//	  match: holds
//	    ok  contains "Failed to aggregate"
//	    no  field Cluster="default/c1" (it is "default/c2")
//	  values
//	    capi_cluster = "default/c2" (capture)
func (e Explanation) String() string {
	t := &explanationText{}
	verdict := "the line does not match"
	switch {
	case e.Matches():
		verdict = "the line matches"
	case !e.Selected:
		verdict = "the rule does not read this stream"
	}
	t.writeLine(0, "%s: %s", e.Rule, verdict)
	if e.Envelope != "" {
		t.writeLine(1, "text behind the %s envelope: %q", e.Envelope, e.Text)
	}
	t.writeSelector(1, e.Labels)
	for _, p := range e.Parts {
		t.writePart(p)
	}
	t.writeLine(1, "fields of the line")
	t.writeValues(e.Fields, false)
	return t.b.String()
}

type explanationText struct{ b strings.Builder }

func (t *explanationText) writeLine(depth int, format string, args ...any) {
	t.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

func (t *explanationText) writeMark(depth int, held bool, text string) {
	mark := "no"
	if held {
		mark = "ok"
	}
	t.writeLine(depth, "%s  %s", mark, text)
}

// writeSelector prints the conditions of a `from`.
func (t *explanationText) writeSelector(depth int, all []LabelExplanation) {
	t.writeLine(depth, "from")
	for _, l := range all {
		note := ""
		if !l.Stated {
			note = " (the label is not stated, which satisfies it)"
		} else if !l.Held {
			note = fmt.Sprintf(" (it is %q)", l.Value)
		}
		t.writeMark(depth+1, l.Held, l.Condition+note)
	}
}

func (t *explanationText) writePart(p PartExplanation) {
	verdict := "does not hold"
	if p.Held {
		verdict = "holds"
	}
	if p.Labels != nil && !p.Selected {
		verdict += ", and does not read this stream"
	}
	t.writeLine(1, "%s: %s", p.Name, verdict)
	if p.Labels != nil {
		t.writeSelector(2, p.Labels)
	}
	t.writeConditions(2, p.Conditions)
	if len(p.Values) > 0 {
		t.writeLine(1, "values of %s", p.Name)
		t.writeValues(p.Values, true)
	}
}

func (t *explanationText) writeConditions(depth int, all []Condition) {
	for _, c := range all {
		text := c.Kind
		if c.Kind == "contains" {
			text += fmt.Sprintf(" %q", c.Want)
		} else if c.Want != "" {
			text += " " + c.Want
		}
		var notes []string
		if c.Kind == "field" && c.Got != "" && !c.Held {
			notes = append(notes, fmt.Sprintf("it is %q", c.Got))
		}
		if c.Hint != "" {
			notes = append(notes, c.Hint)
		}
		if len(notes) > 0 {
			text += " (" + strings.Join(notes, "; ") + ")"
		}
		t.writeMark(depth, c.Held, text)
		t.writeConditions(depth+1, c.Conditions)
	}
}

func (t *explanationText) writeValues(all []NamedValue, origin bool) {
	if len(all) == 0 {
		t.writeLine(2, "none")
	}
	for _, v := range all {
		switch {
		case !origin:
			t.writeLine(2, "%s = %q", v.Name, v.Value)
		case v.From == "":
			t.writeLine(2, "%s has no value", v.Name)
		default:
			t.writeLine(2, "%s = %q (%s)", v.Name, v.Value, v.From)
		}
	}
}
