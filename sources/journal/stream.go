package journal

import (
	"bytes"
	"cmp"
	"maps"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/sources/journal/internal/journalfile"
)

// Limits that protect against arbitrary identifiers and fields, because anyone may log them.
const (
	maxStreams = 1024    // largest number of streams in memory
	maxLabel   = 256     // largest number of bytes of a label
	maxEntry   = 1 << 20 // largest number of bytes of an entry; only maxLabel bytes of each further field are kept
	maxBuffer  = 256 << 10
)

// stream is the log of one unit, identifier and transport.
type stream struct {
	m        *matcher.Stream
	foreign  bool
	rules    int
	wanted   bool
	counters matcher.Counters
	read     time.Time
}

func (st *stream) status() sources.StreamStatus {
	return sources.StreamStatus{
		Labels: st.m.Labels(), Offset: st.counters.Bytes, Size: st.counters.Bytes, Lines: st.counters.Lines, LastRead: st.read, Rules: st.rules,
	}
}

// lines holds the fields of one entry. It reuses its memory.
type lines struct {
	message                                     []byte // value of MESSAGE; nil if there is none
	unit, userUnit, identifier, transport, host []byte
	uid, cgroup                                 []byte
	container, damaged                          bool
	fields                                      []matcher.Field
	buf, key                                    []byte
}

// readFields reads the fields of an entry. Of fields with the same name, the first one counts.
func (l *lines) readFields(r *journalfile.File, e *journalfile.Entry) {
	if cap(l.buf) > maxBuffer {
		l.buf = nil
	}
	*l = lines{fields: l.fields[:0], buf: l.buf[:0], key: l.key}
	for f := range r.Fields(e) {
		if f.Err != nil {
			l.damaged = true
			continue // the other fields may be readable
		}
		if len(l.buf) > maxEntry && string(f.Name) != "MESSAGE" {
			f.Value = f.Value[:min(len(f.Value), maxLabel)]
		}
		at := len(l.buf)
		l.buf = append(append(l.buf, f.Name...), f.Value...)
		name, value := l.buf[at:at+len(f.Name):at+len(f.Name)], l.buf[at+len(f.Name):len(l.buf):len(l.buf)]
		if string(name) == "MESSAGE" {
			if l.message == nil {
				l.message = value
			}
			continue
		}
		l.fields = append(l.fields, matcher.Field{Name: name, Value: value})
		l.noteField(name, value)
	}
}

// noteField keeps a field if it becomes a label or shows who wrote the entry.
func (l *lines) noteField(name, value []byte) {
	var to *[]byte
	switch string(name) {
	case "_SYSTEMD_UNIT":
		to = &l.unit
	case "_SYSTEMD_USER_UNIT":
		to = &l.userUnit
	case "SYSLOG_IDENTIFIER":
		to = &l.identifier
	case "_TRANSPORT":
		to = &l.transport
	case "_HOSTNAME":
		to = &l.host
	case "_UID":
		to = &l.uid
	case "_SYSTEMD_CGROUP":
		to = &l.cgroup
	case "CONTAINER_ID", "CONTAINER_ID_FULL":
		l.container = true
		return
	default:
		return
	}
	if *to == nil {
		*to = value[:min(len(value), maxLabel)]
	}
}

// isForeign reports whether a user or a pod, and not the node itself, may have written the
// entry. It relies on fields that begin with _, which journald sets and nobody can forge.
func (l *lines) isForeign() bool {
	switch string(l.transport) {
	case "kernel", "audit", "driver":
		return false
	}
	ofUser := l.userUnit != nil || bytes.HasPrefix(l.unit, []byte("session-")) || bytes.HasPrefix(l.unit, []byte("user@")) || l.unit == nil
	return l.container || bytes.Contains(l.cgroup, []byte("kubepods")) || ofUser && string(l.uid) != "0"
}

func (l *lines) labels() matcher.Labels {
	return matcher.Labels{"job": job, "unit": string(l.unitName()), "identifier": string(l.identifier), "transport": string(l.transport), "node": string(l.host)}
}

func (l *lines) unitName() []byte {
	if l.userUnit != nil {
		return l.userUnit
	}
	return l.unit
}

func (l *lines) setKey(foreign bool) {
	l.key = l.key[:0]
	for _, part := range [][]byte{l.unitName(), l.identifier, l.transport, l.host} {
		l.key = append(append(l.key, part...), 0)
	}
	if foreign {
		l.key = append(l.key, 1)
	}
}

func (s *Source) stream(l *lines) *stream {
	foreign := l.isForeign()
	l.setKey(foreign)
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.streams.Get(string(l.key)); ok {
		return st
	}
	labels := l.labels()
	maps.Copy(labels, s.cfg.Labels)
	if s.cfg.Node != "" {
		labels["node"] = s.cfg.Node
	}
	st := &stream{foreign: foreign, m: matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText, Foreign: foreign})}
	s.chooseStream(st)
	s.streams.Add(string(l.key), st)
	return st
}

// applyRules decides for every stream, after a change of the rules, whether it is read.
func (s *Source) applyRules() {
	set := s.rules.Load()
	if set == s.ruled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ruled = set
	for _, st := range s.streams.Values() {
		s.chooseStream(st)
	}
}

// chooseStream decides whether the entries of a stream are read. This requires that the
// configuration includes its unit and that a rule selects it.
func (s *Source) chooseStream(st *stream) {
	labels := st.m.Labels()
	st.rules = 0
	if s.ruled != nil {
		for _, r := range s.ruled.Rules {
			if s.ruled.Reads(r, labels, false) && !(st.foreign && r.Infrastructure) {
				st.rules++
			}
		}
	}
	name := cmp.Or(labels["unit"], labels["identifier"])
	included := len(s.cfg.Units) == 0 || sources.MatchesAny(s.cfg.Units, strings.ReplaceAll(name, "/", "-"))
	st.wanted = included && (st.rules > 0 || s.ruled == nil)
}
