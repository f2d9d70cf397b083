package times

import (
	"slices"
	"time"
)

const (
	// maxPeriods bounds the remembered steps of a clock.
	maxPeriods = 16
	// noticed is how late a step of the clock is noticed: lines of that time already have the new time.
	noticed = time.Second
	// unsaved bounds the time between the last save of a process and its end, in which lines were written.
	unsaved = time.Minute
)

// Stamps tells which time a timestamp means by a clock that was set meanwhile. The zero value is that of a clock that was
// never set.
type Stamps struct {
	// Periods are the times between two steps of the clock, the oldest first, except for the present one.
	Periods []Period `json:"periods,omitempty"`
}

// Period is the time until a step of the clock.
type Period struct {
	// Until is when the period ended, by the present clock.
	Until time.Time `json:"until"`
	// Shift is what to add to timestamps of the period for times by the present clock.
	Shift time.Duration `json:"shift"`
}

// Set records that the clock was set ahead by d, or back if d is negative, and shows now.
func (s *Stamps) Set(d time.Duration, now time.Time) {
	out := make([]Period, 0, len(s.Periods)+1) // a snapshot may share the old ones
	for _, p := range s.Periods[max(0, len(s.Periods)-maxPeriods+1):] {
		out = append(out, Period{p.Until.Add(d), p.Shift + d})
	}
	s.Periods = append(out, Period{now.Round(0), d})
}

// Own returns the time of a timestamp that this clock made, and how far that is from the timestamp because the clock was
// set. A time never lies ahead of now. Of the times that are possible, Own returns the newest.
func (s *Stamps) Own(t, now time.Time) (at time.Time, moved time.Duration) {
	n := len(s.Periods)
	if n == 0 || !t.After(now) && t.After(s.Periods[n-1].Until.Add(-noticed)) {
		return Earlier(t, now), 0
	}
	for i, p := range slices.Backward(s.Periods) {
		if x := t.Add(p.Shift); !x.After(p.Until) && (i == 0 || x.After(s.Periods[i-1].Until)) {
			return x, p.Shift
		}
	}
	if last := s.Periods[n-1]; !t.Add(last.Shift-unsaved).After(last.Until) && t.Add(last.Shift).After(last.Until) {
		at = Earlier(t.Add(last.Shift), now)
		return at, at.Sub(t) // the clock was set while nothing watched it
	}
	return Earlier(s.Other(t, now), now), 0 // the clock of another machine
}

// Other returns the time of a timestamp that the clock of another machine made. That clock may agree with the present time
// of this one, or with the time before it was set: of the times up to now that the timestamp can mean, Other returns the
// newest.
func (s *Stamps) Other(t, now time.Time) time.Time {
	out, found := t, !t.After(now)
	for _, p := range s.Periods {
		if x := t.Add(p.Shift); !x.After(now) && (!found || x.After(out)) {
			out, found = x, true
		}
	}
	return out
}
