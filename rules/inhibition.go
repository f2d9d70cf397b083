package rules

// An alert named CauseKnown informs Alertmanager that nobody needs a notification for a
// symptom, because there is one for its cause. It has the labels of the symptom, but the labels
// below replace those that every alert has.
const (
	CauseKnown = "CrowsnestCauseKnown"

	LabelSymptom         = "symptom"          // alertname of the symptom
	LabelSymptomSeverity = "symptom_severity" // severity of the symptom
	LabelCauseSeverity   = "cause_severity"   // severity of the cause
)

// Covers reports whether an alert of severity s may stand for one of severity o. Severity s
// must be at least as severe, and both severities must notify somebody.
func (s Severity) Covers(o Severity) bool {
	rank := map[Severity]int{SeverityCritical: 3, SeverityWarning: 2, SeverityInfo: 1}
	return rank[o] > 0 && rank[s] >= rank[o]
}

// Inhibits reports whether the alerts of r may stand for the alerts of symptom.
func (r *Rule) Inhibits(symptom *Rule) bool {
	return r.Mode == ModeOn && symptom.Mode == ModeOn && r.Severity.Covers(symptom.Severity)
}
