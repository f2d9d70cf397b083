package kubernetes

import (
	"bytes"
	"time"

	"github.com/cespare/xxhash/v2"

	"crowsnest/matcher"
)

const (
	maxStamp = 40 // bytes of a timestamp
	// keepLine is how much is kept of a line: its timestamp, the part that is
	// matched, and one more byte, so that the matcher counts the truncation.
	keepLine = maxStamp + matcher.MaxLine + 1
	// cri follows the timestamp to turn a line of the API into one of a container
	// runtime. The API does not distinguish stdout and stderr.
	cri = " stdout F "
)

// lines splits the response of one request into lines, drops those that were read
// before, and writes the others in the format of a container runtime. It serves one
// request.
type lines struct {
	overlapCount map[seen]int // remaining lines read before; nil if there are no more repetitions
	floor        int64        // earlier lines were read
	atFloor      int          // and so many lines of exactly this time
	passed       int64        // a line newer than this ends the repetitions

	live bool   // reads the current instance, as far as the API knows
	rest []byte // start of an incomplete line, at most keepLine
	size int64  // size of that line, including what is not stored

	block []byte // new lines
	fresh []seen // the lines of block
	// stray is the first line without a timestamp since the last check. A log has
	// none: it is a message of the kubelet or the API server.
	stray  string
	strays int
	cut    int64 // bytes of lines beyond keepLine
}

// newLines returns lines for a request that continues at r.
func newLines(r *recent) *lines {
	if r.Newest == 0 {
		return &lines{}
	}
	return &lines{overlapCount: r.held(), floor: r.Floor, atFloor: r.AtFloor, passed: max(r.Newest, r.Last) + int64(overlap)}
}

// add processes bytes. Afterwards block and fresh hold the new lines.
func (l *lines) add(b []byte) {
	for len(b) > 0 {
		nl := bytes.IndexByte(b, '\n')
		if nl < 0 {
			l.keep(b)
			return
		}
		if l.size == 0 {
			l.line(b[:min(nl, keepLine)], int64(nl))
		} else {
			l.keep(b[:nl])
			l.line(l.rest, l.size)
			l.rest, l.size = l.rest[:0], 0
		}
		b = b[nl+1:]
	}
}

func (l *lines) keep(b []byte) {
	l.size += int64(len(b))
	l.rest = append(l.rest, b[:min(len(b), keepLine-len(l.rest))]...)
}

// end accepts an unterminated rest as a line: a container may exit in the middle of
// one.
func (l *lines) end() {
	if l.size > 0 {
		l.line(l.rest, l.size)
		l.rest, l.size = l.rest[:0], 0
	}
}

// finishAnswer checks the rest of a response: the beginning of a broken line, or a
// message of the kubelet, which has no timestamp and often no line end.
func (l *lines) finishAnswer() {
	if l.size == 0 || '0' <= l.rest[0] && l.rest[0] <= '9' {
		return
	}
	l.end()
}

// line processes one line: timestamp, space, text.
func (l *lines) line(b []byte, size int64) {
	n := bytes.IndexByte(b[:min(len(b), maxStamp)], ' ')
	if n < 0 && len(b) <= maxStamp {
		n = len(b) // an empty line without the space
	}
	at, ok := stamp(b[:max(n, 0)])
	if !ok {
		l.astray(b)
		return
	}
	key := seen{at: at, hash: uint32(xxhash.Sum64(b)) ^ uint32(size)}
	if l.repeated(key) {
		return
	}
	l.cut += size - int64(len(b))
	l.block = append(append(append(l.block, b[:n]...), cri...), b[min(n+1, len(b)):]...)
	l.block = append(l.block, '\n')
	l.fresh = append(l.fresh, key)
}

func (l *lines) repeated(key seen) bool {
	if l.overlapCount == nil {
		return false
	}
	if n := l.overlapCount[key]; n > 0 {
		l.overlapCount[key] = n - 1
		return true
	}
	if key.at < l.floor {
		return true
	}
	if key.at == l.floor && l.atFloor > 0 {
		l.atFloor--
		return true
	}
	if key.at > l.passed {
		l.overlapCount, l.floor = nil, 0
	}
	return false
}

func (l *lines) astray(b []byte) {
	if l.strays == 0 {
		l.stray = string(b[:min(len(b), 200)])
	}
	l.strays++
}

// stamp parses the timestamp before a line.
func stamp(b []byte) (int64, bool) {
	if len(b) < len("2006-01-02T15:04:05Z") {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0, false
	}
	return t.UnixNano(), true
}
