package times

import (
	"slices"
	"time"
)

const (
	// maxPeriods is the maximum number of remembered steps of the clock.
	maxPeriods = 16
	// noticed is the maximum delay until a step of the clock is noticed. Lines that are written during the delay
	// already have the new time.
	noticed = time.Second
	// unsaved is the maximum time between the last save of a process and its end. Lines may have been written during
	// that time.
	unsaved = time.Minute
)

// Stamps converts old timestamps to the current time of a clock that was set since then. The zero value is for a clock
// that was never set.
type Stamps struct {
	// Periods are the times between two steps of the clock, the oldest first. The current period is not included.
	Periods []Period `json:"periods,omitempty"`
}

// Period is the time before a step of the clock.
type Period struct {
	// Until is the end of the period by the current clock.
	Until time.Time `json:"until"`
	// Shift is added to a timestamp of the period to get the time by the current clock.
	Shift time.Duration `json:"shift"`
}

// Set records that the clock was set ahead by d, or back if d is negative. It now shows now.
func (s *Stamps) Set(d time.Duration, now time.Time) {
	out := make([]Period, 0, len(s.Periods)+1) // copies the slice, because a snapshot may share it
	for _, p := range s.Periods[max(0, len(s.Periods)-maxPeriods+1):] {
		out = append(out, Period{p.Until.Add(d), p.Shift + d})
	}
	s.Periods = append(out, Period{now.Round(0), d})
}

// OwnTime converts a timestamp of this machine's clock to the current clock. moved is the difference to the timestamp,
// which is not zero if the clock was set since then. If several times are possible, OwnTime returns the newest one. The
// result is never after now.
func (s *Stamps) OwnTime(t, now time.Time) (at time.Time, moved time.Duration) {
	n := len(s.Periods)
	if n == 0 || !t.After(now) && t.After(s.Periods[n-1].Until.Add(-noticed)) {
		return Min(t, now), 0
	}
	for i, p := range slices.Backward(s.Periods) {
		if x := t.Add(p.Shift); !x.After(p.Until) && (i == 0 || x.After(s.Periods[i-1].Until)) {
			return x, p.Shift
		}
	}
	if last := s.Periods[n-1]; !t.Add(last.Shift-unsaved).After(last.Until) && t.Add(last.Shift).After(last.Until) {
		at = Min(t.Add(last.Shift), now)
		return at, at.Sub(t) // the clock was set while no process was running
	}
	return Min(s.OtherTime(t, now), now), 0 // the timestamp is from the clock of another machine
}

// OtherTime converts a timestamp of another machine's clock to the current clock. The other clock may agree with the
// current time of this clock, or with the time before this clock was set. If several times are possible, OtherTime
// returns the newest one up to now.
func (s *Stamps) OtherTime(t, now time.Time) time.Time {
	out, found := t, !t.After(now)
	for _, p := range s.Periods {
		if x := t.Add(p.Shift); !x.After(now) && (!found || x.After(out)) {
			out, found = x, true
		}
	}
	return out
}
