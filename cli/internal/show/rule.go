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

	"crowsnest/internal/strictyaml"
	"crowsnest/internal/text"
	"crowsnest/lab/importer"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// WriteRule writes a rule as text. It begins with the parts that a person on call needs. The source of the rule without
// these parts follows.
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
	froms := r.OwnSelectors()
	for _, part := range slices.Sorted(maps.Keys(froms)) {
		field("  of "+part, froms[part])
	}
	field("alert per", strings.Join(r.By, ", "))
	for _, a := range r.Annotations {
		field(a.Name, inWords(a.Template))
	}
	if r.Silent > 0 {
		field("fires", fmt.Sprintf("when a key that had lines before has had no matching line for %s", r.Silent))
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

// withoutTexts removes annotations and remediation from the source of a rule in block style.
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

// inWords returns the text of a template. Names of values are in capitals and replace the values.
func inWords(t *rules.Template) string {
	return t.DocumentText(strings.ToUpper, func(text string) string { return text })
}

func resolvesText(r *rules.Rule) string {
	if r.Silent > 0 {
		return fmt.Sprintf("when a matching line is read again, or %s after the alert starts", model.Duration(r.Expire))
	}
	if r.Clear != nil {
		return fmt.Sprintf("when a line reports the recovery, or %s after the last matching line", model.Duration(r.Expire))
	}
	return fmt.Sprintf("%s after the last matching line", model.Duration(r.KeepFiringFor))
}

// WriteOrigin writes the effective values of a rule, and the place where each value is set.
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

// LineRedactor redacts secrets in the explanation of one line, because people paste explanations into tickets. The zero
// value redacts nothing.
type LineRedactor struct {
	red    *redact.Redactor
	line   string
	hidden redact.Text
}

// NewLineRedactor returns a LineRedactor for the explanation of a line.
func NewLineRedactor(line string) LineRedactor {
	red := redact.New(nil)
	return LineRedactor{red: red, line: line, hidden: red.Text(line)}
}

// Explanation redacts e, which must be an explanation of the line, in place.
func (v LineRedactor) Explanation(e *matcher.Explanation) {
	if v.red == nil {
		return
	}
	e.Text = string(v.red.Text(e.Text))
	v.redactValues(e.Fields)
	for i := range e.Fields { // a token that ends with = may be the name of a field
		e.Fields[i].Name = v.redactPart(e.Fields[i].Name)
	}
	for i := range e.Parts {
		v.redactValues(e.Parts[i].Values)
		v.redactConditions(e.Parts[i].Conditions)
	}
}

func (v LineRedactor) redactPart(s string) string { return string(v.red.Part(v.line, v.hidden, s)) }

func (v LineRedactor) redactValues(all []matcher.NamedValue) {
	for i := range all {
		if all[i].Source != "label" {
			all[i].Value = v.redactPart(all[i].Value)
		}
	}
}

func (v LineRedactor) redactConditions(all []matcher.Condition) {
	for i := range all {
		c := &all[i]
		c.Got = v.redactPart(c.Got)
		v.redactValues(c.Captures)
		v.redactConditions(c.Conditions)
	}
}

// FindRule returns the rule with this name. If there is none, the error names rules with similar names.
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

// WriteImported writes the outcome for each rule of an import, followed by a summary.
func WriteImported(w io.Writer, r importer.Result) error {
	var b strings.Builder
	for _, o := range r.Outcomes {
		name := cmp.Or(o.ID, o.Title)
		if o.Title != "" && o.Title != name {
			name += " (" + o.Title + ")"
		}
		place := o.File
		if o.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", o.File, o.Line, max(o.Column, 1))
		}
		fmt.Fprintf(&b, "%-9s  %s", o.Status, place)
		if name != "" {
			fmt.Fprintf(&b, ": %s", name)
		}
		if o.Alert != "" {
			fmt.Fprintf(&b, " -> %s", o.Alert)
		}
		b.WriteByte('\n')
		for _, reason := range o.Reasons {
			fmt.Fprintf(&b, "           %s\n", text.Truncate(reason, maxReason))
		}
	}
	fmt.Fprintf(&b, "%s converted, %d with a warning, %d refused, %s skipped; %s\n",
		text.Plural(int64(r.Count(importer.Converted)), "rule"), r.Count(importer.Warned), r.Count(importer.Refused), text.Plural(int64(r.Count(importer.Skipped)), "file"), text.Plural(int64(len(r.Packs)), "pack"))
	_, err := io.WriteString(w, b.String())
	return err
}

const maxReason = 1000
