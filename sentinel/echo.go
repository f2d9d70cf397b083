package sentinel

import (
	"slices"

	"crowsnest/episodes"
)

// echoWithin is how far apart, in seconds, an alert of a rule and a failure begin that are
// the same one: the time of a failure may be that of its interval of five minutes.
const echoWithin = slotSeconds

// reportEvery is how often the alerts of rules are asked for, in seconds, while there is a
// failure.
const reportEvery = 30

// maxReported bounds the alerts of rules that are compared.
const maxReported = 1000

// reported is an alert of a rule.
type reported struct {
	labels map[string]string
	at     int64
}

// Explain states the alerts of rules, instead of those of the last call. A failure of the
// same component that began when one of them did is not reported: the rule reports it.
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

// echoes reports whether a failure began with an alert of a rule about its component.
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

// has reports whether the labels of an alert name the component, and no other one.
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
