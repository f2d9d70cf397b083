package matcher

import (
	"bytes"
	"sync"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

// Complaint is a line that may report a problem, as its level and its first words show, and that no part of any rule
// matches. Its text belongs to the Buffer.
type Complaint struct {
	// Line is the text without its CRI or Docker envelope. If the complaint is a klog block or a panic, Line contains
	// all its lines.
	Line string
	// Time is the event time. If Untimed is set, the line states no time, and Time is its time
	// of arrival.
	Time    time.Time
	Untimed bool
	// LineNumber counts physical lines, as Hit.LineNumber does.
	LineNumber int64
}

// NewBuffer returns a buffer for calls that also find complaints. A line whose level is harmless or missing is searched
// for words, which takes longer than all other work. searched is the maximum number of lines without a level that one
// call searches. A quarter as many lines with a harmless level are searched. A negative number means no limit.
func NewBuffer(searched int) *Buffer { return &Buffer{watch: true, searched: searched} }

// NewUnmatchedBuffer returns a buffer for recorded logs. Calls that use it also find every line that no rule matches,
// even in streams that no rule selects. Complaints then returns all these lines, except lines that continue the
// previous line. At most one hit is found for each line. Hits have no ID.
func NewUnmatchedBuffer() *Buffer { return &Buffer{watch: true, everyLine: true, withoutIDs: true} }

// Complaints returns the complaints of the last call. They are valid until the next call.
func (b *Buffer) Complaints() []Complaint { return b.complaints }

// hitSince reports whether a rule that trusts the stream has a hit. It ignores the first before hits.
func (r *run) hitSince(before int) bool {
	hits := r.hits()[before:]
	for i := range hits {
		if !r.doubted || !hits[i].Rule.Infrastructure {
			return true
		}
	}
	return false
}

// keepComplaint records a line that no rule matches as a complaint if it may report a problem.
func (r *run) keepComplaint(text []byte, m moment) {
	if !r.complains(text) {
		return
	}
	m = r.resolveTime(m)
	r.buf.complaints = append(r.buf.complaints, Complaint{
		Line: r.buf.copyText(text), Time: m.time, Untimed: !m.own && !m.fromText, LineNumber: m.number,
	})
}

// complains reports whether a line may report a problem. It decreases the number of lines that may still be searched
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

// IsComplaint reports whether a line may report a problem, as its level and its first words show. The line must have no
// CRI or Docker envelope. IsComplaint is safe for concurrent use.
func IsComplaint(line string) bool {
	text := []byte(line)
	switch levelVerdict(text) {
	case harmful:
		return true
	case dependent:
		return false
	}
	// Every word must end at a space, including a word before a tab and the last word.
	text = append(bytes.ReplaceAll(text, []byte("\t"), []byte(" ")), ' ')
	r := run{sc: new(scratch)}
	return r.hasComplaintWord(text)
}

// levelWithin is the number of bytes at the start of a line in which a level is searched for. wordWithin is the same
// number for a word.
const (
	levelWithin = 192
	wordWithin  = 160
)

// verdict is the result of judging a line by its level.
type verdict int

const (
	dependent verdict = iota // the line continues the previous line
	harmless                 // only special words make the line a complaint, such as the words of a program that waits
	harmful
	unknown // the words of the line decide
)

// levelVerdict judges a line by its level, if it has one. Structured loggers write the level near the beginning, so
// judging ordinary lines costs very little.
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
	errorWord     = literals.NewNeedle(literals.Text{Text: "rror"}) // finds "error" and "Error"
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

// jsonLevel judges a JSON object by its field level, severity or lvl. The JSON of klog has none of these fields, and
// only its informational lines have a verbosity v, so a line with v is harmless.
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

// readLevel reads the level at the start of a text. The level is a word, or a number as in Node.js loggers.
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
		return newVerdict(b[1]|0x20 == 'p') // dpanic is harmful, and debug is harmless
	}
	if isDigit(b[0]) {
		return newVerdict(b[0] >= '4')
	}
	return unknown
}

// complaintWords finds words of complaints and of waiting in texts without a level. No word has fewer than six letters,
// because the search then inspects fewer positions. The word "error" is shorter and is searched for separately.
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
