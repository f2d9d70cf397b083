package matcher

import (
	"math"
	"time"

	"crowsnest/matcher/internal/lines"
)

// Format is the kind of envelope around the lines of a stream.
type Format int

// Formats of lines. FormatAuto detects the envelope. It first tries the format of the newest line that had an envelope.
// A line without an envelope is matched unchanged.
const (
	FormatAuto   Format = iota
	FormatText          // no envelope, so the line is the text
	FormatCRI           // format of CRI runtimes below /var/log/pods
	FormatDocker        // json-file format of Docker
)

// Join states how lines become records, and how long a record waits for its next line.
type Join int

// Ways to join records.
const (
	JoinNone Join = iota // each line is a record
	// JoinBlock ends a record at the end of the block of Scan. It is for sources that save their positions at the ends
	// of blocks.
	JoinBlock
	// JoinStream ends a record at Flush, which the source calls when no line has arrived for a while. The source saves
	// positions that lie before Stream.Unfinished.
	JoinStream
)

// StreamOptions states how a stream is read. The zero value is right for a source of the
// daemon.
type StreamOptions struct {
	Format Format
	// Lenient means that a label that the stream lacks satisfies every condition of a selector. It is for files without
	// stated labels.
	Lenient bool
	// TextTime means that the event time of a line without an envelope is read from its text, in the formats of TimeOf.
	// Otherwise its event time is the time of arrival.
	TextTime bool
	// Until determines the year of times in texts without a year, as the argument now of TimeOf does. Zero means the
	// time of arrival.
	Until time.Time
	// OfPods means that the source states the namespace of every pod. Then a stream with a pod or a container but
	// without a namespace has an unknown origin, and infrastructure rules do not trust it.
	OfPods bool
	// Foreign means that somebody other than the operator of the cluster may have written the lines, although no
	// namespace shows this. Infrastructure rules do not trust them.
	Foreign bool
	// Join determines whether the lines of a klog block or of a Go panic become one record.
	Join Join
	// IgnoreLabels are the names of labels that are not part of the stream's identity. Nil means DefaultIgnoreLabels.
	IgnoreLabels []string
}

// DefaultIgnoreLabels are the names of labels that differ between sources that read the same stream.
var DefaultIgnoreLabels = []string{"filename", "job", "service_name", "detected_level", "stream", "flags", "node_name"}

// Counters counts the physical lines of a stream. Lines is the sum of Evaluated, Dropped and the number of lines that
// are still unfinished.
type Counters struct {
	Lines     int64 `json:"lines"`
	Bytes     int64 `json:"bytes"`
	Evaluated int64 `json:"evaluated"` // number of physical lines whose logical line was matched
	Dropped   int64 `json:"dropped"`   // number of physical lines that were dropped because they exceed maxMerged
	Truncated int64 `json:"truncated"` // number of logical lines that were truncated at MaxLine or maxMerged
	Unparsed  int64 `json:"unparsed"`  // number of lines without the stream's envelope, which were matched unchanged
}

// Add adds the counters of another stream.
func (c *Counters) Add(o Counters) {
	c.Lines, c.Bytes, c.Evaluated = c.Lines+o.Lines, c.Bytes+o.Bytes, c.Evaluated+o.Evaluated
	c.Dropped, c.Truncated, c.Unparsed = c.Dropped+o.Dropped, c.Truncated+o.Truncated, c.Unparsed+o.Unparsed
}

// Record is one log entry with its time, from a source that reads entries instead of bytes. Match keeps no reference to
// it.
type Record struct {
	Time time.Time
	Text []byte // text without a line end
	// Fields are additional fields, which take precedence over fields in the text.
	Fields []Field
	// Number distinguishes records of a stream with equal time and text. It must stay the same when a record is read
	// again. Records without a number (zero) with equal time and text count as one line, unless the stream has offsets
	// (see Stream.SetOffset).
	Number uint64
}

// Field is an additional field of a line, which is not in the line's text.
type Field = lines.Field

