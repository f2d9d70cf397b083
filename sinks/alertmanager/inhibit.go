package alertmanager

import (
	"cmp"
	"fmt"
	"maps"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// withMarks returns the episodes together with alerts of the rule rules.CauseKnown. Such an alert is a mark. It says
// that crowsnest knows the cause of a symptom and that the cause has an alert. The inhibit rules that `crowsnest export
// alertmanager` writes let a mark inhibit its symptom, and inhibit notifications of the mark. The symptom's own alert
// does not change, and is inhibited exactly as long as crowsnest knows the cause. Without inhibit, withMarks ends the
// marks that were sent before a restart.
func withMarks(eps []episodes.Episode, inhibit bool) []episodes.Episode {
	out := eps[:len(eps):len(eps)]
	for i := range eps {
		ep := &eps[i]
		if !inhibit && (ep.Rule == nil || len(ep.Rule.Causes) == 0) {
			continue
		}
		if !ep.Overflow {
			for _, severity := range []rules.Severity{rules.SeverityCritical, rules.SeverityWarning, rules.SeverityInfo} {
				if m, ok := markSymptom(ep, severity); ok {
					if !inhibit {
						m.State, m.Annotations = episodes.StateDropped, nil
					}
					out = append(out, m)
				}
			}
		}
	}
	return out
}

// markSymptom returns the mark of a symptom whose cause has this severity. The mark is firing, or dropped, which ends a
// mark that was sent. It returns false if the symptom has too many labels to add another.
func markSymptom(ep *episodes.Episode, cause rules.Severity) (episodes.Episode, bool) {
	labels := maps.Clone(ep.Labels)
	for _, name := range []string{rules.LabelSymptom, rules.LabelSymptomSeverity, rules.LabelCauseSeverity} {
		if _, has := labels[name]; has {
			return episodes.Episode{}, false
		}
	}
	delete(labels, "resolves")
	labels["alertname"], labels["severity"] = rules.CauseKnown, string(rules.SeverityNone)
	labels[rules.LabelSymptom], labels[rules.LabelSymptomSeverity] = ep.Labels["alertname"], ep.Labels["severity"]
	labels[rules.LabelCauseSeverity] = string(cause)
	m := episodes.Episode{
		Fingerprint: episodes.FingerprintOf(labels), Alert: rules.CauseKnown, State: episodes.StateDropped,
		Labels: labels, StartsAt: ep.StartsAt, LastSeen: ep.StartsAt, Tenant: ep.Tenant,
	}
	if ep.State == episodes.StateFiring && ep.Inhibit && ep.Cause != nil && ep.Cause.Severity == string(cause) && cause.Covers(rules.Severity(ep.Labels["severity"])) {
		m.State, m.FiredAt = episodes.StateFiring, ep.FiredAt
		m.Annotations = map[string]string{
			"summary":         fmt.Sprintf("%s is a symptom of %s, which fires: nobody needs to be notified of it", ep.Alert, ep.Cause.Alert),
			"description":     "This alert is for the inhibition rules that `crowsnest export alertmanager` writes. If you are notified of it, Alertmanager does not have these rules.",
			"cause_alertname": ep.Cause.Alert, "cause_fingerprint": ep.Cause.Fingerprint.String(), "cause_summary": cmp.Or(ep.Cause.Summary, ep.Cause.Alert),
		}
	}
	return m, true
}
