package rules

// An alert named CauseKnown informs Alertmanager that the alert of a symptom need not be
// notified, because its cause is. It has the labels of the symptom, except for those that
// every alert has; instead it has the labels below.
const (
	CauseKnown = "CrowsnestCauseKnown"

	LabelSymptom         = "symptom"          // alertname of the symptom
	LabelSymptomSeverity = "symptom_severity" // severity of the symptom
	LabelCauseSeverity   = "cause_severity"   // severity of the cause
)

// Covers reports whether an alert of severity s may stand for one of severity o: it is not
// less severe, and somebody is notified of both.
func (s Severity) Covers(o Severity) bool {
	rank := map[Severity]int{SeverityCritical: 3, SeverityWarning: 2, SeverityInfo: 1}
	return rank[o] > 0 && rank[s] >= rank[o]
}

// Inhibits reports whether the alerts of r may stand for those of a symptom.
func (r *Rule) Inhibits(symptom *Rule) bool {
	return r.Mode == ModeOn && symptom.Mode == ModeOn && r.Severity.Covers(symptom.Severity)
}
