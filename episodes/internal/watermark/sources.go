// Package watermark computes up to which time the lines of each rule have been read, and which deadlines lie before
// that time.
//
// The progress of a source is the time up to which its lines were read. A watermark is the smallest progress of several
// sources, less their lateness. A lagging stream was read less far than its source.
//
// Nothing in the package is safe for concurrent use. Times are nanoseconds since 1970.
package watermark

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"time"

	"crowsnest/episodes/internal/window"
	"crowsnest/rules"
)

// onHoldAfter is the largest time by which the progress of a source may be behind the clock. If it is further behind,
// the rules that wait for the source are on hold.
const onHoldAfter = 30 * time.Second

// Sources holds the sources of lines and the groups of rules that wait for them. The zero value has no sources.
type Sources struct {
	sources    []*source
	groups     []*Group
	shared     map[string]*Group // groups, by the joined indexes of their sources
	generation uint64            // see Group.Generation
}

type source struct {
	name              string
	lateness          int64
	serves            func(rules.Selector) bool
	readUpTo          int64
	lags              []*Lag // streams that were read less far than the other streams of the source
	unknownStreamsLag *Lag   // lag of unknown streams, which delays every conclusion; nil if there is none
}

// progress returns the time up to which the source was read, except for lagging streams.
func (s *source) progress() int64 {
	if s.unknownStreamsLag != nil {
		return min(s.readUpTo, s.unknownStreamsLag.readUpTo)
	}
	return s.readUpTo
}

// Add adds a source. lateness is the duration by which the watermark stays behind the source's progress. serves reports
// which selectors the source can satisfy. A nil function means all selectors. A source that was added before keeps its
// progress. The caller must call Regroup afterwards.
func (s *Sources) Add(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	x := s.source(name)
	if x == nil {
		x = &source{name: name, readUpTo: window.NoTime}
		s.sources = append(s.sources, x)
	}
	x.lateness, x.serves = int64(lateness), serves
}

// Remove removes a source. It does nothing if the source is unknown. The caller must call Regroup afterwards.
func (s *Sources) Remove(name string) {
	s.sources = slices.DeleteFunc(s.sources, func(x *source) bool { return x.name == name })
}

func (s *Sources) source(name string) *source {
	if i := slices.IndexFunc(s.sources, func(x *source) bool { return x.name == name }); i >= 0 {
		return s.sources[i]
	}
	return nil
}

// Advance reports that all lines of a source up to readUpTo have been read, except the lines of lagging streams.
// Progress never moves back, so an earlier time is ignored. An unknown source is ignored too.
func (s *Sources) Advance(name string, readUpTo int64, lagging ...Lag) {
	x := s.source(name)
	if x == nil || readUpTo < x.readUpTo {
		return
	}
	x.readUpTo = readUpTo
	if len(lagging) > 0 || len(x.lags) > 0 || x.unknownStreamsLag != nil {
		s.setLags(x, lagging)
	}
	s.forgetMarks()
}

func (s *Sources) setLags(x *source, lagging []Lag) {
	before := x.lags
	x.lags, x.unknownStreamsLag = make([]*Lag, 0, len(lagging)), nil
	for i := range lagging {
		l := &lagging[i]
		l.lateness = x.lateness
		switch k := len(x.lags); {
		case l.Stream.Labels == nil:
			x.unknownStreamsLag = l
			continue
		case k < len(before) && before[k].isSame(l):
			before[k].readUpTo, before[k].lateness = l.readUpTo, l.lateness
			l = before[k]
		default:
			l.name = x.name + " " + l.Stream.String()
		}
		x.lags = append(x.lags, l)
	}
	if !slices.Equal(before, x.lags) {
		s.generation++
	}
}

// Move adds delta to the progress of every source. Afterwards no progress is later than now.
func (s *Sources) Move(delta, now int64) {
	for _, x := range s.sources {
		if x.readUpTo != window.NoTime {
			x.readUpTo = min(x.readUpTo+delta, now)
		}
		for _, l := range x.lags {
			l.move(delta, now)
		}
		if x.unknownStreamsLag != nil {
			x.unknownStreamsLag.move(delta, now)
		}
	}
	s.forgetMarks()
}

