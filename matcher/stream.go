package matcher

import (
	"time"

	"crowsnest/matcher/internal/lines"
)

// Format is the envelope of a stream's lines.
type Format int

// The envelopes. FormatAuto looks at the lines: the newest that had an envelope
// decides what is expected of the next, and lines without one are text.
const (
	FormatAuto   Format = iota
	FormatText          // none: the line is the text
	FormatCRI           // as CRI runtimes write below /var/log/pods
	FormatDocker        // json-file of Docker
)

// Join says how long a record waits for its next line.
type Join int

// The joins.
const (
	JoinNone Join = iota // each line is a record
	// JoinBlock ends a record with the block of Scan: for sources whose positions are
	// those of blocks.
	JoinBlock
	// JoinStream ends a record with Flush, which the source calls when no line comes for
	// a while. It saves positions before Stream.Unfinished.
	JoinStream
)

// StreamOptions say how a stream is read. The zero value is right for a source
// of the daemon.
type StreamOptions struct {
	Format Format
	// Lenient means that a label that the stream does not have satisfies every selector.
	// It is for files without stated labels.
	Lenient bool
	// TextTime parses the event time of lines without an envelope from their text:
	// klog, JSON, logfmt or leading RFC 3339. Otherwise it is the time of arrival.
	TextTime bool
	// Until supplies the year of times in texts without one, as TimeOf does; zero means the time
	// of arrival.
	Until time.Time
	// OfPods means that the source states the namespace of every pod. A stream with a
	// pod or a container and without a namespace is then of unknown origin, which
	// infrastructure rules do not trust.
	OfPods bool
	// Foreign means that others than the operator of the cluster may have written the lines,
	// although no namespace says so. Infrastructure rules do not trust them.
	Foreign bool
	// Join makes one record of the lines of a block of klog or of a Go panic.
	Join Join
	// IgnoreLabels are not part of the stream's identity; nil means
	// DefaultIgnoreLabels.
	IgnoreLabels []string
}

// DefaultIgnoreLabels differ between sources that read the same stream.
var DefaultIgnoreLabels = []string{"filename", "job", "service_name", "detected_level", "stream", "flags", "node_name"}

// Counters count the physical lines of a stream. Lines is the sum of Evaluated
// and Dropped plus the parts that are still unfinished.
type Counters struct {
	Lines, Bytes int64
	Evaluated    int64 // physical lines whose logical line was matched
	Dropped      int64 // none is dropped silently: each has a reason here
	Truncated    int64 // logical lines truncated at MaxLine or MaxMerged
	Unparsed     int64 // lines without the stream's envelope, matched as they are
}

// Record is one line from a source that has records: its text and its time. Nothing of
// it is kept.
type Record struct {
	Time time.Time
	Text []byte // without a line end
	// Fields belong to the line beside those in its text, which they precede.
	Fields []Field
	// Number distinguishes records of a stream with the same time and text, and stays the
	// same when a record is read again; zero means such records are one line, but see Stream.Place.
	Number uint64
}

// Field is a field that is not in the text of its line.
type Field = lines.Field

// Stream is the state of one log stream: its labels, the rules that may apply to it,
// and its incomplete lines. It is small unless there are any. It is not safe for
// concurrent use: a stream belongs to one goroutine at a time.
type Stream struct {
	// Newest is for the caller: the newest time of a hit that it accepted.
	Newest time.Time

	labels   Labels
	opt      StreamOptions
	identity uint64 // hash of the labels without IgnoreLabels

	prog *Program // program to which sel belongs
	sel  *selection

	envelope Format // FormatAuto: the one of the newest line that had one
	counters Counters
	open     [2]pending  // stdout, stderr
	records  [2]*record  // stdout, stderr; nil if none is open
	last     time.Time   // TextTime: of the newest line that had one; zero if there is none
	hits     int         // number of hits of the last call, an estimate for the next
	assumed  *assumption // assumption under which Speculate made the stream
	base     int64       // place of the first byte of the stream, if placed is set
	placed   bool
	same     same
	note     any
}

// NewStream returns a stream with these labels, which it copies. Labels with an empty
// value are omitted.
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
	s := &Stream{labels: own, opt: opt, identity: identityOf(own, opt.IgnoreLabels)}
	if opt.Format != FormatAuto {
		s.envelope = opt.Format
	}
	return s
}

// Began says when the lines were written that come before the first that states a time:
// with TextTime they have this time instead of that of their arrival.
func (s *Stream) Began(t time.Time) { s.last = t }

// Labels returns the labels of the stream. They are shared and must not be
// changed.
func (s *Stream) Labels() Labels { return s.labels }

// Note returns what SetNote stored, nil if nothing.
func (s *Stream) Note() any { return s.note }

// SetNote stores what one user of the stream remembers of it.
func (s *Stream) SetNote(note any) { s.note = note }

// Counters returns what has been read so far.
func (s *Stream) Counters() Counters { return s.counters }

// Unfinished returns how many bytes at the end of what was scanned belong to
// lines or records that are not complete: all from the first part of the oldest one on.
// A position that is saved before them loses nothing over a restart.
func (s *Stream) Unfinished() int {
	return int(s.counters.Bytes - min(s.unfinishedAt(0, s.counters.Bytes), s.unfinishedAt(1, s.counters.Bytes)))
}

// unfinishedAt returns the first byte of what stdout (0) or stderr (1) has unfinished, at
// most end.
func (s *Stream) unfinishedAt(k int, end int64) int64 {
	if o := &s.open[k]; o.parts > 0 {
		end = min(end, o.start)
	}
	if rec := s.records[k]; rec != nil {
		end = min(end, rec.start)
	}
	return end
}

// maxResume bounds how far resumeAt goes back: lines of stdout and stderr that are always
// interleaved must not keep the position where it is.
const maxResume = 64 << 10

// resumeAt returns from where to read again what begins at byte start of stdout (0) or
// stderr (1): from the beginning of what the other one has unfinished there, of which the
// rest alone would be matched otherwise.
func (s *Stream) resumeAt(k int, start int64) int64 {
	if other := s.unfinishedAt(1-k, start); start-other < maxResume {
		return other
	}
	return start
}

// Beside returns the stream with which another program scans what s scans, always before
// s does. of is what an earlier call returned, nil at first: it starts where s is now, and
// lines that are incomplete there are lost for it.
func (s *Stream) Beside(of *Stream) *Stream {
	if of == nil {
		of = &Stream{labels: s.labels, opt: s.opt, identity: s.identity, envelope: s.envelope, last: s.last}
	}
	of.base, of.placed = s.base+s.counters.Bytes-of.counters.Bytes, s.placed
	return of
}
