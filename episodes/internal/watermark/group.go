package watermark

import (
	"maps"
	"math"
	"slices"

	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Group holds the deadlines that wait for the same sources. They share one watermark, because there are thousands of
// rules and hundreds of sources, but few distinct sets of sources.
type Group struct {
	Lateness  int64 // largest lateness of its sources
	WasOnHold bool  // whether the group was on hold at the last call of TurnedGroups

	in      *Sources
	sources []*source
	frozen  int64 // time at which the watermark stops; window.NoTime if it is not frozen
	// mark is the cached watermark. oldest is the smallest progress of any source of the group. Both are valid while
	// marked is set. They are cached because they are needed for each line.
	mark, oldest int64
	marked       bool
	looked       bool   // whether TurnedGroups has visited the group
	lags         []*Lag // lagging streams of its sources
	deadlines    deadlines
}

// Watermark returns the event time up to which every source of the group has been read, except
// lagging streams. It is window.NoTime if a source has made no progress yet. It does not
// advance while the group is frozen.
func (g *Group) Watermark() int64 {
	if !g.marked {
		g.updateState()
	}
	return g.mark
}

func (g *Group) updateState() {
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

// OnHold reports whether a source of the group makes no progress, the group has no source, or the group is frozen.
func (g *Group) OnHold(now int64) bool {
	g.Watermark()
	return !g.IsServed() || g.frozen != window.NoTime || g.oldest < now-int64(onHoldAfter)
}

// SilentSources returns the names of the sources without progress, sorted. It is empty if the
// group is frozen.
func (g *Group) SilentSources(now int64) []string {
	return g.silent(now, func(*source) bool { return true })
}

// SilentFor returns the SilentSources that can satisfy the selector.
func (g *Group) SilentFor(from rules.Selector, now int64) []string {
	return g.silent(now, func(s *source) bool { return s.serves == nil || s.serves(from) })
}

func (g *Group) silent(now int64, match func(*source) bool) []string {
	if g.frozen != window.NoTime {
		return nil
	}
	var out []string
	for _, s := range g.sources {
		if s.progress() < now-int64(onHoldAfter) && match(s) {
			out = append(out, s.name)
		}
	}
	slices.Sort(out)
	return out
}

// CanServe reports whether any source, of this group or another, can satisfy the selector.
func (g *Group) CanServe(from rules.Selector) bool { return g.in.CanServe(from) }

// IsServed reports whether the group has a source.
func (g *Group) IsServed() bool { return len(g.sources) > 0 }

// Lags returns the lagging streams of the group's sources. The slice is read-only. Its content may change when
// Generation changes.
func (g *Group) Lags() []*Lag {
	g.Watermark()
	return g.lags
}

// Generation changes whenever a stream begins or ceases to lag. It does not change when a lagging stream makes
// progress.
func (g *Group) Generation() uint64 { return g.in.generation }

// ArmedDeadlines returns the deadlines of the group, in no particular order. The slice is valid until the group
// changes.
func (g *Group) ArmedDeadlines() []*Deadline { return g.deadlines }

// Lag describes a stream that was read less far than the other streams of its source.
type Lag struct {
	Stream matcher.LaggingStream

	name               string
	readUpTo, lateness int64
}

// NewLag returns the lag of a stream that was read up to a time.
func NewLag(s matcher.LaggingStream, readUpTo int64) Lag { return Lag{Stream: s, readUpTo: readUpTo} }

// Watermark returns the event time up to which the stream has been read, less the lateness of its source.
func (l *Lag) Watermark() int64 { return l.readUpTo - l.lateness }

// OnHold reports whether conclusions that depend on the stream are on hold at now.
func (l *Lag) OnHold(now int64) bool { return l.readUpTo < now-int64(onHoldAfter) }

// Name returns the names of the source and the stream, as people see them.
func (l *Lag) Name() string { return l.name }

// HasLagging reports whether a source has lagging streams.
func (s *Sources) HasLagging() bool {
	return slices.ContainsFunc(s.sources, func(x *source) bool { return len(x.lags) > 0 })
}

func (l *Lag) isSame(o *Lag) bool {
	return maps.Equal(l.Stream.Labels, o.Stream.Labels) && slices.Equal(l.Stream.UnknownLabels, o.Stream.UnknownLabels)
}

func (l *Lag) move(delta, now int64) { l.readUpTo = min(max(l.readUpTo+delta, 0), now) }
