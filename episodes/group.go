package episodes

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"crowsnest/rules"
)

// source is one source of lines, with its progress.
type source struct {
	name     string
	lateness int64
	serves   func(rules.Selector) bool
	readUpTo int64
}

// group is the rules that the same sources serve. They have one watermark: there
// are thousands of rules and hundreds of sources, and few groups.
type group struct {
	sources  []*source
	lateness int64 // largest of its sources
	// suspended is when matching of the lines stopped; noTime: it has not. A suspended
	// rule is a group of its own.
	suspended int64
	// mark caches the watermark, and oldest the least progress of a source, while
	// marked is set: each line needs them.
	mark, oldest int64
	marked       bool
	heap         deadlines // of what is open
	wasOnHold    bool      // at the last Evaluate, if looked is set
	looked       bool
}

// AddSource registers a source before its first lines. Lateness is how far the
// watermark stays behind its progress; serves reports which selectors the source can
// satisfy. A known source keeps its progress.
func (e *Engine) AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.source(name)
	if s == nil {
		s = &source{name: name, readUpTo: noTime}
		e.sources = append(e.sources, s)
	}
	s.lateness, s.serves = int64(lateness), serves
	e.bind()
}

// RemoveSource removes a source: no watermark waits for it any longer. It does nothing
// if the source is unknown.
func (e *Engine) RemoveSource(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sources = slices.DeleteFunc(e.sources, func(s *source) bool { return s.name == name })
	e.bind()
}

func (e *Engine) source(name string) *source {
	for _, s := range e.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

// AdvanceWatermark reports that all lines of the source up to readUpTo have been read.
// The watermark never moves back. The next Evaluate draws the conclusions.
func (e *Engine) AdvanceWatermark(name string, readUpTo time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.source(name); s != nil {
		s.readUpTo = max(s.readUpTo, e.stamped(nanos(readUpTo), math.MaxInt64))
		e.unmark()
	}
}

// unmark drops the cached watermark of every group.
func (e *Engine) unmark() {
	for _, g := range e.groups {
		g.marked = false
	}
}

// bind finds the sources that can serve each rule and rebuilds the groups.
func (e *Engine) bind() {
	e.groups = nil
	known := map[string]*group{}
	var key []byte
	for _, rs := range e.order {
		key = key[:0]
		for i, s := range e.sources {
			if s.serves == nil || s.serves(rs.rule.From) {
				key = binary.AppendUvarint(key, uint64(i))
			}
		}
		g := known[string(key)]
		if g == nil {
			g = e.newGroup(key)
			known[string(key)] = g
			e.groups = append(e.groups, g)
		}
		rs.group = g
		if rs.frozen() != noTime {
			e.isolate(rs)
		}
		e.guard(rs, e.evictions.now, rs.arm)
	}
}

// newGroup makes the group of the sources with these numbers.
func (e *Engine) newGroup(numbers []byte) *group {
	g := &group{suspended: noTime}
	for len(numbers) > 0 {
		i, n := binary.Uvarint(numbers)
		s := e.sources[i]
		g.sources, numbers = append(g.sources, s), numbers[n:]
		g.lateness = max(g.lateness, s.lateness)
	}
	return g
}

// isolate makes a rule whose watermark stands still a group of its own.
func (e *Engine) isolate(rs *ruleState) {
	g := &group{sources: rs.group.sources, lateness: rs.group.lateness, suspended: rs.frozen()}
	rs.group = g
	e.groups = append(e.groups, g)
}

// arm puts the deadlines of a rule into the heap of its group.
func (rs *ruleState) arm() {
	if rs.quarantined {
		return
	}
	for _, ep := range rs.open {
		ep.due.arm()
	}
	for _, l := range rs.lapses {
		l.due.arm()
	}
	if rs.over.active {
		rs.over.due.arm()
	}
}

// watermark is the event time up to which every source that can serve the rules has
// been read, or noTime if one has made no progress yet. It does not advance while the
// rules are suspended.
func (g *group) watermark() int64 {
	if !g.marked {
		g.look()
	}
	return g.mark
}

func (g *group) look() {
	g.marked, g.mark, g.oldest = true, math.MaxInt64, math.MaxInt64
	for _, s := range g.sources {
		g.oldest = min(g.oldest, s.readUpTo)
		g.mark = min(g.mark, s.readUpTo-s.lateness)
	}
	if len(g.sources) == 0 || g.oldest == noTime {
		g.mark = noTime
	}
	if g.suspended != noTime {
		g.mark = min(g.mark, g.suspended-g.lateness)
	}
}

// onHold reports whether a source that can serve the rules makes no progress, or the
// lines are not matched.
func (g *group) onHold(now int64) bool {
	g.watermark()
	return g.suspended != noTime || g.oldest < now-int64(OnHoldAfter)
}
