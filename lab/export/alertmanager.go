package export

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/yamltext"
	"crowsnest/rules"
)

// InhibitOptions configures InhibitionRules.
type InhibitOptions struct {
	// Keep selects the rules whose alerts are symptoms. Nil selects all rules.
	Keep func(*rules.Rule) bool
	// Strict refuses rules that would otherwise be exported with a warning.
	Strict bool
	// Identity are the labels of global.identity, and External are the labels that crowsnest adds to every alert. An
	// alert inhibits only alerts with the same values of all these labels.
	Identity, External []string
}

// InhibitRule is an inhibition rule of Alertmanager. Its matchers are in Alertmanager's syntax.
type InhibitRule struct {
	Comment        string
	Source, Target []string
	Equal          []string
}

// Inhibitions are rules with which Alertmanager does not send notifications about symptoms. They are in the order of
// the rules of the set.
type Inhibitions struct {
	Rules        []InhibitRule
	RefusedRules []Finding
	Warnings     []Finding
	Symptoms     int // number of rules whose alerts can be inhibited
}

// maxAlertLabels is the maximum number of labels of an alert.
const maxAlertLabels = 20

// InhibitionRules exports the causes of rules as inhibition rules. The source of such a rule is not the alert of the
// cause, because Alertmanager does not know which alert came first. The source is an additional alert, which crowsnest
// sends while the cause of an alert is open.
func InhibitionRules(set *rules.Set, opt InhibitOptions) Inhibitions {
	out := Inhibitions{}
	var pairs []InhibitRule
	for _, r := range set.Rules {
		if len(r.Causes) == 0 || opt.Keep != nil && !opt.Keep(r) {
			continue
		}
		causes, refused := inhibitingCauses(set, r)
		if why := whyUnmarkable(r, opt); why != "" {
			causes, refused = nil, []string{why}
		}
		if len(causes) == 0 || opt.Strict && len(refused) > 0 {
			out.RefusedRules = append(out.RefusedRules, Finding{r, strings.Join(refused, "; ")})
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

// inhibitingCauses returns the causes of r whose alerts may suppress the alerts of r. refused lists the reasons why
// other causes may not.
func inhibitingCauses(set *rules.Set, r *rules.Rule) (causes []*rules.Rule, refused []string) {
	if r.Mode != rules.ModeOn {
		return nil, []string{"it sends no alerts, because enabled is " + string(r.Mode)}
	}
	for i := range r.Causes {
		c := &r.Causes[i]
		cause := set.Rule(c.Alert)
		switch {
		case cause == nil:
			refused = append(refused, fmt.Sprintf("no loaded pack has the rule %s, which is a cause of this rule", c.Alert))
		case cause.Mode != rules.ModeOn:
			refused = append(refused, fmt.Sprintf("its cause %s sends no alerts, because enabled is %s", c.Alert, cause.Mode))
		case !cause.Inhibits(r):
			refused = append(refused, fmt.Sprintf("its cause %s (%s) is less severe than the rule (%s)", c.Alert, cause.Severity, r.Severity))
		default:
			causes = append(causes, cause)
		}
	}
	return causes, refused
}

// whyUnmarkable returns the reason why alerts of r cannot have the labels that mark a known cause, or "" if they can.
func whyUnmarkable(r *rules.Rule, opt InhibitOptions) string {
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

// symptomRules returns two inhibition rules. The first one inhibits the alert of the symptom. The second one inhibits
// the source alert of the first, so that nobody is notified about that alert.
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
		{Comment: fmt.Sprintf("%s, while an alert about its cause fires: %s.", r.Alert, strings.Join(names, ", ")), Source: known, Target: alert, Equal: equal},
		{Source: alert, Target: known, Equal: equal},
	}
}

func matcherText(name, op, value string) string { return name + op + strconv.Quote(value) }

// WriteInhibitions writes the section inhibit_rules of Alertmanager's configuration. It writes comment above the
// section, line by line.
func (x Inhibitions) WriteInhibitions(w io.Writer, comment string) error {
	out := commentLines(comment) + "inhibit_rules:"
	if len(x.Rules) == 0 {
		out += " []"
	}
	out += "\n"
	for _, r := range x.Rules {
		rule := yamltext.Map{{Key: "source_matchers", Value: quotedList(r.Source)}, {Key: "target_matchers", Value: quotedList(r.Target)}}
		if len(r.Equal) > 0 {
			rule.Add("equal", quotedList(r.Equal))
		}
		out += commentLines(r.Comment) + yamltext.List{rule}.String()
	}
	_, err := io.WriteString(w, out)
	return err
}

func quotedList(list []string) yamltext.Raw {
	out := make([]string, len(list))
	for i, s := range list {
		if out[i] = s; strings.ContainsRune(s, '"') {
			out[i] = yamltext.Quote(s)
		}
	}
	return yamltext.Raw("[" + strings.Join(out, ", ") + "]")
}

// Summary lists the rules that were not exported with the reasons, one line for each finding.
func (x Inhibitions) Summary() string { return summarize(x.Symptoms, x.RefusedRules, x.Warnings) }
