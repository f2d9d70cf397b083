package matcher

import (
	"bytes"
	"sync"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

// Complaint is a line that may report a problem, as far as a glance shows, and that no
// part of any rule matches. Its text belongs to the Buffer.
type Complaint struct {
	// Line is the text without its envelope; of a record, all of its lines.
	Line string
	// Time is the event time. Untimed means that the line states none: it is the time of
	// arrival.
	Time    time.Time
	Untimed bool
	// LineNumber is as in Hit.
	LineNumber int64
}

// NewBuffer returns a buffer. The calls that use it also find the lines that complain and
// that no rule matches. A line that states no level, or a harmless one, is searched for
// words, which takes longer than the rest: at most so many lines of a call are, and a quarter
// as many with a harmless level; a negative number is no bound.
func NewBuffer(searched int) *Buffer { return &Buffer{watch: true, searched: searched} }

// Complaints returns the complaints of the last call. They are valid until the next one.
func (b *Buffer) Complaints() []Complaint { return b.complaints }

// watched reports whether a rule that trusts the stream had a hit since there were that many.
func (r *run) watched(before int) bool {
	hits := r.hits()[before:]
	for i := range hits {
		if !r.doubted || !hits[i].Rule.Infrastructure {
			return true
		}
	}
	return false
}

// complain keeps a line that no rule matches if it may report a problem.
func (r *run) complain(text []byte, at moment) {
	switch glance(text) {
	case dependent:
		return
	case harmless:
		if r.mild == 0 {
			return
		}
		if r.mild--; !r.hasComplaintWord(text) {
			return
		}
	case unknown:
		if r.searched == 0 {
			return
		}
		if r.searched--; !r.hasComplaintWord(text) {
			return
		}
	}
	at = r.resolve(at)
	r.buf.complaints = append(r.buf.complaints, Complaint{
		Line: r.buf.textOf(text), Time: at.time, Untimed: !at.own && !at.fromText, LineNumber: at.number,
	})
}

// mayComplain reports whether complain would keep a text. If not, the text counts as searched
// as it would there.
func (r *run) mayComplain(text []byte) bool {
	switch glance(text) {
	case dependent:
		return false
	case harmless:
		return r.search(text, &r.mild)
	case unknown:
		return r.search(text, &r.searched)
	}
	return true
}

// search reports whether a text has a word of a complaint, if some more may be searched, and
// counts it if it has none.
func (r *run) search(text []byte, left *int) bool {
	if *left == 0 || r.hasComplaintWord(text) {
		return *left != 0
	}
	*left--
	return false
}

// Complains reports whether a line without its envelope may report a problem, as far as its level
// and its first words show. It is safe for concurrent use.
func Complains(line string) bool {
	text := []byte(line)
	switch glance(text) {
	case harmful:
		return true
	case dependent:
		return false
	}
	// A word ends at a tab or at the end of the line too.
	text = append(bytes.ReplaceAll(text, []byte("\t"), []byte(" ")), ' ')
	r := run{sc: new(scratch)}
	return r.hasComplaintWord(text)
}

// levelWithin and wordWithin bound where a level and a word are looked for.
const (
	levelWithin = 192
	wordWithin  = 160
)

// verdict is what a glance at a line shows.
type verdict int

const (
	dependent verdict = iota // belongs to the line before
	harmless                 // its words may make it one that waits, or fails without saying so
	harmful
	unknown // its words decide
)

// glance judges a line by its level, if it states one. Levels of structured loggers stand
// near the beginning, so an ordinary line costs next to nothing.
func glance(text []byte) verdict {
	if len(text) < 8 {
		return dependent
	}
	switch c := text[0]; {
	case klogHeader(text):
		return of(c != 'I')
	case c == '{':
		return jsonLevel(text)
	case c == '\t', c == ' ' && text[1] == '>':
		return dependent
	}
	head := text[:min(len(text), levelWithin)]
	if k := levelIs.Index(head); k >= 0 {
		return levelOf(head[k+len("level="):])
	}
	return unknown
}

// of returns the verdict of a level.
func of(bad bool) verdict {
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

// klogHeader reports whether a line begins with the header of klog.
func klogHeader(b []byte) bool {
	switch b[0] {
	case 'I', 'W', 'E', 'F':
		return digit(b[1]) && digit(b[2]) && digit(b[3]) && digit(b[4]) && b[5] == ' '
	}
	return false
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// jsonLevel judges a JSON object by level, severity or lvl. klog's has no level, and states
// a verbosity in lines of level info only. Every key has a v, which is a rare letter.
func jsonLevel(text []byte) verdict {
	if zap := []byte(`{"level":`); bytes.HasPrefix(text, zap) {
		return levelOf(text[len(zap):])
	}
	klog := bytes.HasPrefix(text, []byte(`{"ts":`))
	rest := text
	if !klog {
		rest = text[:min(len(text), levelWithin)]
	}
	for {
		k := bytes.IndexByte(rest, 'v')
		if k < 0 {
			return withoutLevelIs(klog)
		}
		before := rest[:k]
		if rest = rest[k+1:]; len(rest) < 3 {
			return withoutLevelIs(klog)
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
		if v := levelOf(after); v != unknown {
			return v
		}
	}
}

// withoutLevelIs judges an object without a level.
func withoutLevelIs(klog bool) verdict {
	if klog {
		return harmful
	}
	return unknown
}

// levelOf reads the level at the start of a text: a word, or a number as loggers of
// Node.js write it.
func levelOf(b []byte) verdict {
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
		return of(b[1]|0x20 == 'p') // dpanic, debug
	}
	if digit(b[0]) {
		return of(b[0] >= '4')
	}
	return unknown
}

// complaintWords finds words of complaints and of waits in text without a level. None has
// fewer than six letters, because the search looks at fewer places then; error is looked
// for beside it.
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
