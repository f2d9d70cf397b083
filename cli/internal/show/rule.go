package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/common/model"

	"crowsnest/rules"
)

// WriteRule writes a rule as text: first the parts that people need, then the source of the
// rule without those parts.
func WriteRule(w io.Writer, r *rules.Rule) error {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name, strings.ReplaceAll(value, "\n", "\n             "))
		}
	}
	fmt.Fprintf(&b, "%s\n\n", r.Alert)
	field("severity", string(r.Severity))
	field("pack", fmt.Sprintf("%s (%s:%d)", r.Pack, r.File, r.Line))
	field("streams", r.From.String())
	froms := r.OwnFroms()
	for _, part := range slices.Sorted(maps.Keys(froms)) {
		field("  of "+part, froms[part])
	}
	field("alert per", strings.Join(r.By, ", "))
	for _, a := range r.Annotations {
		field(a.Name, inWords(a.Template))
	}
	if r.Silent > 0 {
		field("fires", fmt.Sprintf("when a key that was seen had no matching line for %s", r.Silent))
	}
	field("resolves", resolvesText(r))
	for i := range r.Causes {
		field("symptom of", r.Causes[i].Alert+" "+r.Causes[i].Text())
	}
	if r.Remediation.Summary != nil {
		field("what to do", inWords(r.Remediation.Summary))
	}
	for i, s := range r.Remediation.Steps {
		field("", "")
		field(fmt.Sprintf("  %d.", i+1), inWords(s))
	}
	field("runbook", r.Remediation.RunbookURL)
	for _, a := range r.Remediation.Affects {
		text := a.Component + " " + a.Versions
		if a.FixedIn != "" {
			text += ", fixed in " + a.FixedIn
		}
		if a.Ref != "" {
			text += " (" + a.Ref + ")"
		}
		field("affects", text)
	}
	for _, v := range r.Verified {
		field("verified", v.Component+" "+v.Versions)
	}
	fmt.Fprintf(&b, "\n%s\n", strings.TrimRight(withoutTexts(r.Source), "\n"))
	_, err := io.WriteString(w, b.String())
	return err
}

// withoutTexts removes annotations and remediation from the source of a rule, unless they are
// in flow style.
func withoutTexts(source string) string {
	var b strings.Builder
	omit := false
	for line := range strings.Lines(source) {
		bare := strings.TrimLeft(line, " ")
		if indent := len(line) - len(bare); indent <= 2 && !strings.HasPrefix(bare, "\n") && !(omit && strings.HasPrefix(bare, "#")) {
			omit = strings.HasPrefix(bare, "annotations:") || strings.HasPrefix(bare, "remediation:")
		}
		if !omit {
			b.WriteString(line)
		}
	}
	return b.String()
}

// inWords returns the text of a template, with the names of values in capitals.
func inWords(t *rules.Template) string {
	return t.DocumentText(strings.ToUpper, func(text string) string { return text })
}

func resolvesText(r *rules.Rule) string {
	if r.Silent > 0 {
		return fmt.Sprintf("with the next matching line, at the latest %s after the alert starts", model.Duration(r.Expire))
	}
	if r.Clear != nil {
		return fmt.Sprintf("when a line reports the recovery, at the latest %s after the last matching line", model.Duration(r.Expire))
	}
	return fmt.Sprintf("%s after the last matching line", model.Duration(r.KeepFiringFor))
}

// WriteOrigin writes the effective values of a rule that can be overridden, and where each of
// them comes from.
func WriteOrigin(w io.Writer, r *rules.Rule) error {
	values := map[string]string{
		"severity": string(r.Severity), "enabled": string(r.Mode), "scope": string(r.Scope),
		"count": fmt.Sprint(r.Count), "within": model.Duration(r.Within).String(), "for": model.Duration(r.For).String(),
		"limit": fmt.Sprint(r.Limit), "by": strings.Join(r.By, ", "), "distinct": r.Distinct, "origin": string(r.LineOrigin()),
	}
	if r.Silent > 0 {
		values["silent"] = model.Duration(r.Silent).String()
	}
	if r.Expires() {
		values["expire"] = model.Duration(r.Expire).String()
	} else {
		values["keep_firing_for"] = model.Duration(r.KeepFiringFor).String()
	}
	setBy := r.SetBy()
	for key := range setBy {
		if _, ok := values[key]; !ok {
			values[key] = "(above)"
		}
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVALUE\tFROM")
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", key, cmp.Or(values[key], "-"), cmp.Or(setBy[key], "default"))
	}
	return t.Flush()
}
