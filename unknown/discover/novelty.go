package discover

import "time"

// Points and limits for ranking complaints by the time at which they occur. Time is measured
// in lines of the component, because the lines of an excerpt often have no times, or almost
// equal times.
const (
	// newPoints is added for a complaint that begins after a long time in which its component,
	// or most other components, wrote lines without it.
	newPoints = 2.0
	// quietLines is the number of lines that the component must have written before the
	// complaint, because the absence of a complaint from a short excerpt proves nothing.
	// quietBefore is the time before the complaint for which other components must have written
	// lines.
	quietLines  = 200
	quietBefore = 10 * time.Minute
	// quietGaps is a factor. The complaint must have been absent for longer than quietGaps
	// times the usual distance between its lines. Otherwise the first line of a rare complaint
	// may only have come late by chance.
	quietGaps = 2
	// chronicPoints is added for a complaint that occurs in at least chronicShare of the
	// windows of a component's log. The log must have chronicLines lines or last for
	// chronicSpan. Such a complaint does not indicate a change.
	chronicPoints = -1.0
	chronicShare  = 0.5
	chronicLines  = 1000
	windowLines   = 100
	chronicSpan   = time.Hour
	windowSpan    = 10 * time.Minute
)

// timespan is the time from the first line to the last. It is zero if no line has a time.
type timespan struct{ first, last time.Time }

// extend extends x to the time of a line. A zero t means that the line has no time.
func (x *timespan) extend(t time.Time) {
	if t.IsZero() {
		return
	}
	if x.first.IsZero() || t.Before(x.first) {
		x.first = t
	}
	if t.After(x.last) {
		x.last = t
	}
}

func (x *timespan) add(o timespan) {
	x.extend(o.first)
	x.extend(o.last)
}

// component counts the lines of a container, or of a log without a container.
type component struct {
	timespan
	lines int64
}

func (f *Finder) component(name string) *component {
	c := f.components[name]
	if c == nil {
		c = &component{}
		f.components[name] = c
	}
	return c
}

// windows counts the windows that contain a line of a pattern. A window is a span of time or a
// number of lines.
type windows struct {
	newest, count int64
}

func (w *windows) extend(window int64) {
	if window != w.newest {
		w.newest = window
		w.count++
	}
}

// positions are the positions of a pattern's lines among the lines of the component in which it
// occurred first.
type positions struct {
	first, last, count int64
	windows            windows
}

func (x *positions) extend(line int64) {
	if x.count == 0 {
		x.first = line
	}
	x.last = line
	x.count++
	x.windows.extend(line/windowLines + 1)
}

func (x *positions) add(o *positions) {
	if x.count == 0 || o.count > 0 && o.first < x.first {
		x.first = o.first
	}
	x.last = max(x.last, o.last)
	x.count += o.count
	x.windows.count = max(x.windows.count, o.windows.count)
}

// rateNovelty adjusts the points of groups by the times when they occurred.
func (f *Finder) rateNovelty(all []*group) {
	for _, g := range all {
		ran := g.ranFor()
		fresh, chronic := true, ran >= chronicSpan && float64(g.all.periods.count)*windowSpan.Seconds() >= chronicShare*ran.Seconds()
		for _, p := range g.members {
			x := &p.position
			fresh = fresh && x.first >= quietLines && (x.count < 2 || x.first >= quietGaps*(x.last-x.first)/(x.count-1))
			chronic = chronic || p.home.lines >= chronicLines && float64(x.windows.count*windowLines) >= chronicShare*float64(p.home.lines)
		}
		switch {
		case f.othersRan(g.all.first):
			g.addPoints(newPoints, "its component is new")
		case fresh:
			g.addPoints(newPoints, "new in the log of its component")
		case chronic:
			g.addPoints(chronicPoints, "all the time")
			g.addPoints(-g.frequency(), "so its lines do not count")
		}
	}
}

func (g *group) ranFor() time.Duration {
	var out timespan
	for _, c := range g.owners {
		out.add(c.timespan)
	}
	return out.last.Sub(out.first)
}

// othersRan reports whether at least half of the components, and at least three of them, wrote
// lines before and after t.
func (f *Finder) othersRan(t time.Time) bool {
	if t.IsZero() {
		return false
	}
	ran, timed := 0, 0
	for _, c := range f.components {
		if c.first.IsZero() {
			continue
		}
		timed++
		if t.Sub(c.first) >= quietBefore && !t.After(c.last) {
			ran++
		}
	}
	return ran >= 3 && 2*ran >= timed
}
