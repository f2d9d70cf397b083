package export

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/rules"
)

// setTexts sets the labels and annotations. Rules use the template language of Prometheus, so $labels and $value keep
// their meaning. Templates with values that the engine cannot provide are omitted.
func (t *translation) setTexts(labels []string) {
	r := t.rule
	t.out.Labels = map[string]string{"severity": string(r.Severity), "resolves": r.Resolves()}
	for _, l := range r.Labels {
		if why := t.findUnknown(l.Template, labels); why != "" {
			t.refuse("label %s: %s", l.Name, why)
			continue
		}
		t.out.Labels[l.Name] = l.Template.Source()
	}
	t.out.Annotations = map[string]string{}
	t.addRemediation(labels)
	for _, a := range r.Annotations {
		if why := t.findUnknown(a.Template, labels); why != "" {
			t.warn("annotation %s is omitted: %s", a.Name, why)
			continue
		}
		t.out.Annotations[a.Name] = a.Template.Source()
	}
	if t.out.Annotations["summary"] == "" {
		t.out.Annotations["summary"] = t.plainSummary(labels)
	}
}

// plainSummary returns a summary that consists of the rule's name and of the labels that have a value.
func (t *translation) plainSummary(labels []string) string {
	out := t.rule.Alert + " fires"
	if labels == nil {
		return out + ": crowsnest knows where"
	}
	for _, name := range labels {
		out += fmt.Sprintf("{{ with $labels.%s }}, %s {{ . }}{{ end }}", name, name)
	}
	return out
}

// findUnknown returns the reason why the other engine cannot execute a template, or "" if it can. labels are the labels
// of the engine's alerts.
func (t *translation) findUnknown(tmpl *rules.Template, labels []string) string {
	switch {
	case tmpl.UsesLine():
		return "it shows $line, and the engine does not know the log line"
	case tmpl.UsesError():
		return "it shows $error, and the engine does not know the log line"
	case len(tmpl.Vars()) > 0:
		return fmt.Sprintf("it shows $vars.%s, and the engine has only the labels of the alert", tmpl.Vars()[0])
	case tmpl.UsesValue() && strings.Contains(tmpl.Source(), "printf"):
		return "it formats $value with printf, but in the engine $value is a floating-point number"
	}
	for _, name := range tmpl.Labels() {
		if !slices.Contains(labels, name) {
			return fmt.Sprintf("it shows $labels.%s, which is not a label of the query result", name)
		}
	}
	return ""
}

// addRemediation adds the same remediation annotations that crowsnest adds to its alerts.
func (t *translation) addRemediation(labels []string) {
	rem := t.rule.Remediation
	var lines []string
	if rem.Summary != nil {
		if why := t.findUnknown(rem.Summary, labels); why != "" {
			t.warn("the summary of the remediation is omitted: %s", why)
		} else {
			lines = append(lines, rem.Summary.Source())
		}
	}
	step := 0
	for i, s := range rem.Steps {
		if why := t.findUnknown(s, labels); why != "" {
			t.warn("step %d of the remediation is omitted: %s", i+1, why)
			continue
		}
		step++
		lines = append(lines, fmt.Sprintf("%d. %s", step, s.Source()))
	}
	put := func(name, value string) {
		if value != "" {
			t.out.Annotations[name] = value
		}
	}
	put("remediation", strings.Join(lines, "\n"))
	put("runbook_url", rem.RunbookURL)
	if len(rem.Affects) > 0 {
		v := rem.Judge("")
		put("affected", v.Affected+": "+v.Text)
		put("fixed_in", v.FixedIn)
	}
}
