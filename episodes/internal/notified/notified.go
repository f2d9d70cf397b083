// Package notified remembers the times for which alerts were notified, so that a failure that
// is found late is not notified again.
//
// Nothing in it is safe for concurrent use. Times are nanoseconds since 1970.
package notified

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/quota"
)

// Span is the time for which an alert was notified as firing, from the start to the end of the episode. Concluded is
// the clock's time when the engine concluded the end.
type Span struct{ From, To, Concluded int64 }

// Limits of the remembered spans.
const (
	maxSpans  = 8 // maximum number of spans per alert
	maxAlerts = 4096
)

// Spans remembers the newest spans of recently notified alerts, by fingerprint.
type Spans struct {
	alerts *simplelru.LRU[uint64, []Span]
}

// New returns an empty memory.
func New() Spans { return Spans{quota.NewLRU[uint64, []Span](maxAlerts)} }

// Add remembers a span of the alert with this fingerprint.
func (s Spans) Add(alert uint64, x Span) {
	known, _ := s.alerts.Get(alert)
	if len(known) >= maxSpans {
		known = slices.Delete(known, 0, 1)
	}
	s.alerts.Add(alert, append(known, x))
}

// Overlap reports whether a remembered span of the alert overlaps the time between start and end.
func (s Spans) Overlap(alert uint64, start, end int64) bool {
	known, _ := s.alerts.Get(alert)
	return slices.ContainsFunc(known, func(x Span) bool { return x.From < end && start < x.To })
}

// ConcludedAt returns the spans of an alert that ended by until and whose end was concluded at t, the oldest first.
func (s Spans) ConcludedAt(alert uint64, t, until int64) (out []Span) {
	known, _ := s.alerts.Get(alert)
	for _, x := range known {
		if x.Concluded == t && x.To <= until {
			out = append(out, x)
		}
	}
	return out
}

// Move adds delta to the times of all spans, except the times when they were concluded.
func (s Spans) Move(delta int64) {
	for _, alert := range s.alerts.Keys() { // this order preserves the order of last use, which the loop changes
		known, _ := s.alerts.Get(alert)
		for i := range known {
			known[i].From += delta
			known[i].To += delta
		}
	}
}
