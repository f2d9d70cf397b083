package journal

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/sources/journal/internal/journalfile"
)

// Bounds, because anyone may log with any identifier and any fields.
const (
	maxStreams = 1024    // number of remembered streams
	maxLabel   = 256     // bytes of a label
	maxEntry   = 1 << 20 // bytes of an entry; of the fields behind that, maxLabel bytes are kept
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

// lines has the fields of one entry. It reuses its memory.
type lines struct {
	message                                     []byte // nil if there is none
	unit, userUnit, identifier, transport, host []byte
	uid, cgroup                                 []byte
	container, damaged                          bool
	fields                                      []matcher.Field
	buf, key                                    []byte
}

// read reads the fields of an entry. Of several fields of one name, the first counts.
func (l *lines) read(r *journalfile.File, e *journalfile.Entry) {
	if cap(l.buf) > maxBuffer {
		l.buf = nil
	}
	*l = lines{fields: l.fields[:0], buf: l.buf[:0], key: l.key}
	for f := range r.Fields(e) {
		if f.Err != nil {
			l.damaged = true
			continue // the others can be read
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
		l.note(name, value)
	}
}

// note keeps the fields that become labels, or say who wrote the entry.
func (l *lines) note(name, value []byte) {
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

// foreign reports whether someone else than the node may have written the entry: a user,
// or a pod. Fields that begin with _ are set by journald and cannot be forged.
func (l *lines) foreign() bool {
	switch string(l.transport) {
	case "kernel", "audit", "driver":
		return false
	}
	ofUser := l.userUnit != nil || bytes.HasPrefix(l.unit, []byte("session-")) || bytes.HasPrefix(l.unit, []byte("user@")) || l.unit == nil
	return l.container || bytes.Contains(l.cgroup, []byte("kubepods")) || ofUser && string(l.uid) != "0"
}

// labels returns the labels that the entry states.
func (l *lines) labels() matcher.Labels {
	return matcher.Labels{"job": job, "unit": string(l.unitName()), "identifier": string(l.identifier), "transport": string(l.transport), "node": string(l.host)}
}

func (l *lines) unitName() []byte {
	if l.userUnit != nil {
		return l.userUnit
	}
	return l.unit
}

// identify sets key to what identifies the stream of the entry.
func (l *lines) identify(foreign bool) {
	l.key = l.key[:0]
	for _, part := range [][]byte{l.unitName(), l.identifier, l.transport, l.host} {
		l.key = append(append(l.key, part...), 0)
	}
	if foreign {
		l.key = append(l.key, 1)
	}
}

// stream returns the stream of an entry.
func (s *Source) stream(l *lines) *stream {
	foreign := l.foreign()
	l.identify(foreign)
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
	s.choose(st)
	s.streams.Add(string(l.key), st)
	return st
}

// rule applies a change of rules to the streams.
func (s *Source) rule() {
	set := s.rules.Load()
	if set == s.ruled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ruled = set
	for _, st := range s.streams.Values() {
		s.choose(st)
	}
}

// choose decides whether the entries of a stream are read: if the configuration includes
// its unit, and a rule selects it.
func (s *Source) choose(st *stream) {
	labels := st.m.Labels()
	st.rules = 0
	if s.ruled != nil {
		for _, r := range s.ruled.Rules {
			if s.ruled.Reads(r, labels, false) && !(st.foreign && r.Infrastructure) {
				st.rules++
			}
		}
	}
	name := labels["unit"]
	if name == "" {
		name = labels["identifier"]
	}
	included := len(s.cfg.Units) == 0 || slices.ContainsFunc(s.cfg.Units, func(glob string) bool {
		ok, err := path.Match(glob, strings.ReplaceAll(name, "/", "-"))
		return ok && err == nil
	})
	st.wanted = included && (st.rules > 0 || s.ruled == nil)
}
