package replay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
)

const sourceName = "replay"

// session is an engine under a virtual clock.
type session struct {
	set     *rules.Set
	prog    *matcher.Program
	cfg     episodes.Config
	engine  *episodes.Engine
	streams map[string]*matcher.Stream
	sources []*source
	reads   func(from rules.Selector) bool // whether there are lines of such streams; nil means always
	open    []openRecord                   // the one that waits longest first
	now     time.Time

	firing   map[episodes.Fingerprint]episodes.Episode
	resolved []episodes.Episode
	stubs    map[string]*rules.Rule // causes, whose alerts the test states
	// notify is called for every transition; may be nil.
	notify func(episodes.Episode)
}

// source is a virtual source of lines.
type source struct {
	name   string
	labels matcher.Labels // labels of the streams that this source reads; nil means all that no other source reads
	lost   bool           // its watermark does not move
}

// newSession creates a session with a source for each of the streams, and one for all
// others.
func newSession(set *rules.Set, prog *matcher.Program, start time.Time, cfg episodes.Config, streams ...matcher.Labels) *session {
	s := &session{
		set: set, prog: prog, now: start, cfg: cfg, sources: []*source{{name: sourceName}},
		streams: map[string]*matcher.Stream{},
		firing:  map[episodes.Fingerprint]episodes.Episode{},
	}
	for _, labels := range streams {
		s.sources = append(s.sources, &source{name: text.Labels(labels), labels: labels})
	}
	s.engine = s.newEngine()
	return s
}

func (s *session) newEngine() *episodes.Engine {
	e := episodes.New(s.cfg)
	for _, x := range s.sources {
		e.AddSource(x.name, rules.Lateness, func(from rules.Selector) bool { return s.serves(x, from) })
	}
	e.Swap(s.set, s.now)
	return e
}

// serves reports whether a part of a rule with this selector waits for a source.
func (s *session) serves(x *source, from rules.Selector) bool {
	if x.labels != nil {
		return from.Matches(x.labels, false)
	}
	if s.reads != nil && !s.reads(from) {
		return false
	}
	return !slices.ContainsFunc(s.sources, func(o *source) bool { return o.labels != nil && s.serves(o, from) })
}

// lose takes away, or brings back, the source that reads a stream with these labels; every
// source if there are none.
func (s *session) lose(lost bool, labels matcher.Labels) {
	for _, x := range s.sources {
		if labels == nil || x.labels != nil && maps.Equal(x.labels, labels) {
			x.lost = lost
		}
	}
	s.advanceWatermark() // a source that is back catches up at once
}

// openRecord is a stream with a record whose end has not been read.
type openRecord struct {
	of    *matcher.Stream
	since time.Time // its newest line
}

// recordEnds is how long a record waits for its next line, as in the sources of the daemon.
const recordEnds = time.Second

// reach moves the clock to just before t and draws the conclusions due until then:
// lines that arrive at t precede the watermark t.
func (s *session) reach(t time.Time) {
	t = t.Add(-1)
	for len(s.open) > 0 && !s.open[0].since.Add(recordEnds).After(t) {
		s.endRecord(s.open[0].since.Add(recordEnds))
	}
	s.conclude(t)
}

// endRecord moves the clock to t and matches the record that waits longest.
func (s *session) endRecord(t time.Time) {
	s.conclude(t)
	s.engine.Take(s.prog.Flush(s.open[0].of, t), t)
	s.open = s.open[1:]
}

// endRecords matches every record as if nothing followed: a checkpoint expects what the lines
// before it cause.
func (s *session) endRecords(t time.Time) {
	for len(s.open) > 0 {
		s.endRecord(t)
	}
}

// takeRecorded takes hits whose times move the clock.
func (s *session) takeRecorded(hits []matcher.Hit) {
	for len(hits) > 0 {
		n, clock := s.engine.TakeRecorded(sourceName, hits, s.now)
		if n == 0 && clock.Equal(s.now) { // something may be due
			s.reach(hits[0].Time)
			s.now = hits[0].Time
			continue
		}
		s.now, hits = clock, hits[n:]
		s.evaluate()
	}
}

// conclude moves the clock to t and draws the conclusions due until then.
func (s *session) conclude(t time.Time) {
	for t.After(s.now) {
		next, ok := s.engine.NextDeadline()
		if !ok || !next.After(s.now) || next.After(t) {
			next = t
		}
		s.now = next
		s.advanceWatermark()
	}
}

// settle moves the clock to t, after everything that arrived at t.
func (s *session) settle(t time.Time) {
	s.now = t
	s.advanceWatermark()
}

func (s *session) advanceWatermark() {
	for _, x := range s.sources {
		if !x.lost {
			s.engine.AdvanceWatermark(x.name, s.now)
		}
	}
	s.evaluate()
}

func (s *session) evaluate() {
	for _, x := range s.engine.Evaluate(s.now) {
		if s.stubs[x.Alert] != nil {
			continue
		}
		switch x.State {
		case episodes.StateFiring:
			s.firing[x.Fingerprint] = x
		case episodes.StateResolved:
			delete(s.firing, x.Fingerprint)
			s.resolved = append(s.resolved, x)
		}
		if s.notify != nil {
			s.notify(x)
		}
	}
}

// line processes a line of a stream at time t of the clock.
func (s *session) line(labels matcher.Labels, ts time.Time, line string, t time.Time) {
	s.now = t
	st := s.stream(labels)
	s.engine.Take(s.prog.Match(st, matcher.Record{Time: ts, Text: []byte(line)}), t)
	s.open = slices.DeleteFunc(s.open, func(o openRecord) bool { return o.of == st })
	if st.Unfinished() > 0 {
		s.open = append(s.open, openRecord{st, t})
	}
}

func (s *session) stream(labels matcher.Labels) *matcher.Stream {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key.WriteString(name + "\x00" + labels[name] + "\x00")
	}
	st := s.streams[key.String()]
	if st == nil {
		st = matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText, Join: matcher.JoinStream})
		s.streams[key.String()] = st
	}
	return st
}

// restart stops the engine gracefully and starts another one from its snapshot.
func (s *session) restart() error {
	s.evaluate()
	data, err := s.engine.Snapshot()
	if err != nil {
		return err
	}
	s.engine = s.newEngine()
	if err := s.engine.Restore(data, s.now); err != nil {
		return err
	}
	resolved := s.resolved
	s.evaluate()
	s.resolved = resolved // drop the repeated notifications of resolved alerts
	s.advanceWatermark()  // the source catches up at once
	return nil
}
