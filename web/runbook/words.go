package runbook

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

func duration(d time.Duration) string { return model.Duration(d).String() }

// describeTrigger describes in one or two sentences when the rule fires and resolves.
func describeTrigger(r *rules.Rule) string {
	var b strings.Builder
	b.WriteString("It fires " + describeKey(r) + " when ")
	switch {
	case r.Silent > 0:
		fmt.Fprintf(&b, "such lines stop: one was seen, and then none for %s", duration(r.Silent))
	case r.Sequence:
		fmt.Fprintf(&b, "%s follow each other within %s", text.Plural(len(r.Steps), "line"), duration(r.Within))
	case r.DistinctTime() > 0:
		fmt.Fprintf(&b, "such lines appear in %d different %ss (UTC) within %s", r.Count, r.Distinct, duration(r.Within))
	case r.Distinct != "":
		fmt.Fprintf(&b, "such lines have %d different values of *%s* within %s", r.Count, r.Distinct, duration(r.Within))
	case r.Count > 1:
		fmt.Fprintf(&b, "%d such lines appear within %s", r.Count, duration(r.Within))
	default:
		b.WriteString("such a line appears")
	}
	switch {
	case r.For > 0 && r.Clear != nil:
		fmt.Fprintf(&b, " and no line clears it for %s", duration(r.For))
	case r.For > 0:
		fmt.Fprintf(&b, " and such lines keep appearing for %s, with gaps below %s", duration(r.For), duration(r.KeepFiringFor))
	}
	if r.Unless != nil {
		fmt.Fprintf(&b, ", unless a line%s mutes it, from %s before until it fires", describeShared(r, r.Unless), duration(r.Unless.Within))
	}
	b.WriteString(". ")
	switch {
	case r.Silent > 0:
		fmt.Fprintf(&b, "It resolves when the next line of this kind is logged, or after %s.", duration(r.Expire))
	case r.Clear != nil:
		fmt.Fprintf(&b, "It resolves when a line%s clears it, or %s after the last line.", describeShared(r, r.Clear), duration(r.Expire))
	default:
		fmt.Fprintf(&b, "It resolves %s after the last line.", duration(r.KeepFiringFor))
	}
	return b.String()
}

// describeKey describes how matching lines are grouped to alerts. There is one alert for all lines, or one alert for
// each key.
func describeKey(r *rules.Rule) string {
	if len(r.By) == 0 {
		return "once for all lines"
	}
	return "per " + formatNames(r.By)
}

// describeShared describes the values that a line of clear or unless must share with the trigger.
func describeShared(r *rules.Rule, a *rules.ClearOrUnless) string {
	if len(a.Same) == 0 || slices.Equal(a.Same, r.By) {
		return ""
	}
	return " of the same " + formatNames(a.Same)
}

func formatNames(all []string) string {
	if last := len(all) - 1; last > 0 {
		return "*" + strings.Join(all[:last], "*, *") + "* and *" + all[last] + "*"
	}
	return "*" + strings.Join(all, "") + "*"
}

func diagnosisSection(r *rules.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The rule reads the streams %s and looks for\n\n", inlineCode(r.From.String()))
	for i := range r.Steps {
		head := "a line" + nameStreams(r, r.Steps[i].From) + " that"
		if r.Sequence {
			head = fmt.Sprintf("line %d%s, that", i+1, nameStreams(r, r.Steps[i].From))
		}
		if d := r.Steps[i].Differs; len(d) > 0 {
			head = strings.TrimSuffix(head, " that") + " with a different " + formatNames(d) + " than the lines before, that"
		}
		writeItem(&b, 0, head, &r.Steps[i].Matcher)
	}
	if r.Clear != nil {
		writeItem(&b, 0, "to clear: a line"+nameStreams(r, r.Clear.From)+" that", &r.Clear.Matcher)
	}
	if r.Unless != nil {
		writeItem(&b, 0, "to mute: a line"+nameStreams(r, r.Unless.From)+" that", &r.Unless.Matcher)
	}
	fmt.Fprintf(&b, "\nWhy a line matches or not: `crowsnest explain %s --line '...'`.", r.Alert)
	return b.String()
}

// nameStreams describes the streams that a part of a rule reads. It returns "" if they are the streams of the rule.
func nameStreams(r *rules.Rule, from rules.Selector) string {
	if from.Equal(r.From) {
		return ""
	}
	return " of the streams " + inlineCode(from.String())
}

func writeItem(b *strings.Builder, depth int, head string, m *rules.Matcher) {
	indent := strings.Repeat("  ", depth)
	conditions := conditionTexts(m)
	if len(conditions) == 1 && len(m.Any) == 0 && m.Not == nil {
		fmt.Fprintf(b, "%s- %s %s\n", indent, head, conditions[0])
		return
	}
	fmt.Fprintf(b, "%s- %s\n", indent, strings.TrimSpace(head))
	for _, c := range conditions {
		fmt.Fprintf(b, "%s  - %s\n", indent, c)
	}
	if len(m.Any) > 0 {
		fmt.Fprintf(b, "%s  - satisfies one of these:\n", indent)
		for i := range m.Any {
			writeItem(b, depth+2, "it", &m.Any[i])
		}
	}
	if m.Not != nil {
		writeItem(b, depth+1, "but not one that", m.Not)
	}
}

