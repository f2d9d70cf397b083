package rules

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/internal/strictyaml"
)

// Hints for keys that people often write where they are not allowed.
var (
	hintDiffers = strictyaml.Hint{Message: "is not allowed here: only steps of a `sequence` are compared with each other", Fix: "remove it"}
	hintCount   = strictyaml.Hint{Message: "is not allowed here: it is a key of the rule", Fix: "move it one level up, beside `match`"}
	hintOn      = strictyaml.Hint{Message: "is named `same` here, because YAML may read on as true", Fix: "write same: [...]"}

	triggerHints = map[string]strictyaml.Hint{
		"from":    {Message: "is not allowed here: it is a key of the rule, of `clear`, of `unless` and of the steps of a `sequence`", Fix: "move it one level up"},
		"same":    {Message: "is not allowed here: only `clear` and `unless` share values with the trigger", Fix: "remove it"},
		"differs": hintDiffers, "count": hintCount,
		"within": {Message: "is not allowed here: it is a key of the rule", Fix: "move it one level up, beside `match` or `sequence`"},
	}
	conditionHints = map[string]strictyaml.Hint{
		"differs": hintDiffers, "count": hintCount, "on": hintOn,
		"within": {Message: "is not allowed here: a clear line takes effect at any time", Fix: "remove it; `expire` of the rule ends an episode that nothing clears"},
	}
	causeHints = map[string]strictyaml.Hint{
		"on": hintOn, "equal": {Message: "is named `same` here", Fix: "write same: [...]"}, "rule": {Message: "is named `alert` here", Fix: "write alert: NAME"},
		"within": {Message: "is not allowed here: a cause may have begun at any time before", Fix: "remove it, or use `lag` for a cause that begins after its symptom"},
	}
)

// DecodeYAML implements strictyaml.Unmarshaler.
func (m *MatcherSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain MatcherSyntax
	decodeMatcher(n, (*plain)(m), &m.Parts, &m.Keys, triggerHints)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *StepSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain StepSyntax
	decodeMatcher(n, (*plain)(s), &s.Parts, &s.Keys, triggerHints)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (c *ClearSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain ClearSyntax
	decodeMatcher(n, (*plain)(c), &c.Parts, &c.Keys, conditionHints)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (u *UnlessSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain UnlessSyntax
	decodeMatcher(n, (*plain)(u), &u.Parts, &u.Keys, conditionHints)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (c *CauseSyntax) DecodeYAML(n *strictyaml.Node) {
	type plain CauseSyntax
	if n.Kind() == strictyaml.List {
		n.WrongType("the name of a rule, or a mapping", "write - NAME, or - {alert: NAME, same: [...]}")
		return
	}
	decodeTextOr(n, (*plain)(c), &c.Alert, &c.Keys, causeHints)
}

// decodeMatcher decodes a node into plain. The node is a text that the line must contain, or a mapping.
func decodeMatcher(n *strictyaml.Node, plain any, parts *Parts, keys *strictyaml.Keys, hints map[string]strictyaml.Hint) {
	if n.Kind() == strictyaml.List {
		n.WrongType("a matcher", "write {contains: [...]} if the line must have all of the texts, {any: [...]} if one of them")
		return
	}
	text := ""
	if decodeTextOr(n, plain, &text, keys, hints) {
		parts.Contains = strictyaml.Strings{text}
	}
}

// decodeTextOr decodes a text node into text, and a mapping node into plain. It reports whether the node was a text.
func decodeTextOr(n *strictyaml.Node, plain any, text *string, keys *strictyaml.Keys, hints map[string]strictyaml.Hint) (isText bool) {
	if n.Kind() == strictyaml.Map {
		n.DecodeHints(plain, hints)
		return false
	}
	value, isText := n.Text()
	if isText {
		*text, *keys = value, strictyaml.Keys{Pos: n.Pos()}
	}
	return isText
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *Severity) DecodeYAML(n *strictyaml.Node) {
	// none is only for overrides, so the list of valid values in an error omits it.
	if n.Kind() == strictyaml.Scalar && n.Raw() == string(SeverityNone) {
		*s = SeverityNone
		return
	}
	decodeEnum(n, s, SeverityCritical, SeverityWarning, SeverityInfo)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (s *Scope) DecodeYAML(n *strictyaml.Node) { decodeEnum(n, s, ScopeNode, ScopeCluster) }

// DecodeYAML implements strictyaml.Unmarshaler.
func (i *In) DecodeYAML(n *strictyaml.Node) { decodeEnum(n, i, InMessage, InError, InAnywhere) }

// DecodeYAML implements strictyaml.Unmarshaler.
func (o *Origin) DecodeYAML(n *strictyaml.Node) { decodeEnum(n, o, OriginInfrastructure, OriginAny) }

// DecodeYAML implements strictyaml.Unmarshaler. Quotes do not matter.
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
	n.WrongType("true, false or silent", "use true, false or silent")
}

// decodeEnum decodes a text that must be one of the given words.
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
		n.WrongType("`none` or a list of alerts", "write none, or [{alertname: NAME}]")
		return
	}
	n.Decode(&f.Alerts)
	f.None = len(f.Alerts) == 0
}

// DecodeYAML implements strictyaml.Unmarshaler. Keys other than the four that describe an alert
// are labels.
func (a *ExpectedAlert) DecodeYAML(n *strictyaml.Node) {
	if n.Kind() != strictyaml.Map {
		n.WrongType("a mapping of labels", "write {alertname: NAME}")
		return
	}
	a.pos = n.Pos()
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
	hints := map[string]strictyaml.Hint{}
	for _, key := range []string{"match", "sequence", "clear", "tests"} {
		hints[key] = strictyaml.Hint{Message: "cannot be set: it would make a different rule", Fix: "copy the rule into a pack of your own under a new name, and disable this one"}
	}
	hints["remediation"] = strictyaml.Hint{Message: "cannot be set", Fix: "use `runbook_url` for your own runbook, and `annotations` for further texts"}
	hints["unless"] = strictyaml.Hint{Message: "cannot be set", Fix: "use `add_unless` beside `set`"}
	hints["alert"] = strictyaml.Hint{Message: "cannot be set: it names the rule", Fix: "remove it"}
	n.DecodeHints((*plain)(s), hints)
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (r *Reason) DecodeYAML(n *strictyaml.Node) {
	if n.Kind() == strictyaml.Scalar && n.IsText() {
		*r = Reason(n.Raw())
		return
	}
	if n.Kind() == strictyaml.Scalar && n.Raw() == "" {
		n.WrongType("a reason", "")
		return
	}
	n.Error("no-reason", "`disable` must state in words why the rule is off", "write disable: \"edge clusters have one replica\"")
}
