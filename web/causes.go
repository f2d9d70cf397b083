package web

import (
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// Cause is the alert of which an episode is a symptom, in the format of the API.
type Cause struct {
	Fingerprint string            `json:"fingerprint"`
	Alert       string            `json:"alert"`
	Severity    string            `json:"severity,omitempty"`
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary,omitempty"`
	StartsAt    time.Time         `json:"startsAt"`
}

func toCause(c *episodes.Cause) *Cause {
	if c == nil {
		return nil
	}
	return &Cause{Fingerprint: c.Fingerprint.String(), Alert: c.Alert, Severity: c.Severity, Labels: notNilMap(c.Labels), Summary: c.Summary, StartsAt: c.StartsAt}
}

// symptomsByCause returns the open symptoms of each cause, in the order of all.
func symptomsByCause(all []episodes.Episode) map[episodes.Fingerprint][]episodes.Episode {
	out := map[episodes.Fingerprint][]episodes.Episode{}
	for _, e := range all {
		if e.Cause != nil && isEpisodeOpen(e) {
			out[e.Cause.Fingerprint] = append(out[e.Cause.Fingerprint], e)
		}
	}
	return out
}

// SymptomOf is one entry of a rule's symptom_of, in the format of the API.
type SymptomOf struct {
	Alert string `json:"alert"`
	// SharedLabels are the labels that must agree. If SharedLabels is absent, the names that are in the keys of both
	// rules must agree.
	SharedLabels []string `json:"same,omitempty"`
	// AnyLabels is set if no labels have to agree.
	AnyLabels bool    `json:"anyLabels,omitempty"`
	Lag       float64 `json:"lag,omitempty"` // lag between cause and symptom in seconds
	// Text describes the entry for people.
	Text string `json:"-"`
}

func toSymptomOf(r *rules.Rule) []SymptomOf {
	var out []SymptomOf
	for i := range r.Causes {
		c := &r.Causes[i]
		out = append(out, SymptomOf{Alert: c.Alert, SharedLabels: c.Same, AnyLabels: c.Same != nil && len(c.Same) == 0, Lag: c.Lag.Seconds(), Text: c.Text()})
	}
	return out
}

func causesBySymptom(set *rules.Set) map[string][]string {
	out := map[string][]string{}
	for _, r := range set.Rules {
		for i := range r.Causes {
			if of := r.Causes[i].Alert; !slices.Contains(out[of], r.Alert) {
				out[of] = append(out[of], r.Alert)
			}
		}
	}
	return out
}
