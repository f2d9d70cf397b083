package discover

import (
	"slices"
	"time"
)

// Points and limits of the ranking by time. Where the lines of a component have no times, or
// those of a moment, its lines are the clock.
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
	// chronicLines is how long the log of a component without times must be instead, and
	// windowLines what stands for a period.
	chronicLines = 1000
	windowLines  = 100
	// quietGaps is how many times longer than the usual distance of its lines a complaint
	// must have been absent. A rare one begins late by chance.
	quietGaps = 2
	// firstPoints are for the new complaints that begin before all other new ones, by at most
	// togetherIn. Others may be their consequences.
	firstPoints = 0.5
	togetherIn  = 10 * time.Second
	// exitPoints are for a complaint after which a program of the same component dies, within
	// exitWithin.
	exitPoints = 0.5
	exitWithin = 2 * time.Minute
)

// activity is from when to when a component wrote lines, and how many, also without times.
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

// place is where a pattern occurred among the lines of the component that had it first.
type place struct {
	home         *activity
	before, last int64 // lines of the component up to its first line, and up to its newest one
	count        int64
	window       int64 // the newest one with a line, from 1
	windows      int64 // number of windows that had a line
}

// saw counts a line of the pattern, which is the newest one of a component.
func (p *place) saw(a *activity) {
	if a != p.home {
		return
	}
	p.last = a.lines
	p.count++
	if w := a.lines/windowLines + 1; w != p.window {
		p.window = w
		p.windows++
	}
}

// fresh reports whether the component wrote for long without the pattern.
func (p *place) fresh() bool {
	return p.before >= quietLines && (p.count < 2 || p.before >= quietGaps*(p.last-p.before)/(p.count-1))
}

// chronic reports whether the pattern lasts as long as the log of the component.
func (p *place) chronic() bool {
	return p.home.lines >= chronicLines && float64(p.windows*windowLines) >= chronicShare*float64(p.home.lines)
}

// byLines adjusts the points of a group by where in the logs it occurred.
func (g *group) byLines() {
	if !slices.ContainsFunc(g.members, func(p *pattern) bool { return !p.place.fresh() }) {
		g.adjust(newPoints, "new in the log of its component", 0)
	} else if slices.ContainsFunc(g.members, func(p *pattern) bool { return p.place.chronic() }) {
		g.chronic("all the time", 0)
	}
}

// chronic adjusts the points of a group that is always there: that it has many lines says
// nothing either.
func (g *group) chronic(why string, d time.Duration) {
	g.adjust(chronicPoints, why, d)
	if g.frequency > 0 {
		g.adjust(-g.frequency, "so its lines do not count", 0)
	}
}

// byTime adjusts the points of groups by when they occurred.
func (f *Finder) byTime(all ranking) {
	var fresh ranking
	for _, g := range all {
		own := f.activityOf(g)
		if g.first.IsZero() {
			g.byLines()
			continue
		}
		switch {
		case own.first.IsZero():
		case g.first.Sub(own.first) >= quietBefore && g.before >= quietLines:
			g.adjust(newPoints, "new after %s of its component", g.first.Sub(own.first))
			fresh = append(fresh, g)
		case f.othersRan(g.first):
			g.adjust(newPoints, "its component is new", 0)
			fresh = append(fresh, g)
		case own.last.Sub(own.first) < quietBefore:
			g.byLines()
		case own.last.Sub(own.first) >= chronicSpan && float64(g.spread)*bucketSize.Seconds() >= chronicShare*own.last.Sub(own.first).Seconds():
			g.chronic("all the time, for %s", own.last.Sub(own.first))
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
