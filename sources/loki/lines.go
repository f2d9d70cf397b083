package loki

import (
	"bytes"
	"time"

	"crowsnest/matcher"
)

// Names of counters, in addition to the reasons why requests fail.
const (
	late10s    = "late_10s" // entries that were late by at least 10 s and less than 1 min
	late1m     = "late_1m"
	late5m     = "late_5m"
	errEntry   = "bad_entry"   // an entry has an unknown form, or its time is outside the requested range
	errMemory  = "memory_full" // entries from before the floor of the memory are missed
	errClock   = "clock"       // the clock was set back
	errWarning = "warning"     // Loki warns that a response may be incomplete
)

// passEntries passes on the new entries of a response in order of time. The request was for the
// range from start to end.
func (s *Source) passEntries(a *answer, start, end int64) {
	bad := a.bad
	s.byIndex = append(s.byIndex[:0], make([]*stream, len(a.streams))...)
	for i := range a.entries {
		e := &a.entries[i]
		if e.ts < start || e.ts >= end {
			bad++
			continue
		}
		if e.ts < s.memory.floor {
			continue
		}
		key := a.hashEntry(&s.hash, s.tenant, e)
		if s.memory.has(e.ts, key) {
			continue
		}
		s.accept(s.stream(a, e), e, key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Errors[errEntry] += int64(bad)
	if a.warning != "" {
		s.status.Errors[errWarning]++
		s.warning = "Loki warns: " + shortenMessage(a.warning)
	}
}

// passEntry passes one entry to the pipeline. It adds the entry to the memory in the same
// checkpoint.
func (s *Source) passEntry(st *stream, e *entry, key uint64) {
	if st.selfWritten {
		return
	}
	text := bytes.TrimSuffix(e.line, []byte("\n"))
	at := time.Unix(0, e.ts).UTC()
	late := s.minLateness(e.ts)
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

// minLateness returns the name of the counter for the lateness of a new entry with time ts, or
// "" if it is not late. A new entry is late if its time was read before.
func (s *Source) minLateness(ts int64) string {
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

// stream returns the stream of an entry, with the labels that rules see.
func (s *Source) stream(a *answer, e *entry) *stream {
	meta := 0
	for _, p := range e.meta {
		if s.planner.naming.isUseful(p.name, s.plan.wanted) {
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
		s.metaKey = append(s.metaKey, 0) // separates labels and metadata, because no label name has the length 0
		for _, p := range e.meta {
			if s.planner.naming.isUseful(p.name, s.plan.wanted) {
				s.metaKey = appendPair(s.metaKey, p)
			}
		}
	}
	st := s.cachedStream(a, e)
	if meta == 0 {
		s.byIndex[e.stream] = st
	}
	return st
}

func (s *Source) cachedStream(a *answer, e *entry) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.streams.Get(string(s.metaKey)); ok {
		return st
	}
	labels := s.planner.naming.labels(a.streams[e.stream].labels, e.meta, s.plan.wanted)
	st := &stream{s: matcher.NewStream(labels, s.options), selfWritten: s.selfWritten(labels)}
	for _, r := range s.used.Rules {
		if s.used.Reads(r, st.s.Labels(), false) {
			st.rules++
		}
	}
	s.streams.Add(string(s.metaKey), st)
	return st
}

// selfWritten reports whether this program wrote the stream. It may be the program's own log or
// the output of its sinks.
func (s *Source) selfWritten(l matcher.Labels) bool {
	return l["service_name"] == ownService || s.cfg.SelfPod != "" && l["pod"] == s.cfg.SelfPod &&
		(s.cfg.SelfNamespace == "" || l["namespace"] == s.cfg.SelfNamespace)
}
