package rules

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/strictyaml"
)

// What people write where it means nothing, with the reason.
const (
	hintSame    = "means nothing here: only `clear` and `unless` share values with the trigger"
	hintDiffers = "means nothing here: only the steps of a `sequence` differ from each other"
	hintWithin  = "belongs one level up, beside `match` or `sequence`"
	hintNewRule = "cannot be set: that is a new rule, copy it"
)

// DecodeYAML implements strictyaml.Unmarshaler.
func (m *MatcherSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain MatcherSyntax
	decodeMatcher(n, (*plain)(m), &m.Parts, &m.Keys, map[string]string{
		"same": hintSame, "differs": hintDiffers, "within": hintWithin, "count": hintWithin,
	})
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *StepSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain StepSyntax
	decodeMatcher(n, (*plain)(s), &s.Parts, &s.Keys, map[string]string{
		"same": hintSame, "within": hintWithin, "count": "means nothing in a sequence",
	})
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (c *ClearSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain ClearSyntax
	decodeMatcher(n, (*plain)(c), &c.Parts, &c.Keys, map[string]string{
		"differs": hintDiffers, "within": "means nothing here: `expire` bounds an episode that is not cleared",
	})
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (u *UnlessSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain UnlessSyntax
	decodeMatcher(n, (*plain)(u), &u.Parts, &u.Keys, map[string]string{"differs": hintDiffers})
}

// decodeMatcher decodes a text that the line contains, or the mapping that
// plain points to.
func decodeMatcher(n *strictyaml.Node, plain any, parts *Parts, keys *strictyaml.Keys, hints map[string]string) {
	switch {
	case n.Kind() == strictyaml.Map:
		n.DecodeHints(plain, hints)
	case n.Kind() == strictyaml.List:
		n.WrongType("a matcher (text, or a mapping such as {contains: text})")
	default:
		if text, ok := n.Text(); ok {
			parts.Contains = strictyaml.Strings{text}
			*keys = strictyaml.Keys{At: n.Pos()}
		}
	}
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *Severity) DecodeYAML(n *strictyaml.Node) {
	decodeEnum(n, s, SeverityCritical, SeverityWarning, SeverityInfo, SeverityNone)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *Scope) DecodeYAML(n *strictyaml.Node) { decodeEnum(n, s, ScopeNode, ScopeCluster) }

// DecodeYAML implements strictyaml.Unmarshaler. It takes true and false with
// and without quotes.
func (m *Mode) DecodeYAML(n *strictyaml.Node) {
	if n.Kind() == strictyaml.Scalar {
		for _, want := range []Mode{ModeOn, ModeOff, ModeSilent} {
			if n.Raw() == string(want) {
				*m = want
				return
			}
		}
		if n.IsText() {
			n.Error("enum", fmt.Sprintf("%s is %.60q", n.Name(), n.Raw()), "use true, false or silent")
			return
		}
	}
	n.WrongType("true, false or silent")
}

// decodeEnum decodes one of a few words.
func decodeEnum[T ~string](n *strictyaml.Node, into *T, words ...T) {
	text, ok := n.Text()
	if !ok {
		return
	}
	names := make([]string, len(words))
	for i, w := range words {
		if string(w) == text {
			*into = w
			return
		}
		names[i] = string(w)
	}
	n.Error("enum", fmt.Sprintf("%s is %.60q", n.Name(), text), "use one of "+strings.Join(names, ", "))
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (f *FiringSyntax) DecodeYAML(n *strictyaml.Node) {
	if n.Kind() == strictyaml.Scalar && n.Raw() == "none" {
		f.None = true
		return
	}
	if n.Kind() != strictyaml.List {
		n.WrongType("`none` or a list of alerts")
		return
	}
	n.Decode(&f.Alerts)
}

// DecodeYAML implements strictyaml.Unmarshaler. Keys other than the four of an
// alert are labels.
func (a *ExpectedAlertSyntax) DecodeYAML(n *strictyaml.Node) {
	if n.Kind() != strictyaml.Map {
		n.WrongType("a mapping of labels, such as {alertname: X}")
		return
	}
	a.Keys.At = n.Pos()
	a.Labels = map[string]string{}
	for _, e := range n.Entries() {
		switch e.Key {
		case "annotations":
			e.Value.Decode(&a.Annotations)
		case "starts_at":
			a.StartsAt = decodeOffset(e.Value)
		case "ends_at":
			a.EndsAt = decodeOffset(e.Value)
		case "value":
			var v int64
			e.Value.Decode(&v)
			a.Value = &v
		default:
			if text, ok := e.Value.Text(); ok {
				a.Labels[e.Key] = text
			}
		}
	}
}

func decodeOffset(n *strictyaml.Node) *time.Duration {
	d, ok := n.Duration()
	if !ok {
		return nil
	}
	return &d
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *SetSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain SetSyntax
	hints := map[string]string{"alert": "cannot be set: it names the rule"}
	for _, key := range []string{"match", "sequence", "by", "clear", "unless", "labels", "annotations", "remediation", "tests"} {
		hints[key] = hintNewRule
	}
	hints["unless"] = "cannot be set: use `add_unless`"
	n.DecodeHints((*plain)(s), hints)
}