// Stream is the state of one log stream: its labels, the rules that may apply to it, and its
// incomplete lines. It takes little memory unless there are such lines. It is not safe for
// concurrent use; a stream belongs to one goroutine at a time.
type Stream struct {
	// Newest is for the caller's use. It is the newest time of a hit that the caller accepted.
	Newest time.Time

	labels   Labels
	opt      StreamOptions
	identity uint64 // hash of the labels without IgnoreLabels

	prog *Program // program of the selection
	sel  *selection

	envelope Format // with FormatAuto, the format of the newest line that had an envelope
	counters Counters
	open     [2]pendingLine // unfinished lines of stdout and stderr
	records  [2]*record     // unfinished records of stdout and stderr; nil if there is none
	last     time.Time      // with TextTime, the time of the newest line that had a time; otherwise zero
	hits     int            // number of hits of the last call, as an estimate for the next one
	assumed  *assumption    // assumption of a speculative stream; otherwise nil
	base     int64          // offset in the log of the stream's first byte, if placed is set
	placed   bool
	same     sameTimeLines
	note     any
}

// NewStream returns a stream with a copy of the labels. It omits labels with an empty value.
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

// SetStart sets the time of the lines before the first line that has a time. With TextTime they get this time instead
// of the time of arrival.
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

// Unfinished returns the number of scanned bytes from the start of the oldest incomplete line or record on. After a
// restart, nothing is lost if reading continues that many bytes before the end of the scanned part.
func (s *Stream) Unfinished() int {
	return int(s.counters.Bytes - min(s.unfinishedStart(0, s.counters.Bytes), s.unfinishedStart(1, s.counters.Bytes)))
}

// unfinishedStart returns the offset of the unfinished line or record of stdout (k = 0) or stderr (k = 1), or end if
// there is none.
func (s *Stream) unfinishedStart(k int, end int64) int64 {
	if o := &s.open[k]; o.parts > 0 {
		end = min(end, o.start)
	}
	if rec := s.records[k]; rec != nil {
		end = min(end, rec.start)
	}
	return end
}

// firstUnfinished returns the number of the first physical line of the unfinished line or record of stdout (k = 0) or
// stderr (k = 1), or math.MaxInt64 if there is none.
func (s *Stream) firstUnfinished(k int) int64 {
	first := int64(math.MaxInt64)
	if o := &s.open[k]; o.parts > 0 {
		first = o.at.number
	}
	if rec := s.records[k]; rec != nil {
		first = min(first, rec.lines[0].at.number)
	}
	return first
}

// maxResume is the maximum number of bytes by which resumeAt goes back, because unfinished lines of stdout and stderr
// that always overlap must not hold the position back forever.
const maxResume = 64 << 10

// resumeAt returns the offset from which a line of stdout (k = 0) or stderr (k = 1) must be read again after a restart.
// start is the offset of the line. If the other output has an unfinished line at start, reading must resume at that
// line, because otherwise the rest of that line would be matched alone.
func (s *Stream) resumeAt(k int, start int64) int64 {
	if other := s.unfinishedStart(1-k, start); start-other < maxResume {
		return other
	}
	return start
}

// assumption is the state that a speculative stream assumes at its start; see Speculate.
type assumption struct {
	lines, bytes int64 // numbers of lines and bytes before the start of the speculative stream
	envelope     Format
	// untimed is set if a line got the time of arrival because no earlier line of the speculative stream had a time.
	untimed bool
	// first is the time of the first hit of a line with an offset, in nanoseconds since 1970. Zero means that there is
	// none.
	first int64
}

// Speculate returns a stream that starts the given number of lines and bytes after the end of the scanned part of s, so
// that sections of one log can be scanned concurrently. It assumes that no line or record is unfinished at its start,
// and that the format of the envelope is still the same. Commit checks the assumption. s must not be in use during the
// call. The returned stream is for the program with which s was last used.
func (s *Stream) Speculate(lines, bytes int64) *Stream {
	a := &Stream{labels: s.labels, opt: s.opt, identity: s.identity, prog: s.prog, sel: s.sel, envelope: s.envelope, hits: s.hits, base: s.base, placed: s.placed}
	a.counters.Lines, a.counters.Bytes = s.counters.Lines+lines, s.counters.Bytes+bytes
	a.assumed = &assumption{lines: a.counters.Lines, bytes: a.counters.Bytes, envelope: s.envelope}
	return a
}

// Commit moves s to the end of the section that a, a stream from Speculate, has scanned, as if s had scanned it itself.
// If the assumption was wrong, Commit returns false and changes nothing. Then the hits of a are invalid. a must not be
// used afterwards.
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