func (s *Sources) forgetMarks() {
	for _, g := range s.groups {
		g.marked = false
	}
}

// Regroup drops all groups. Then the caller must request a group for each rule again, and arm the deadlines of the rule
// in it.
func (s *Sources) Regroup() { s.groups, s.shared = nil, map[string]*Group{} }

// Group returns the group of the sources that can satisfy any of the selectors. If some selector cannot be satisfied by
// any source, the group is empty, because nothing can be concluded from the absence of lines that nobody reads. If
// frozen is not window.NoTime, the group is not shared, and its watermark stops at that time.
func (s *Sources) Group(froms []rules.Selector, frozen int64) *Group {
	var key []byte
	g := &Group{in: s, frozen: frozen}
	if !slices.ContainsFunc(froms, func(from rules.Selector) bool { return !s.CanServe(from) }) {
		for i, x := range s.sources {
			if x.serves == nil || slices.ContainsFunc(froms, x.serves) {
				key = binary.AppendUvarint(key, uint64(i))
				g.sources, g.Lateness = append(g.sources, x), max(g.Lateness, x.lateness)
			}
		}
	}
	if frozen == window.NoTime {
		if known := s.shared[string(key)]; known != nil {
			return known
		}
		s.shared[string(key)] = g
	}
	s.groups = append(s.groups, g)
	return g
}

// CanServe reports whether a source can satisfy the selector.
func (s *Sources) CanServe(from rules.Selector) bool {
	return slices.ContainsFunc(s.sources, func(x *source) bool { return x.serves == nil || x.serves(from) })
}

// TurnedGroups yields the groups that went on hold or resumed since the last call, and new groups.
func (s *Sources) TurnedGroups(now int64) iter.Seq[*Group] {
	return func(yield func(*Group) bool) {
		for _, g := range s.groups {
			is := g.OnHold(now)
			if g.looked && is == g.WasOnHold {
				continue
			}
			if g.looked, g.WasOnHold = true, is; !yield(g) {
				return
			}
		}
	}
}

// TakeDue disarms the deadlines that the watermarks have reached and appends them to out, in no particular order.
func (s *Sources) TakeDue(compute Compute, out []*Deadline) []*Deadline {
	for _, g := range s.groups {
		out = g.popDue(compute, out)
	}
	return out
}

// IsIdle reports whether TakeDue would return no deadline and TurnedGroups would yield no
// group.
func (s *Sources) IsIdle(compute Compute, now int64) bool {
	for _, g := range s.groups {
		if !g.looked || g.OnHold(now) != g.WasOnHold {
			return false
		}
		if w := g.Watermark(); len(g.deadlines) > 0 && g.deadlines[0].lowerBound <= w {
			if d := g.firstDeadline(compute); d != nil && d.lowerBound <= w {
				return false
			}
		}
	}
	return true
}

// NextTime returns the earliest time of the clock at which a watermark may reach a deadline, if all sources keep up. It
// returns false if no deadline is armed, or if no source serves the groups with armed deadlines.
func (s *Sources) NextTime(compute Compute) (next int64, ok bool) {
	next = math.MaxInt64
	for _, g := range s.groups {
		if !g.IsServed() {
			continue
		}
		if d := g.firstDeadline(compute); d != nil {
			next = min(next, d.lowerBound+g.Lateness)
		}
	}
	return next, next != math.MaxInt64
}

// NextBy reports whether NextTime is not later than t.
func (s *Sources) NextBy(compute Compute, t int64) bool {
	for _, g := range s.groups {
		if len(g.deadlines) == 0 || !g.IsServed() || g.deadlines[0].lowerBound+g.Lateness > t {
			continue
		}
		if d := g.firstDeadline(compute); d != nil && d.lowerBound+g.Lateness <= t {
			return true
		}
	}
	return false
}

// RearmAll rebuilds the heaps after deadlines were moved.
func (s *Sources) RearmAll(compute Compute) {
	for _, g := range s.groups {
		g.rearmAll(compute)
	}
}
