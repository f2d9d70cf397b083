package episodes

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"crowsnest/episodes/internal/window"
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
	// suspended is when matching of the lines stopped; window.NoTime: it has not. A suspended
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

// watermarks are the sources, with the groups of rules that they serve.
type watermarks struct {
	sources []*source
	groups  []*group
}

// AddSource registers a source before its first lines. Lateness is how far the
// watermark stays behind its progress; serves reports which selectors the source can
// satisfy. A known source keeps its progress.
func (e *Engine) AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.marks.source(name)
	if s == nil {
		s = &source{name: name, readUpTo: window.NoTime}
		e.marks.sources = append(e.marks.sources, s)
	}
	s.lateness, s.serves = int64(lateness), serves
	e.bind()
}

// RemoveSource removes a source: no watermark waits for it any longer. It does nothing
// if the source is unknown.
func (e *Engine) RemoveSource(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.marks.sources = slices.DeleteFunc(e.marks.sources, func(s *source) bool { return s.name == name })
	e.bind()
}

// AdvanceWatermark reports that all lines of the source up to readUpTo have been read.
// The watermark never moves back. The next Evaluate draws the conclusions.
func (e *Engine) AdvanceWatermark(name string, readUpTo time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.marks.source(name); s != nil {
		s.readUpTo = max(s.readUpTo, e.step.stamped(nanos(readUpTo), math.MaxInt64))
		e.marks.unmark()
	}
}

// HoldBack stops the watermarks of rules, by name, at a time: after it, an agent that
// reads their lines matched another version of the rule. Rules that are no longer in
// upTo are released.
func (e *Engine) HoldBack(upTo map[string]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := false
	for _, rs := range e.order {
		at := int64(window.NoTime)
		if t, held := upTo[rs.rule.Alert]; held {
			at = nanos(t)
		}
		changed = changed || at != rs.heldBack
		rs.heldBack = at
	}
	if changed {
		e.bind()
	}
}

// bind finds the sources that can serve each rule and rebuilds the groups.
func (e *Engine) bind() {
	e.marks.group(e.order)
	for _, rs := range e.order {
		e.guard(rs, e.limits.evictions.now, rs.arm)
	}
}

func (m *watermarks) source(name string) *source {
	if i := slices.IndexFunc(m.sources, func(s *source) bool { return s.name == name }); i >= 0 {
		return m.sources[i]
	}
	return nil
}

// unmark drops the cached watermark of every group.
func (m *watermarks) unmark() {
	for _, g := range m.groups {
		g.marked = false
	}
}

// move adds by to the progress of every source. It is at most now.
func (m *watermarks) move(by, now int64) {
	for _, s := range m.sources {
		if s.readUpTo != window.NoTime {
			s.readUpTo = min(s.readUpTo+by, now)
		}
	}
	m.unmark()
}

// group makes the groups of some rules.
func (m *watermarks) group(order []*ruleState) {
	m.groups = nil
	known := map[string]*group{}
	var key []byte
	for _, rs := range order {
		key = key[:0]
		for i, s := range m.sources {
			if s.serves == nil || s.serves(rs.rule.From) {
				key = binary.AppendUvarint(key, uint64(i))
			}
		}
		g := known[string(key)]
		if g == nil {
			g = m.newGroup(key)
			known[string(key)] = g
			m.groups = append(m.groups, g)
		}
		rs.group = g
		if rs.frozen() != window.NoTime {
			m.isolate(rs)
		}
	}
}

// newGroup makes the group of the sources with these numbers.
func (m *watermarks) newGroup(numbers []byte) *group {
	g := &group{suspended: window.NoTime}
	for len(numbers) > 0 {
		i, n := binary.Uvarint(numbers)
		s := m.sources[i]
		g.sources, numbers = append(g.sources, s), numbers[n:]
		g.lateness = max(g.lateness, s.lateness)
	}
	return g
}

// isolate makes a rule whose watermark stands still a group of its own.
func (m *watermarks) isolate(rs *ruleState) {
	g := &group{sources: rs.group.sources, lateness: rs.group.lateness, suspended: rs.frozen()}
	rs.group = g
	m.groups = append(m.groups, g)
}

// frozen is where the watermark of the rule stopped; window.NoTime: it did not.
func (rs *ruleState) frozen() int64 {
	switch {
	case rs.heldBack == window.NoTime:
		return rs.suspended
	case rs.suspended == window.NoTime:
		return rs.heldBack
	}
	return min(rs.heldBack, rs.suspended)
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
// been read, or window.NoTime if one has made no progress yet. It does not advance while the
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
	if len(g.sources) == 0 || g.oldest == window.NoTime {
		g.mark = window.NoTime
	}
	if g.suspended != window.NoTime {
		g.mark = min(g.mark, g.suspended-g.lateness)
	}
}

// onHold reports whether a source that can serve the rules makes no progress, or the
// lines are not matched.
func (g *group) onHold(now int64) bool {
	g.watermark()
	return g.suspended != window.NoTime || g.oldest < now-int64(OnHoldAfter)
}
