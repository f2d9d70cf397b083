package matcher

import (
	"time"

	"crowsnest/matcher/internal/lines"
)

// Format is the kind of envelope around the lines of a stream.
type Format int

// Formats of lines. FormatAuto detects the envelope. It expects the format of the newest line
// that had an envelope. A line without an envelope is text.
const (
	FormatAuto   Format = iota
	FormatText          // no envelope: the line is the text
	FormatCRI           // the format of CRI runtimes below /var/log/pods
	FormatDocker        // the json-file format of Docker
)

// Join states how long a record waits for its next line.
type Join int

// Ways to join records.
const (
	JoinNone Join = iota // each line is a record
	// JoinBlock ends a record at the end of the block of Scan. It is for sources that save
	// positions at the ends of blocks.
	JoinBlock
	// JoinStream ends a record at Flush, which the source calls when no line has come for a
	// while. The source saves positions before Stream.Unfinished.
	JoinStream
)

// StreamOptions states how a stream is read. The zero value is right for a source of the
// daemon.
type StreamOptions struct {
	Format Format
	// Lenient means that a label that the stream lacks satisfies every selector. It is for
	// files without stated labels.
	Lenient bool
	// TextTime means that the event time of lines without an envelope is read from their text,
	// if that is klog, JSON, logfmt or begins with RFC 3339. Otherwise their event time is the
	// time of arrival.
	TextTime bool
	// Until is the time from which times in texts without a year get their year, as in TimeOf.
	// Zero means the time of arrival.
	Until time.Time
	// OfPods means that the source states the namespace of every pod. Then a stream with a pod
	// or a container but without a namespace is of unknown origin, and infrastructure rules do
	// not trust it.
	OfPods bool
	// Foreign means that somebody other than the operator of the cluster may have written the
	// lines, although no namespace shows it. Infrastructure rules do not trust them.
	Foreign bool
	// Join states whether the lines of a klog block or of a Go panic become one record.
	Join Join
	// IgnoreLabels are not part of the stream's identity. Nil means DefaultIgnoreLabels.
	IgnoreLabels []string
}

// DefaultIgnoreLabels are labels that differ between sources that read the same stream.
var DefaultIgnoreLabels = []string{"filename", "job", "service_name", "detected_level", "stream", "flags", "node_name"}

// Counters counts the physical lines of a stream. Lines is the sum of Evaluated, Dropped and
// the parts that are still unfinished.
type Counters struct {
	Lines, Bytes int64
	Evaluated    int64 // physical lines whose logical line was matched
	Dropped      int64 // dropped physical lines, by reason
	Truncated    int64 // logical lines that were truncated at MaxLine or MaxMerged
	Unparsed     int64 // lines without the stream's envelope, which were matched unchanged
}

// Record is one line, with its time, from a source that has records. Match keeps nothing of it.
type Record struct {
	Time time.Time
	Text []byte // without a line end
	// Fields belong to the line in addition to those in its text, and precede them.
	Fields []Field
	// Number distinguishes records of a stream with equal time and text. It stays the same when
	// a record is read again. Without numbers (zero), such records count as one line; but see
	// Stream.SetOffset.
	Number uint64
}

// Field is a field that is not in the text of its line.
type Field = lines.Field

// Stream is the state of one log stream: its labels, the rules that may apply to it, and its
// incomplete lines. It takes little memory unless there are such lines. It is not safe for
// concurrent use; a stream belongs to one goroutine at a time.
type Stream struct {
	// Newest is for the caller. It is the newest time of a hit that the caller accepted.
	Newest time.Time

	labels   Labels
	opt      StreamOptions
	identity uint64 // hash of the labels without IgnoreLabels

	prog *Program // program of the selection
	sel  *selection

	envelope Format // with FormatAuto, the format of the newest line that had an envelope
	counters Counters
	open     [2]pending  // one each for stdout and stderr
	records  [2]*record  // one each for stdout and stderr; nil if no record is open
	last     time.Time   // with TextTime, the time of the newest line that had one; zero if there is none
	hits     int         // number of hits of the last call, an estimate for the next one
	assumed  *assumption // the assumption under which Speculate made the stream
	base     int64       // place of the first byte of the stream, if placed is set
	placed   bool
	same     same
	note     any
}

// NewStream returns a stream with a copy of these labels. Labels with an empty value are
// omitted.
func NewStream(labels Labels, opt StreamOptions) *Stream {
	own := make(Labels, len(labels))
	for name, value := range labels {
		if value != "" {
			own[name] = value
		}
	}
	if opt.IgnoreLabels == nil {
		opt.IgnoreLabels = DefaultIgnoreLabels
	}
	s := &Stream{labels: own, opt: opt, identity: hashLabels(own, opt.IgnoreLabels)}
	if opt.Format != FormatAuto {
		s.envelope = opt.Format
	}
	return s
}

// SetStart sets the time of the lines before the first line that states a time. With TextTime
// they get this time instead of the time of arrival.
func (s *Stream) SetStart(t time.Time) { s.last = t }

// Labels returns the labels of the stream. They are shared and must not be
// changed.
func (s *Stream) Labels() Labels { return s.labels }

// Note returns the value stored by SetNote, or nil.
func (s *Stream) Note() any { return s.note }

// SetNote stores a value for one user of the stream.
func (s *Stream) SetNote(note any) { s.note = note }

// Counters returns the counts so far.
func (s *Stream) Counters() Counters { return s.counters }

// Unfinished returns the number of scanned bytes from the first part of the oldest incomplete
// line or record on. A position that is saved before these bytes loses nothing in a restart.
func (s *Stream) Unfinished() int {
	return int(s.counters.Bytes - min(s.unfinishedStart(0, s.counters.Bytes), s.unfinishedStart(1, s.counters.Bytes)))
}

// unfinishedStart returns the first byte of the unfinished line or record of stdout (k = 0) or
// stderr (k = 1), or end if there is none.
func (s *Stream) unfinishedStart(k int, end int64) int64 {
	if o := &s.open[k]; o.parts > 0 {
		end = min(end, o.start)
	}
	if rec := s.records[k]; rec != nil {
		end = min(end, rec.start)
	}
	return end
}

// maxResume bounds how far resumeAt goes back, because lines of stdout and stderr that are
// always interleaved must not hold the position back forever.
const maxResume = 64 << 10

// resumeAt returns the position from which to read again a line of stdout (k = 0) or stderr (k
// = 1) that begins at byte start. If the other output has an unfinished line there, the
// position is the beginning of that line, because otherwise the rest of that line would be
// matched alone.
func (s *Stream) resumeAt(k int, start int64) int64 {
	if other := s.unfinishedStart(1-k, start); start-other < maxResume {
		return other
	}
	return start
}

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
