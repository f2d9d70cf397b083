package replay

import (
	"maps"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// timeless knows the moments of hits of inputs in which no line states a time. The engine needs
// times, and a report must not show them.
type timeless struct {
	newest  time.Time // newest time of hits whose lines state one
	moments map[int64]bool
}

// settle moves hits without a time right behind the newest one that has a time, to a moment that
// no line states. They are of now only if no input has a time.
func (u *timeless) settle(hits []matcher.Hit) {
	for i := range hits {
		h := &hits[i]
		switch {
		case !h.Untimed:
			u.newest = h.Time
			continue
		case !u.newest.IsZero():
			h.Time = u.newest.Add(1)
		}
		if u.moments == nil {
			u.moments = map[int64]bool{}
		}
		u.moments[h.Time.UnixNano()] = true
	}
}

// at reports whether a time is none that a line states.
func (u *timeless) at(t time.Time) bool { return len(u.moments) > 0 && u.moments[t.UnixNano()] }

// has reports whether lines of an episode state no time, so that nobody knows how long it lasts.
func (u *timeless) has(x *episodes.Episode) bool { return u.at(x.StartsAt) || u.at(x.LastSeen) }

// silences reports whether the end of an episode is only that no line follows the last one, of
// which nobody knows how long ago it is.
func (u *timeless) silences(x *episodes.Episode) bool {
	return x.State == episodes.StateResolved && x.Reason != episodes.ReasonClear && u.at(x.LastSeen)
}

// forget sets the times of an episode to zero that no line states.
func (u *timeless) forget(x *episodes.Episode) {
	if !u.has(x) {
		return
	}
	x.FiredAt, x.Annotations = time.Time{}, maps.Clone(x.Annotations)
	for _, t := range []struct {
		time       *time.Time
		annotation string
	}{{&x.StartsAt, "first_seen"}, {&x.LastSeen, "last_seen"}, {&x.EndsAt, ""}} {
		if u.at(*t.time) {
			*t.time = time.Time{}
			delete(x.Annotations, t.annotation)
		}
	}
	if c := x.Cause; c != nil && u.at(c.StartsAt) {
		of := *c
		of.StartsAt = time.Time{}
		x.Cause = &of
	}
}

// asksForTime reports whether a rule fires only if its lines are within a time, or the failure
// lasts for one.
func asksForTime(r *rules.Rule) bool { return r.Within > 0 || r.For > 0 || r.Silent > 0 }
