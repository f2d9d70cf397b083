package watermark

import (
	"iter"
	"maps"
	"math"
	"slices"

	"crowsnest/episodes/internal/window"
	"crowsnest/rules"
)

// Group is the conclusions that wait for the same sources. They have one watermark: there
// are thousands of rules and hundreds of sources, and few groups.
type Group struct {
	Lateness  int64 // largest of its sources
	WasOnHold bool  // as Sources.Turned found it last

	in      *Sources
	sources []*source
	frozen  int64 // where the watermark stops; window.NoTime: it does not
	// mark caches the watermark, and oldest the least progress of a source, while
	// marked is set: each line needs them.
	mark, oldest int64
	marked       bool
	looked       bool   // reports whether Sources.Turned has visited the group
	lags         []*Lag // lagging streams of its sources
	deadlines    deadlines
	parked       map[*Deadline]struct{} // deadlines that a lagging stream delays
}

// Watermark is the event time up to which every source of the group has been read, except
// for Lags, or window.NoTime if one has made no progress yet. It does not advance while the
// group is frozen.
func (g *Group) Watermark() int64 {
	if !g.marked {
		g.look()
	}
	return g.mark
}

func (g *Group) look() {
	g.marked, g.mark, g.oldest = true, math.MaxInt64, math.MaxInt64
	g.lags = g.lags[:0]
	for _, s := range g.sources {
		at := s.progress()
		g.oldest = min(g.oldest, at)
		g.mark = min(g.mark, at-s.lateness)
		g.lags = append(g.lags, s.lags...)
	}
	if len(g.sources) == 0 || g.oldest == window.NoTime {
		g.mark = window.NoTime
	}
	if g.frozen != window.NoTime {
		g.mark = min(g.mark, g.frozen-g.Lateness)
	}
}

// OnHold reports whether a source of the group makes no progress, whether there is none,
// or whether the group is frozen.
func (g *Group) OnHold(now int64) bool {
	g.Watermark()
	return !g.Served() || g.frozen != window.NoTime || g.oldest < now-int64(onHoldAfter)
}

// Silent returns the names of the sources without progress, sorted. It is empty if the
// group is frozen.
func (g *Group) Silent(now int64) []string {
	return g.silent(now, func(*source) bool { return true })
}

// SilentFor is Silent without the sources that cannot satisfy a selector.
func (g *Group) SilentFor(from rules.Selector, now int64) []string {
	return g.silent(now, func(s *source) bool { return s.serves == nil || s.serves(from) })
}

func (g *Group) silent(now int64, of func(*source) bool) []string {
	if g.frozen != window.NoTime {
		return nil
	}
	var out []string
	for _, s := range g.sources {
		if s.progress() < now-int64(onHoldAfter) && of(s) {
			out = append(out, s.name)
		}
	}
	slices.Sort(out)
	return out
}

// CanServe reports whether any source can satisfy the selector.
func (g *Group) CanServe(from rules.Selector) bool { return g.in.Serve(from) }

// Served reports whether the group has a source.
func (g *Group) Served() bool { return len(g.sources) > 0 }

// Lags returns the lagging streams of the sources of the group. They are read-only, and
// change with Generation.
func (g *Group) Lags() []*Lag {
	g.Watermark()
	return g.lags
}

// Generation changes whenever the lagging streams of any source become others. Their
// progress may change without it.
func (g *Group) Generation() uint64 { return g.in.generation }

// Armed yields the deadlines of the group, in no order. It must not change meanwhile.
func (g *Group) Armed() iter.Seq[*Deadline] {
	return func(yield func(*Deadline) bool) {
		for _, d := range g.deadlines {
			if !yield(d) {
				return
			}
		}
		maps.Keys(g.parked)(yield)
	}
}
