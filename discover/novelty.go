package discover

import (
	"slices"
	"time"
)

// Points and limits of the ranking by time. They say nothing where lines have no times, or
// where the logs are of different times.
const (
	// newPoints are for a complaint that begins after its component, or most of the others,
	// wrote for at least quietBefore without it.
	newPoints   = 2.0
	quietBefore = 10 * time.Minute
	// quietLines is how many lines the component must have written until then: an excerpt
	// proves nothing.
	quietLines = 200
	// chronicPoints are for one that lasts as long as the logs of its component, at least
	// chronicSpan: nothing changed when it began.
	chronicPoints = -1.0
	chronicSpan   = time.Hour
	chronicShare  = 0.5
	bucketSize    = 10 * time.Minute
	// firstPoints are for the new complaints that begin before all other new ones, by at most
	// togetherIn. Others may be their consequences.
	firstPoints = 0.5
	togetherIn  = 10 * time.Second
	// exitPoints are for a complaint after which a program of the same component dies, within
	// exitWithin.
	exitPoints = 0.5
	exitWithin = 2 * time.Minute
)

// activity is from when to when a component wrote lines.
type activity struct {
	first, last time.Time
	lines       int64
}

// saw extends the activity to a time.
func (a *activity) saw(at time.Time) {
	if a.first.IsZero() || at.Before(a.first) {
		a.first = at
	}
	if at.After(a.last) {
		a.last = at
	}
}

// spread counts the periods in which a pattern occurred.
type spread struct {
	last  int64
	count int
}

func (s *spread) saw(at time.Time) {
	if b := at.Unix() / int64(bucketSize/time.Second); b != s.last {
		s.last = b
		s.count++
	}
}

// byTime adjusts the points of groups by when they occurred.
func (f *Finder) byTime(all ranking) {
	var fresh ranking
	for _, g := range all {
		if g.first.IsZero() {
			continue
		}
		own := f.activityOf(g)
		switch {
		case own.first.IsZero():
		case g.first.Sub(own.first) >= quietBefore && g.before >= quietLines:
			g.adjust(newPoints, "new after %s of its component", g.first.Sub(own.first))
			fresh = append(fresh, g)
		case f.othersRan(g.first):
			g.adjust(newPoints, "its component is new", 0)
			fresh = append(fresh, g)
		case own.last.Sub(own.first) >= chronicSpan && float64(g.spread)*bucketSize.Seconds() >= chronicShare*own.last.Sub(own.first).Seconds():
			g.adjust(chronicPoints, "all the time, for %s", own.last.Sub(own.first))
		}
		for _, o := range all {
			if after := o.first.Sub(g.first); o != g && o.level == levelFatal && after > 0 && after <= exitWithin && f.sameComponent(g, o) {
				g.adjust(exitPoints, "before an exit by %s", after)
				break
			}
		}
	}
	if len(fresh) < 2 {
		return
	}
	earliest := slices.MinFunc(fresh, func(a, b *group) int { return a.first.Compare(b.first) }).first
	for _, g := range fresh {
		if g.first.Sub(earliest) <= togetherIn {
			g.adjust(firstPoints, "the first of what is new", 0)
		}
	}
}

// adjust adds points with their reason.
func (g *group) adjust(points float64, why string, d time.Duration) {
	g.base += points
	g.score = g.base
	g.why = append(g.why, reason(why, d, points))
}

// activityOf returns when the components of a group wrote lines.
func (f *Finder) activityOf(g *group) (out activity) {
	for _, s := range g.streams {
		if a := f.active[f.components[s]]; a != nil && !a.first.IsZero() {
			out.saw(a.first)
			out.saw(a.last)
		}
	}
	return out
}

// othersRan reports whether at least half of the components, and three, wrote lines before
// and after a time.
func (f *Finder) othersRan(at time.Time) bool {
	ran, timed := 0, 0
	for _, a := range f.active {
		if a.first.IsZero() {
			continue
		}
		timed++
		if at.Sub(a.first) >= quietBefore && !at.After(a.last) {
			ran++
		}
	}
	return ran >= 3 && 2*ran >= timed
}

func (f *Finder) sameComponent(g, o *group) bool {
	return slices.ContainsFunc(g.streams, func(a int) bool {
		return slices.ContainsFunc(o.streams, func(b int) bool { return f.components[a] == f.components[b] })
	})
}
