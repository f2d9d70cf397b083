package matcher

// assumption is the state that a speculative stream assumes at its start.
type assumption struct {
	lines, bytes int64 // numbers of lines and bytes before its start
	envelope     Format
	// untimed is set if a line got its time of arrival because no earlier line of this stream
	// had a time.
	untimed bool
	// first is the time of the first hit of a line with a place, in nanoseconds since 1970;
	// zero if there is none.
	first int64
}

// Speculate returns a stream that starts the given number of lines and bytes after the end of
// the scanned part of s, so that parts of one log can be scanned concurrently. It assumes that
// no line or record is unfinished there, and that the envelope is still the same. Commit checks
// that. s must not be in use during the call, and must have been used with the program for
// which the returned stream is.
func (s *Stream) Speculate(lines, bytes int64) *Stream {
	a := &Stream{labels: s.labels, opt: s.opt, identity: s.identity, prog: s.prog, sel: s.sel, envelope: s.envelope, hits: s.hits, base: s.base, placed: s.placed}
	a.counters.Lines, a.counters.Bytes = s.counters.Lines+lines, s.counters.Bytes+bytes
	a.assumed = &assumption{lines: a.counters.Lines, bytes: a.counters.Bytes, envelope: s.envelope}
	return a
}

// Commit moves s to the end of the part that a stream of Speculate has scanned, as if s had
// scanned it itself. If the assumption was wrong, it returns false and changes nothing. Then
// the hits of a are invalid. a must not be used afterwards.
func (s *Stream) Commit(a *Stream) bool {
	as := a.assumed
	if as == nil || as.lines != s.counters.Lines || as.bytes != s.counters.Bytes || as.envelope != s.envelope || as.untimed && !s.last.IsZero() ||
		as.first != 0 && as.first == s.same.at {
		return false
	}
	for i := range s.open {
		if s.open[i].parts > 0 || s.open[i].skipping || s.records[i] != nil {
			return false
		}
	}
	c := &s.counters
	c.Lines, c.Bytes = a.counters.Lines, a.counters.Bytes
	c.Evaluated += a.counters.Evaluated
	c.Dropped += a.counters.Dropped
	c.Truncated += a.counters.Truncated
	c.Unparsed += a.counters.Unparsed
	s.open, s.records, s.envelope, s.hits = a.open, a.records, a.envelope, a.hits
	if as.first != 0 {
		s.same = a.same
	}
	if !a.last.IsZero() {
		s.last = a.last
	}
	return true
}
