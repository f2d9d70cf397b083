package sentinel

import (
	"slices"

	"crowsnest/episodes"
)

// echoWithin is the greatest time in seconds between the starts of a rule's alert and of a
// failure if both are to count as the same failure. The start of a failure may be known only to
// an interval of five minutes.
const echoWithin = slotSeconds

// reportEvery is the interval in seconds at which Config.Alerts is called while there is a
// failure.
const reportEvery = 30

// maxReported bounds the number of rule alerts that are compared.
const maxReported = 1000

// reported is an alert of a rule.
type reported struct {
	labels map[string]string
	at     int64
}

// Explain replaces the known alerts of rules. A failure that began together with an alert about
// the same component is not reported, because the rule reports it.
func (s *Sentinel) Explain(alerts []episodes.Episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explain(alerts)
}

func (s *Sentinel) explain(alerts []episodes.Episode) {
	s.reported = s.reported[:0]
	for i := range alerts {
		if x := &alerts[i]; x.Alert != AlertName && len(s.reported) < maxReported {
			s.reported = append(s.reported, reported{x.Labels, x.StartsAt.Unix()})
		}
	}
}

// echoes reports whether a failure began together with an alert of a rule about the same
// component.
func (s *Sentinel) echoes(f *finding) bool {
	if s.cfg.Alerts != nil && (s.reportedAt == 0 || s.clock < s.reportedAt || s.clock-s.reportedAt >= reportEvery) {
		s.reportedAt = s.clock
		s.explain(slices.DeleteFunc(s.cfg.Alerts(), func(x episodes.Episode) bool { return x.FiredAt.IsZero() }))
	}
	began := f.since()
	return slices.ContainsFunc(s.reported, func(x reported) bool {
		return x.at-began <= echoWithin && began-x.at <= echoWithin && f.component.has(x.labels)
	})
}

// has reports whether the labels of an alert name this component and no other.
func (c *component) has(labels map[string]string) bool {
	named := false
	for name, value := range c.labels {
		switch got := labels[name]; {
		case got == "":
		case got != value:
			return false
		case name != "namespace" && name != "cluster":
			named = true
		}
	}
	pod := labels["pod"]
	return named || pod != "" && labels["namespace"] == c.namespace() && slices.ContainsFunc(c.podsSeen, func(p podSeen) bool { return p.Name == pod })
}
