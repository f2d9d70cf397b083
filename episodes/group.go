package episodes

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"crowsnest/rules"
)

// source is one place that lines come from, with its proof of reading.
type source struct {
	name     string
	lateness int64
	serves   func(rules.Selector) bool
	proved   int64
}

// group is the rules that the same sources serve. They have one watermark: there
// are thousands of rules and hundreds of sources, and few groups.
type group struct {
	sources  []*source
	lateness int64 // the most of a source
	// suspended is since when nobody looks at the lines; noTime: somebody does.
	// A suspended rule is a group of its own.
	suspended int64
	// mark is the watermark and oldest the least proof if marked is set: each
	// line asks for it.
	mark, oldest int64
	marked       bool
	heap         deadlines // of what is open
	wasHeld      bool      // at the last Evaluate, if looked is set
	looked       bool
}

// AddSource registers a source before its first lines. Lateness is how far its
// watermark stays behind its proof; serves tells which selectors it can
// satisfy. A source that is known already keeps its proof.
func (e *Engine) AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.source(name)
	if s == nil {
		s = &source{name: name, proved: noTime}
		e.sources = append(e.sources, s)
	}
	s.lateness, s.serves = int64(lateness), serves
	e.bind()
}

// RemoveSource forgets a source: nothing waits for its proof any more. A source
// that is not known changes nothing.
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

// AdvanceWatermark says that the source has proved to be read up to proved. It never
// moves back. Conclusions are drawn by the next Evaluate.
func (e *Engine) AdvanceWatermark(name string, proved time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.source(name); s != nil {
		s.proved = max(s.proved, e.stamped(nanos(proved), math.MaxInt64))
		e.unmark()
	}
}

// unmark lets every group look for its watermark anew.
func (e *Engine) unmark() {
	for _, g := range e.groups {
		g.marked = false
	}
}

// bind finds the sources that can serve each rule and makes the groups anew.
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

// watermark is the event time up to which every source that can serve the rules
// is proved to be read, or noTime if one has proved nothing yet. It stands still
// while they are suspended.
func (g *group) watermark() int64 {
	if !g.marked {
		g.look()
	}
	return g.mark
}

func (g *group) look() {
	g.marked, g.mark, g.oldest = true, math.MaxInt64, math.MaxInt64
	for _, s := range g.sources {
		g.oldest = min(g.oldest, s.proved)
		g.mark = min(g.mark, s.proved-s.lateness)
	}
	if len(g.sources) == 0 || g.oldest == noTime {
		g.mark = noTime
	}
	if g.suspended != noTime {
		g.mark = min(g.mark, g.suspended-g.lateness)
	}
}

// held tells whether a source that can serve the rules proves nothing, or nobody
// looks at the lines.
func (g *group) held(now int64) bool {
	g.watermark()
	return g.suspended != noTime || g.oldest < now-int64(OnHoldAfter)
}
