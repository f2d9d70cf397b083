package replay

import (
	"maps"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// timeless records which times of hits come from no timestamp. The engine needs a time for every hit, but a report must
// not show such times.
type timeless struct {
	newest  time.Time // time of the newest hit with a timestamp
	moments map[int64]bool
}

// moveUndated sets the times of hits without a timestamp to just after the newest timestamp. If no input has a
// timestamp, the hits keep the current time.
func (u *timeless) moveUndated(hits []matcher.Hit) {
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

// isTimeless reports whether t is a time that stands in no line.
func (u *timeless) isTimeless(t time.Time) bool { return len(u.moments) > 0 && u.moments[t.UnixNano()] }

// isUndated reports whether a line of an episode has no timestamp, so that the duration of the episode is not known.
func (u *timeless) isUndated(x *episodes.Episode) bool {
	return u.isTimeless(x.StartsAt) || u.isTimeless(x.LastSeen)
}

// endsBySilence reports whether an episode ended only because no further line followed, and the time of its last line
// is not known.
func (u *timeless) endsBySilence(x *episodes.Episode) bool {
	return x.State == episodes.StateResolved && x.Reason != episodes.ReasonClear && u.isTimeless(x.LastSeen)
}

// clearTimes sets the times of an episode that come from no timestamp to zero.
func (u *timeless) clearTimes(x *episodes.Episode) {
	if !u.isUndated(x) {
		return
	}
	x.FiredAt, x.Annotations = time.Time{}, maps.Clone(x.Annotations)
	for _, t := range []struct {
		time       *time.Time
		annotation string
	}{{&x.StartsAt, "first_seen"}, {&x.LastSeen, "last_seen"}, {&x.EndsAt, ""}} {
		if u.isTimeless(*t.time) {
			*t.time = time.Time{}
			delete(x.Annotations, t.annotation)
		}
	}
	if c := x.Cause; c != nil && u.isTimeless(c.StartsAt) {
		of := *c
		of.StartsAt = time.Time{}
		x.Cause = &of
	}
}

// asksForTime reports whether a rule requires that its lines occur within a duration, or that
// the failure lasts for one.
func asksForTime(r *rules.Rule) bool { return r.Within > 0 || r.For > 0 || r.Silent > 0 }