// conditionTexts returns texts for all conditions of a matcher except any and not.
func conditionTexts(m *rules.Matcher) []string {
	var out []string
	for _, t := range m.Contains {
		out = append(out, "contains "+inlineCode(t))
	}
	if m.Regex != nil {
		out = append(out, "matches "+inlineCode(m.Regex.String()))
	}
	for _, f := range m.Fields {
		if f.Regex != nil {
			out = append(out, fmt.Sprintf("has a field %s that matches %s", inlineCode(f.Name), inlineCode(trimAnchors(f.Regex.String()))))
		} else {
			out = append(out, fmt.Sprintf("has the field %s with the value %s", inlineCode(f.Name), inlineCode(f.Value)))
		}
	}
	return out
}

// trimAnchors removes the anchors that the rule language adds to an expression.
func trimAnchors(expr string) string {
	if inner, ok := strings.CutPrefix(expr, "^(?s:"); ok {
		return strings.TrimSuffix(inner, ")$")
	}
	return expr
}

// maxExamples is the maximum number of tests of each kind. maxLines is the maximum number of lines of each test.
const (
	maxExamples = 4
	maxLines    = 3
)

// exampleLines returns lines of tests that raise an alert, and lines of tests that do not.
func exampleLines(r *rules.Rule) string {
	var fires, quiet strings.Builder
	shownFires, shownQuiet := 0, 0
	seen := map[string]bool{}
	isMet := func(p matcher.PartExplanation) bool { return p.Part >= 0 && p.IsMet }
	for _, t := range r.Tests {
		switch {
		case expectsAlert(t) && shownFires < maxExamples:
			// A line is shown only once.
			shownFires += writeLines(&fires, t, func(line string) bool {
				ok := !seen[line] && slices.ContainsFunc(matcher.Explain(r, nil, []byte(line)).Parts, isMet)
				seen[line] = seen[line] || ok
				return ok
			})
		case !expectsAlert(t) && shownQuiet < maxExamples:
			shownQuiet += writeLines(&quiet, t, func(string) bool { return true })
		}
	}
	out := ""
	if shownFires > 0 {
		out += "Lines that raise it, from the tests of the rule:\n\n" + fires.String()
	}
	if shownQuiet > 0 {
		out += "It stays silent in these cases:\n\n" + quiet.String()
	}
	return out
}

func expectsAlert(t rules.Test) bool {
	return slices.ContainsFunc(t.Expect, func(c rules.Checkpoint) bool { return len(c.Firing) > 0 || len(c.Resolved) > 0 })
}

// writeLines writes the wanted lines of a test. It returns 1 if it wrote at least one line, and 0 otherwise.
func writeLines(b *strings.Builder, t rules.Test, wanted func(line string) bool) int {
	var lines []string
	for _, in := range t.Input {
		text := strings.ReplaceAll(in.Text, "{{ $value }}", "0")
		if text != "" && len(lines) < maxLines && !slices.Contains(lines, redact.Sanitise(text)) && wanted(text) {
			lines = append(lines, redact.Sanitise(text)) // without escape sequences for colors
		}
	}
	if len(lines) == 0 {
		return 0
	}
	fmt.Fprintf(b, "- %s\n\n  ```\n  %s\n  ```\n\n", escape(strings.TrimSuffix(t.Name, ".")), strings.ReplaceAll(strings.Join(lines, "\n  "), "```", "'''"))
	return 1
}

// linkTo returns a link from the page of one rule to the page of another. If set lacks the other rule, it returns only
// the name.
func linkTo(set *rules.Set, from *rules.Rule, alert string) string {
	to := set.Rule(alert)
	switch {
	case to == nil:
		return alert
	case to.Pack == from.Pack:
		return fmt.Sprintf("[%s](%s.md)", alert, alert)
	}
	return fmt.Sprintf("[%s](../%s/%s.md)", alert, to.Pack, alert)
}

func describeCauses(set *rules.Set, r *rules.Rule) string {
	if len(r.Causes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("It is a symptom of these alerts. If one of them fires, begin there:\n\n")
	for i := range r.Causes {
		c := &r.Causes[i]
		fmt.Fprintf(&b, "- %s", linkTo(set, r, c.Alert))
		same := c.Same
		if cause := set.Rule(c.Alert); same == nil && cause != nil {
			same, _ = c.SharedLabels(r, cause.By)
		}
		if len(same) > 0 {
			b.WriteString(" of the same " + formatNames(same))
		}
		if c.Lag > 0 {
			fmt.Fprintf(&b, ", begun earlier or up to %s later", duration(c.Lag))
		} else {
			b.WriteString(", begun earlier")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func nameSymptoms(set *rules.Set, r *rules.Rule) string {
	var out []string
	for _, s := range set.Rules {
		if slices.ContainsFunc(s.Causes, func(c rules.Cause) bool { return c.Alert == r.Alert }) {
			out = append(out, linkTo(set, r, s.Alert))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "It can cause " + strings.Join(out, ", ") + "."
}
