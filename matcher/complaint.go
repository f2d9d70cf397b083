package matcher

import (
	"bytes"
	"sync"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

// Complaint is a line that may report a problem, judged by its level and its first words, and
// that no part of any rule matches. Its text belongs to the Buffer.
type Complaint struct {
	// Line is the text without its envelope. For a record it is the text of all its lines.
	Line string
	// Time is the event time. If Untimed is set, the line states no time, and Time is its time
	// of arrival.
	Time    time.Time
	Untimed bool
	// LineNumber counts as Hit.LineNumber does.
	LineNumber int64
}

// NewBuffer returns a buffer for calls that also find complaints. A line whose level is
// harmless or not stated is searched for words, which takes longer than everything else. In one
// call, at most searched lines without a level are searched, and a quarter as many with a
// harmless one. A negative number means no bound.
func NewBuffer(searched int) *Buffer { return &Buffer{watch: true, searched: searched} }

// NewUnmatchedBuffer returns a buffer for recorded logs. Calls that use it also find every line
// that no rule matches, even in streams that no rule selects. Complaints then returns all these
// lines, except those that continue the previous line. If several parts match a line, only one
// hit is found. Hits have no ID.
func NewUnmatchedBuffer() *Buffer { return &Buffer{watch: true, everyLine: true, withoutIDs: true} }

// Complaints returns the complaints of the last call. They are valid until the next call.
func (b *Buffer) Complaints() []Complaint { return b.complaints }

// hitSince reports whether a rule that trusts the stream had a hit after the first n hits.
func (r *run) hitSince(before int) bool {
	hits := r.hits()[before:]
	for i := range hits {
		if !r.doubted || !hits[i].Rule.Infrastructure {
			return true
		}
	}
	return false
}

// keepComplaint keeps a line if it may report a problem. No rule matches the line.
func (r *run) keepComplaint(text []byte, m moment) {
	if !r.complains(text) {
		return
	}
	m = r.resolveTime(m)
	r.buf.complaints = append(r.buf.complaints, Complaint{
		Line: r.buf.copyText(text), Time: m.time, Untimed: !m.own && !m.fromText, LineNumber: m.number,
	})
}

// complains reports whether a line may report a problem. It counts the lines that it searches
// for words.
func (r *run) complains(text []byte) bool {
	verdict := levelVerdict(text)
	if r.buf.everyLine {
		return verdict != dependent
	}
	left := &r.searched
	switch verdict {
	case dependent:
		return false
	case harmful:
		return true
	case harmless:
		left = &r.mild
	}
	if *left == 0 {
		return false
	}
	*left--
	return r.hasComplaintWord(text)
}

// IsComplaint reports whether a line without its envelope may report a problem, as far as its level
// and its first words show. It is safe for concurrent use.
func IsComplaint(line string) bool {
	text := []byte(line)
	switch levelVerdict(text) {
	case harmful:
		return true
	case dependent:
		return false
	}
	// so that a word also ends at a tab and at the end of the line
	text = append(bytes.ReplaceAll(text, []byte("\t"), []byte(" ")), ' ')
	r := run{sc: new(scratch)}
	return r.hasComplaintWord(text)
}

// levelWithin and wordWithin bound how far from the start of a line a level and a word are
// searched for.
const (
	levelWithin = 192
	wordWithin  = 160
)

// verdict is the first judgement of a line.
type verdict int

const (
	dependent verdict = iota // the line continues the previous one
	harmless                 // only special words can make it a complaint, such as those of a program that waits
	harmful
	unknown // its words decide
)

// levelVerdict judges a line by its level, if it states one. Structured loggers write the level
// near the beginning, so ordinary lines cost very little.
func levelVerdict(text []byte) verdict {
	if len(text) < 8 {
		return dependent
	}
	switch c := text[0]; {
	case klogHeader(text):
		return newVerdict(c != 'I')
	case c == '{':
		return jsonLevel(text)
	case c == '\t', c == ' ' && text[1] == '>':
		return dependent
	}
	head := text[:min(len(text), levelWithin)]
	if k := levelIs.Index(head); k >= 0 {
		return readLevel(head[k+len("level="):])
	}
	return unknown
}

func newVerdict(bad bool) verdict {
	if bad {
		return harmful
	}
	return harmless
}

// hasComplaintWord reports whether a line has a word of a complaint near its beginning.
func (r *run) hasComplaintWord(text []byte) bool {
	head := text[:min(len(text), wordWithin)]
	if errorWord.Index(head) >= 0 || errorCapitals.Index(head) >= 0 {
		return true
	}
	r.sc.complaint = complaintWords().Append(r.sc.complaint[:0], head, &r.sc.lineMarks)
	return len(r.sc.complaint) > 0
}

var (
	levelIs       = literals.NewNeedle(literals.Text{Text: "level="})
	errorWord     = literals.NewNeedle(literals.Text{Text: "rror"}) // "error" or "Error"
	errorCapitals = literals.NewNeedle(literals.Text{Text: "ERROR"})
)

func klogHeader(b []byte) bool {
	switch b[0] {
	case 'I', 'W', 'E', 'F':
		return isDigit(b[1]) && isDigit(b[2]) && isDigit(b[3]) && isDigit(b[4]) && b[5] == ' '
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// jsonLevel judges a JSON object by its field level, severity or lvl. The JSON of klog has none
// of them, and only its informational lines state a verbosity v. The search looks for the rare
// letter v.
func jsonLevel(text []byte) verdict {
	if zap := []byte(`{"level":`); bytes.HasPrefix(text, zap) {
		return readLevel(text[len(zap):])
	}
	klog := bytes.HasPrefix(text, []byte(`{"ts":`))
	rest := text
	if !klog {
		rest = text[:min(len(text), levelWithin)]
	}
	for {
		k := bytes.IndexByte(rest, 'v')
		if k < 0 {
			return verdictWithoutLevel(klog)
		}
		before := rest[:k]
		if rest = rest[k+1:]; len(rest) < 3 {
			return verdictWithoutLevel(klog)
		}
		after := rest
		switch {
		case after[0] == '"' && after[1] == ':' && klog && bytes.HasSuffix(before, []byte(`"`)):
			return harmless
		case bytes.HasPrefix(after, []byte(`el":`)) && bytes.HasSuffix(before, []byte(`le`)):
			after = after[len(`el":`):]
		case bytes.HasPrefix(after, []byte(`l":`)) && bytes.HasSuffix(before, []byte(`"l`)):
			after = after[len(`l":`):]
		case bytes.HasPrefix(after, []byte(`erity":`)):
			after = after[len(`erity":`):]
		default:
			continue
		}
		if v := readLevel(after); v != unknown {
			return v
		}
	}
}

func verdictWithoutLevel(klog bool) verdict {
	if klog {
		return harmful
	}
	return unknown
}

// readLevel reads the level at the start of a text. It is a word, or a number as Node.js
// loggers write it.
func readLevel(b []byte) verdict {
	b = bytes.TrimLeft(b[:min(len(b), 8)], ` "`)
	if len(b) < 2 {
		return unknown
	}
	switch b[0] | 0x20 {
	case 'e', 'w', 'f', 'c', 'a', 'p':
		return harmful
	case 'i', 't', 'n', 'v':
		return harmless
	case 'd':
		return newVerdict(b[1]|0x20 == 'p') // a level that begins with d is bad if it is dpanic, and harmless if it is debug
	}
	if isDigit(b[0]) {
		return newVerdict(b[0] >= '4')
	}
	return unknown
}

// complaintWords finds words of complaints and of waiting in texts without a level. No word has
// fewer than six letters, because the search then looks at fewer places. The word error is
// searched for separately.
var complaintWords = sync.OnceValue(func() *prefilter.Filter {
	var texts []literals.Text
	for _, word := range []string{
		"failed", "failure", "failing", "panic:", "panicked", "fatal:", "[fatal", "fatal ", "warning", " warn ", "refused", "denied", "unable to", "cannot ", "can't ",
		"couldn't", "could not", "timed out", "timeout", "deadline", "unreachable", "unavailable", "invalid", "not found", "no such", "forbidden",
		"unauthorized", "exception", "x509: ", "crashed", "crashloop", "killed", "corrupt", "out of ", "no space", "rejected", "aborted", "aborting",
		" stuck", "unhealthy", "not ready", "waiting", "still not", "retrying", "exit status", "exit code", "expired", "mismatch", "insufficient",
		"exceeded", " lost ", "doesn't", "does not", "unexpected",
	} {
		texts = append(texts, literals.Text{Text: word, Fold: true})
	}
	return prefilter.New(texts, ordinary().lines)
})
