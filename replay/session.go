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

// session is an engine with a virtual clock.
type session struct {
	set     *rules.Set
	prog    *matcher.Program
	cfg     episodes.Config
	engine  *episodes.Engine
	streams map[string]*matcher.Stream
	sources []*source
	reads   func(from rules.Selector) bool // reports whether lines of the selected streams may exist; nil means that they always may
	open    []openRecord                   // streams with an unfinished record, the longest waiting first
	now     time.Time

	firing   map[episodes.Fingerprint]episodes.Episode
	resolved []episodes.Episode
	stubs    map[string]*rules.Rule // substitute rules for causes in the test
	// notify is called for every state change. It may be nil.
	notify func(episodes.Episode)
}

// source is a virtual source of lines.
type source struct {
	name   string
	labels matcher.Labels // labels of the stream that the source reads; nil for the source of all other streams
	lost   bool           // whether the source is down, so that its watermark stands still
}

// newSession returns a session with one source for each of the streams, and one source for all other streams.
func newSession(set *rules.Set, prog *matcher.Program, start time.Time, cfg episodes.Config, streams ...matcher.Labels) *session {
	s := newIdleSession(set, prog, start, cfg, streams...)
	s.engine = s.newEngine()
	return s
}

// newIdleSession returns a session without an engine.
func newIdleSession(set *rules.Set, prog *matcher.Program, start time.Time, cfg episodes.Config, streams ...matcher.Labels) *session {
	s := &session{
		set: set, prog: prog, now: start, cfg: cfg, sources: []*source{{name: sourceName}},
		streams: map[string]*matcher.Stream{},
		firing:  map[episodes.Fingerprint]episodes.Episode{},
	}
	for _, labels := range streams {
		s.sources = append(s.sources, &source{name: text.FormatLabels(labels), labels: labels})
	}
	return s
}

func (s *session) newEngine() *episodes.Engine {
	e := episodes.New(s.cfg)
	for _, x := range s.sources {
		e.AddSource(x.name, rules.Lateness, func(from rules.Selector) bool { return s.servesRule(x, from) })
	}
	e.Swap(s.set, s.now)
	return e
}

// servesRule reports whether conclusions about the lines that from selects must wait for the source.
func (s *session) servesRule(x *source, from rules.Selector) bool {
	if x.labels != nil {
		return from.Matches(x.labels, false)
	}
	if s.reads != nil && !s.reads(from) {
		return false
	}
	return !slices.ContainsFunc(s.sources, func(o *source) bool { return o.labels != nil && s.servesRule(o, from) })
}

// loseSource stops the source of the stream with these labels if lost is set, and restores it otherwise. Nil labels
// mean every source.
func (s *session) loseSource(lost bool, labels matcher.Labels) {
	for _, x := range s.sources {
		if labels == nil || x.labels != nil && maps.Equal(x.labels, labels) {
			x.lost = lost
		}
	}
	s.advanceWatermark() // a restored source has no backlog
}

// openRecord is a stream whose newest record may continue in the next line.
type openRecord struct {
	stream *matcher.Stream
	since  time.Time // time of the record's newest line
}

// recordEnds is the time for which a record waits for its next line, as in the sources of the daemon.
const recordEnds = time.Second

// reachTime moves the clock to the last moment before t and draws the conclusions that are due until then. The clock
// stays before t, because lines that arrive at t come before the watermark t.
func (s *session) reachTime(t time.Time) {
	t = t.Add(-1)
	for len(s.open) > 0 && !s.open[0].since.Add(recordEnds).After(t) {
		s.endRecord(s.open[0].since.Add(recordEnds))
	}
	s.concludeAt(t)
}

// endRecord moves the clock to t and matches the record that has waited longest.
func (s *session) endRecord(t time.Time) {
	s.concludeAt(t)
	s.engine.Take(s.prog.Flush(s.open[0].stream, t), t)
	s.open = s.open[1:]
}

// endRecords matches every unfinished record without waiting for further lines, because a checkpoint expects the
// effects of all lines before it.
func (s *session) endRecords(t time.Time) {
	for len(s.open) > 0 {
		s.endRecord(t)
	}
}

func (s *session) takeRecorded(hits []matcher.Hit) {
	for len(hits) > 0 {
		n, clock := s.engine.TakeRecorded(sourceName, hits, s.now)
		if n == 0 && clock.Equal(s.now) { // a conclusion is due before the next hit
			s.reachTime(hits[0].Time)
			s.now = hits[0].Time
			continue
		}
		s.now, hits = clock, hits[n:]
		s.evaluateEngine()
	}
}

// concludeAt moves the clock to t and draws the conclusions that are due until then.
func (s *session) concludeAt(t time.Time) {
	for t.After(s.now) {
		next, ok := s.engine.NextDeadline()
		if !ok || !next.After(s.now) || next.After(t) {
			next = t
		}
		s.now = next
		s.advanceWatermark()
	}
}

// settleAt moves the clock to t after all lines that arrive up to t, and draws the conclusions that are due.
func (s *session) settleAt(t time.Time) {
	s.now = t
	s.advanceWatermark()
}

func (s *session) advanceWatermark() {
	for _, x := range s.sources {
		if !x.lost {
			s.engine.AdvanceWatermark(x.name, s.now)
		}
	}
	s.evaluateEngine()
}

func (s *session) evaluateEngine() {
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

// scanLine processes a line of a stream when the clock is at t.
func (s *session) scanLine(labels matcher.Labels, ts time.Time, line string, t time.Time) {
	s.now = t
	st := s.findStream(labels)
	s.engine.Take(s.prog.Match(st, matcher.Record{Time: ts, Text: []byte(line)}), t)
	s.open = slices.DeleteFunc(s.open, func(o openRecord) bool { return o.stream == st })
	if st.Unfinished() > 0 {
		s.open = append(s.open, openRecord{st, t})
	}
}

func (s *session) findStream(labels matcher.Labels) *matcher.Stream {
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

// restartEngine stops the engine gracefully and starts another one from the snapshot.
func (s *session) restartEngine() error {
	s.evaluateEngine()
	data, err := s.engine.Snapshot()
	if err != nil {
		return err
	}
	s.engine = s.newEngine()
	if err := s.engine.Restore(data, s.now); err != nil {
		return err
	}
	resolved := s.resolved
	s.evaluateEngine()
	s.resolved = resolved // discards the repeated notifications of resolved alerts
	s.advanceWatermark()  // the sources have no backlog after a restart
	return nil
}
