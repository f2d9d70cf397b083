// Package notified remembers for which times alerts were notified, so that a failure that
// becomes known late is not notified twice.
//
// Nothing in it is safe for concurrent use. Times are nanoseconds since 1970.
package notified

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/quota"
)

// Span is a time for which an alert was notified, and when its end was concluded.
type Span struct{ From, To, Concluded int64 }

// Bounds of what is remembered.
const (
	maxSpans  = 8 // per alert
	maxAlerts = 4096
)

// Spans remembers the newest spans of the newest alerts, by fingerprint.
type Spans struct {
	alerts *simplelru.LRU[uint64, []Span]
}

// New remembers nothing.
func New() Spans { return Spans{quota.NewLRU[uint64, []Span](maxAlerts)} }

// Add remembers a span of an alert.
func (s Spans) Add(alert uint64, x Span) {
	known, _ := s.alerts.Get(alert)
	if len(known) >= maxSpans {
		known = slices.Delete(known, 0, 1)
	}
	s.alerts.Add(alert, append(known, x))
}

// Overlap reports whether an alert was notified for a part of the time between from and
// to.
func (s Spans) Overlap(alert uint64, from, to int64) bool {
	known, _ := s.alerts.Get(alert)
	return slices.ContainsFunc(known, func(x Span) bool { return x.From < to && from < x.To })
}

// ConcludedAt returns the spans of an alert that ended by until and whose end was
// concluded at a time, the oldest first.
func (s Spans) ConcludedAt(alert uint64, at, until int64) (out []Span) {
	known, _ := s.alerts.Get(alert)
	for _, x := range known {
		if x.Concluded == at && x.To <= until {
			out = append(out, x)
		}
	}
	return out
}

// Move adds by to the times of all spans, but not to when they were concluded.
func (s Spans) Move(by int64) {
	for _, alert := range s.alerts.Keys() { // from the oldest: the order of use stays
		known, _ := s.alerts.Get(alert)
		for i := range known {
			known[i].From += by
			known[i].To += by
		}
	}
}
