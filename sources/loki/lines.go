package loki

import (
	"bytes"
	"time"

	"crowsnest/matcher"
)

// Further things that are counted, beside failures of requests.
const (
	late10s    = "late_10s" // entries that came at least so late
	late1m     = "late_1m"
	late5m     = "late_5m"
	errEntry   = "bad_entry"   // in a form that nobody knows, or of a time that was not asked for
	errMemory  = "memory_full" // later entries than those in the memory are not seen
	errClock   = "clock"       // it was set back
	errWarning = "warning"     // Loki says that an answer may lack something
)

// use hands on what is new of an answer, in order of time.
func (s *Source) use(a *answer, from, to int64) {
	bad := a.bad
	s.byIndex = append(s.byIndex[:0], make([]*stream, len(a.streams))...)
	for i := range a.entries {
		e := &a.entries[i]
		if e.ts < from || e.ts >= to {
			bad++
			continue
		}
		if e.ts < s.memory.floor {
			continue
		}
		key := a.hash(&s.hash, s.tenant, e)
		if s.memory.has(e.ts, key) {
			continue
		}
		if st := s.stream(a, e); !st.own {
			s.take(st, e, key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Errors[errEntry] += int64(bad)
	if a.warning != "" {
		s.status.Errors[errWarning]++
		s.warning = "Loki warns: " + excerpt(a.warning)
	}
}

// take hands one entry to the pipeline. It is remembered within the same cut.
func (s *Source) take(st *stream, e *entry, key uint64) {
	text := bytes.TrimSuffix(e.line, []byte("\n"))
	at := time.Unix(0, e.ts).UTC()
	late := s.late(e.ts)
	s.pipe.Match(st.s, matcher.Record{Time: at, Text: text}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.memory.add(e.ts, key)
		c := &s.status
		c.Lines++
		c.Bytes += int64(len(text))
		c.Evaluated++
		if len(text) > matcher.MaxLine {
			c.Truncated++
		}
		if late != "" {
			c.Errors[late]++
		}
		st.lines++
		st.read = at
	})
}

// late says how late an entry is at least: it was not there when its time was
// read before.
func (s *Source) late(ts int64) string {
	switch by := time.Duration(s.reading.known - ts); {
	case s.reading.known == 0 || by < s.cfg.FastOverlap || by < 10*time.Second:
		return ""
	case by < time.Minute:
		return late10s
	case by < 5*time.Minute:
		return late1m
	}
	return late5m
}

// stream returns the stream of an entry as rules see it.
func (s *Source) stream(a *answer, e *entry) *stream {
	meta := 0
	for _, p := range e.meta {
		if s.planner.naming.useful(p.name, s.plan.wanted) {
			meta++
		}
	}
	if meta == 0 {
		if st := s.byIndex[e.stream]; st != nil {
			return st
		}
	}
	s.metaKey = append(s.metaKey[:0], a.streams[e.stream].key...)
	if meta > 0 {
		s.metaKey = append(s.metaKey, 0) // no name of a label is empty
		for _, p := range e.meta {
			if s.planner.naming.useful(p.name, s.plan.wanted) {
				s.metaKey = appendPair(s.metaKey, p)
			}
		}
	}
	st := s.known(a, e)
	if meta == 0 {
		s.byIndex[e.stream] = st
	}
	return st
}

// known returns the stream of metaKey.
func (s *Source) known(a *answer, e *entry) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.streams.Get(string(s.metaKey)); ok {
		return st
	}
	labels := s.planner.naming.labels(a.streams[e.stream].labels, e.meta, s.plan.wanted)
	st := &stream{s: matcher.NewStream(labels, s.options), own: s.own(labels)}
	for _, r := range s.used.Rules {
		if s.used.Reads(r, st.s.Labels(), false) {
			st.rules++
		}
	}
	s.streams.Add(string(s.metaKey), st)
	return st
}

// own tells whether this program wrote a stream: its own log, or what a sink of
// it wrote.
func (s *Source) own(l matcher.Labels) bool {
	return l["service_name"] == ownService || s.cfg.SelfPod != "" && l["pod"] == s.cfg.SelfPod &&
		(s.cfg.SelfNamespace == "" || l["namespace"] == s.cfg.SelfNamespace)
}
