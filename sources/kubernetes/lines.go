package kubernetes

import (
	"bytes"
	"time"

	"github.com/cespare/xxhash/v2"

	"crowsnest/matcher"
)

const (
	maxStamp = 40 // bytes of a time
	// keepLine is what is kept of a line: its time, what is matched of it, and
	// one byte more, so that the matcher counts that it was cut.
	keepLine = maxStamp + matcher.MaxLine + 1
	// cri is what makes the line of a container runtime out of one of the API,
	// which does not tell stdout from stderr.
	cri = " stdout F "
)

// lines cuts what one request for a log returns into lines, leaves out those
// that were read before, and writes the others as a container runtime does. It
// belongs to one request.
type lines struct {
	had     map[seen]int // nil: nothing of it comes any more
	floor   int64        // lines before it were taken
	atFloor int          // and so many of exactly this time
	passed  int64        // a newer line than this ends the repetition

	live bool   // it is the newest instance, as far as the API knows
	rest []byte // of a line whose end was not read yet, at most keepLine
	size int64  // of that line, with what is not kept of it

	block []byte // new lines
	fresh []seen // of block
	// stray is the first line without a time since it was looked at. The log
	// itself has none: it is what the kubelet or the API server have to say.
	stray  string
	strays int
	cut    int64 // bytes of lines beyond keepLine
}

// newLines returns lines for a request that goes on where r is.
func newLines(r *recent) *lines {
	if r.newest == 0 {
		return &lines{}
	}
	return &lines{had: r.held(), floor: r.floor, atFloor: r.atFloor, passed: max(r.newest, r.last) + int64(overlap)}
}

// add takes bytes. What is new is in block and fresh afterwards.
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

// end takes what has no line end as a line: a container may end in the middle
// of one.
func (l *lines) end() {
	if l.size > 0 {
		l.line(l.rest, l.size)
		l.rest, l.size = l.rest[:0], 0
	}
}

// talk looks at what is left at the end of an answer: the piece of a line that was
// cut off, or words of the kubelet, which have no time and often no line end.
func (l *lines) talk() {
	if l.size == 0 || '0' <= l.rest[0] && l.rest[0] <= '9' {
		return
	}
	l.end()
}

// line takes one line: time, space, text.
func (l *lines) line(b []byte, size int64) {
	n := bytes.IndexByte(b[:min(len(b), maxStamp)], ' ')
	if n < 0 && len(b) <= maxStamp {
		n = len(b) // an empty line without its space
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

// repeated tells whether the line was read before.
func (l *lines) repeated(key seen) bool {
	if l.had == nil {
		return false
	}
	if n := l.had[key]; n > 0 {
		l.had[key] = n - 1
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
		l.had, l.floor = nil, 0
	}
	return false
}

func (l *lines) astray(b []byte) {
	if l.strays == 0 {
		l.stray = string(b[:min(len(b), 200)])
	}
	l.strays++
}

// stamp reads a time as it is written in front of lines.
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
