package matcher

import "time"

// Format is the envelope of a stream's lines.
type Format int

// The envelopes. FormatAuto looks at each line until one decides.
const (
	FormatAuto   Format = iota
	FormatText          // none: the line is the text
	FormatCRI           // as CRI runtimes write below /var/log/pods
	FormatDocker        // json-file of Docker
)

// StreamOptions say how a stream is read. The zero value is right for a source
// of the daemon.
type StreamOptions struct {
	Format Format
	// Lenient lets a label that the stream does not have satisfy every
	// selector. It is for files whose labels nobody stated.
	Lenient bool
	// TextTime takes the event time of lines without an envelope from their
	// text: klog, JSON, logfmt or leading RFC 3339. Otherwise it is the time
	// of arrival.
	TextTime bool
	// IgnoreLabels are left out of the stream's identity; nil means
	// DefaultIgnoreLabels.
	IgnoreLabels []string
}

// DefaultIgnoreLabels differ between sources that read the same stream.
var DefaultIgnoreLabels = []string{"filename", "job", "service_name", "detected_level", "stream", "flags", "node_name"}

// Counters count the physical lines of a stream. Lines is the sum of Evaluated
// and Dropped plus the parts that are still unfinished.
type Counters struct {
	Lines, Bytes int64
	Evaluated    int64 // physical lines whose logical line was looked at
	Dropped      int64 // none is dropped silently: each has a reason here
	Truncated    int64 // logical lines cut at MaxLine or MaxMerged
	Unparsed     int64 // lines without the stream's envelope, matched as they are
}

// Record is one line from a source that has records: its text and its time.
type Record struct {
	Time time.Time
	Text []byte // without a line end; not kept
}

// API of Program and Stream, see program.go:
//
//	func Compile(set *rules.Set) (*Program, error)
//	func NewStream(labels Labels, opt StreamOptions) *Stream
//	func (p *Program) Scan(s *Stream, block []byte, now time.Time) []Hit
//	func (p *Program) Match(s *Stream, rec Record) []Hit
//	func (p *Program) Flush(s *Stream, now time.Time) []Hit
//	func (p *Program) Rules(s *Stream) []*rules.Rule
//	func (s *Stream) Labels() Labels
//	func (s *Stream) Counters() Counters
//	func (s *Stream) Unfinished() int
//	func Explain(r *rules.Rule, labels Labels, line []byte) Explanation
