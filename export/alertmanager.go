package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/rules"
)

// InhibitOptions configure Inhibitions.
type InhibitOptions struct {
	// Keep selects symptoms; nil means all.
	Keep func(*rules.Rule) bool
	// Strict refuses rules that would otherwise be exported with a warning.
	Strict bool
	// Identity are the labels of global.identity; External are the names of the labels that
	// crowsnest adds to every alert. An alert inhibits only alerts that agree in them.
	Identity, External []string
}

// InhibitRule is a rule of Alertmanager. Matchers are in its syntax.
type InhibitRule struct {
	Comment        string
	Source, Target []string
	Equal          []string
}

// Inhibitions are rules by which Alertmanager does not notify of symptoms, in order of the
// rules of the set.
type Inhibitions struct {
	Rules    []InhibitRule
	Refused  []Finding
	Warnings []Finding
	Symptoms int // rules whose alerts can be inhibited
}

// maxAlertLabels is how many labels an alert may have.
const maxAlertLabels = 20

// Alertmanager exports the causes of rules as inhibition rules. Their sources are the alerts
// by which crowsnest says that it knows the cause of an alert, not the alerts of the causes:
// Alertmanager knows no order in time.
func Alertmanager(set *rules.Set, opt InhibitOptions) Inhibitions {
	out := Inhibitions{}
	var pairs []InhibitRule
	for _, r := range set.Rules {
		if len(r.Causes) == 0 || opt.Keep != nil && !opt.Keep(r) {
			continue
		}
		causes, refused := inhibiting(set, r)
		if why := unmarkable(r, opt); why != "" {
			causes, refused = nil, []string{why}
		}
		if len(causes) == 0 || opt.Strict && len(refused) > 0 {
			out.Refused = append(out.Refused, Finding{r, strings.Join(refused, "; ")})
			continue
		}
		for _, why := range refused {
			out.Warnings = append(out.Warnings, Finding{r, why})
		}
		out.Symptoms++
		pairs = append(pairs, symptomRules(r, causes, opt)...)
	}
	if len(pairs) > 0 {
		out.Rules = append([]InhibitRule{{
			Comment: "Nobody is notified of the alerts that only say which causes are known.",
			Source:  []string{matcherText("alertname", "=", "CrowsnestHeartbeat")},
			Target:  []string{matcherText("alertname", "=", rules.CauseKnown)},
		}}, pairs...)
	}
	return out
}

// inhibiting returns the causes that may stand for the rule's alerts, and why others may not.
func inhibiting(set *rules.Set, r *rules.Rule) (causes []*rules.Rule, refused []string) {
	if r.Mode != rules.ModeOn {
		return nil, []string{"its alerts are not sent: enabled is " + string(r.Mode)}
	}
	for i := range r.Causes {
		c := &r.Causes[i]
		cause := set.Rule(c.Alert)
		switch {
		case cause == nil:
			refused = append(refused, fmt.Sprintf("no loaded pack has its cause %s", c.Alert))
		case cause.Mode != rules.ModeOn:
			refused = append(refused, fmt.Sprintf("the alerts of its cause %s are not sent: enabled is %s", c.Alert, cause.Mode))
		case !cause.Inhibits(r):
			refused = append(refused, fmt.Sprintf("its cause %s (%s) is less severe than the rule (%s)", c.Alert, cause.Severity, r.Severity))
		default:
			causes = append(causes, cause)
		}
	}
	return causes, refused
}

// unmarkable returns why the labels of a rule leave no room for those that say that its cause
// is known; empty if they do.
func unmarkable(r *rules.Rule, opt InhibitOptions) string {
	for _, name := range []string{rules.LabelSymptom, rules.LabelSymptomSeverity, rules.LabelCauseSeverity} {
		if slices.Contains(r.AlertNames(), name) || slices.Contains(opt.External, name) || slices.Contains(opt.Identity, name) {
			return fmt.Sprintf("its alerts have a label %s, which inhibition needs", name)
		}
	}
	if n := len(r.AlertNames()) + len(opt.Identity) + 5; n > maxAlertLabels {
		return fmt.Sprintf("its alerts would need %d labels, more than %d", n, maxAlertLabels)
	}
	return ""
}

// symptomRules returns the two rules of a symptom: what inhibits it, and that nobody is
// notified of what does.
func symptomRules(r *rules.Rule, causes []*rules.Rule, opt InhibitOptions) []InhibitRule {
	equal := slices.Concat(r.AlertNames(), opt.Identity, opt.External)
	for _, name := range opt.Identity {
		equal = append(equal, "stream_"+name)
	}
	slices.Sort(equal)
	equal = slices.Compact(equal)
	names, severities := []string{}, []string{}
	for _, c := range causes {
		names = append(names, c.Alert)
	}
	for _, s := range []rules.Severity{rules.SeverityCritical, rules.SeverityWarning, rules.SeverityInfo} {
		if s.Covers(r.Severity) {
			severities = append(severities, string(s))
		}
	}
	known := []string{
		matcherText("alertname", "=", rules.CauseKnown), matcherText(rules.LabelSymptom, "=", r.Alert),
		matcherText(rules.LabelSymptomSeverity, "=", string(r.Severity)), matcherText(rules.LabelCauseSeverity, "=~", strings.Join(severities, "|")),
	}
	alert := []string{matcherText("alertname", "=", r.Alert), matcherText("severity", "=", string(r.Severity)), matcherText("overflow", "=", "")}
	return []InhibitRule{
		{Comment: fmt.Sprintf("%s, while its cause fires: %s.", r.Alert, strings.Join(names, ", ")), Source: known, Target: alert, Equal: equal},
		{Source: alert, Target: known, Equal: equal},
	}
}

// matcherText writes a matcher.
func matcherText(name, op, value string) string { return name + op + quoteYAML(value) }

// WriteInhibitions writes a part of Alertmanager's configuration. comment is written at its
// top, line by line.
func (x Inhibitions) WriteInhibitions(w io.Writer, comment string) error {
	y := &yamlWriter{}
	y.comment(comment)
	if len(x.Rules) == 0 {
		y.line("", "inhibit_rules: []")
	} else {
		y.line("", "inhibit_rules:")
	}
	for _, r := range x.Rules {
		y.comment(r.Comment)
		y.line("", "- source_matchers: "+quotedList(r.Source))
		y.line("", "  target_matchers: "+quotedList(r.Target))
		if len(r.Equal) > 0 {
			y.line("", "  equal: "+quotedList(r.Equal))
		}
	}
	_, err := w.Write(y.b.Bytes())
	return err
}

// quotedList writes a list of matchers, or of names of labels, on one line.
func quotedList(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		if out[i] = s; strings.ContainsRune(s, '"') { // what quoteYAML wrote has no control characters
			out[i] = "'" + strings.ReplaceAll(s, "'", "''") + "'"
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// Summary lists what was not exported, and why, with one line per finding.
func (x Inhibitions) Summary() string {
	var b strings.Builder
	for _, f := range x.Refused {
		fmt.Fprintf(&b, "refused %s (%s): %s\n", f.Rule.Alert, f.Rule.Pack, f.Reason)
	}
	for _, f := range x.Warnings {
		fmt.Fprintf(&b, "warning %s (%s): %s\n", f.Rule.Alert, f.Rule.Pack, f.Reason)
	}
	fmt.Fprintf(&b, "%d exported, %d refused, %s\n", x.Symptoms, len(x.Refused), text.Plural(len(x.Warnings), "warning"))
	return b.String()
}
