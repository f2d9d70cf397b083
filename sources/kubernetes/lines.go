package kubernetes

import (
	"bytes"
	"time"

	"github.com/cespare/xxhash/v2"

	"crowsnest/matcher"
)

const (
	maxStamp = 40 // maximum number of bytes of a timestamp
	// keepLine is the number of bytes that are kept of a line. The kept bytes are the timestamp, the part that is
	// matched, and one more byte that makes the matcher count the truncation.
	keepLine = maxStamp + matcher.MaxLine + 1
	// cri is inserted after the timestamp of a line from the API to give it the format of a
	// container runtime. The API does not distinguish stdout and stderr.
	cri = " stdout F "
)

// lines splits the response of one request into lines. It drops lines that were read before,
// and writes new lines in the format of a container runtime. It serves only one request.
type lines struct {
	// overlapCount is the number of times that each line is still expected again. It is nil if
	// no repetitions are expected.
	overlapCount map[seenLine]int
	floor        int64 // time before which all lines were read
	atFloor      int   // number of lines at exactly floor that were read
	passed       int64 // time of a line after which no more repetitions are expected

	live bool   // whether the request reads the current instance, according to the API
	rest []byte // start of an incomplete line, at most keepLine bytes
	size int64  // size of the incomplete line, including the part that is not kept

	block []byte     // new lines in the format of a container runtime
	fresh []seenLine // identities of the lines in block, by which repetitions are recognised
	// stray is the first line without a timestamp since the last check. Lines of a log have a
	// timestamp, so this line is a message of the kubelet or the API server.
	stray  string
	strays int
	cut    int64 // number of bytes that were dropped because lines exceeded keepLine
}

// newLines returns lines for a request that continues after the lines in r.
func newLines(r *logProgress) *lines {
	if r.Newest == 0 {
		return &lines{}
	}
	l := &lines{overlapCount: map[seenLine]int{}, floor: r.Floor, atFloor: r.AtFloor, passed: max(r.Newest, r.Last) + int64(overlap)}
	for _, line := range r.Lines[r.head:] {
		l.overlapCount[line]++
	}
	return l
}

// addBytes processes bytes of the response. Afterwards, block and fresh hold the new lines.
func (l *lines) addBytes(b []byte) {
	for len(b) > 0 {
		nl := bytes.IndexByte(b, '\n')
		if nl < 0 {
			l.keepPart(b)
			return
		}
		if l.size == 0 {
			l.addLine(b[:min(nl, keepLine)], int64(nl))
		} else {
			l.keepPart(b[:nl])
			l.addLine(l.rest, l.size)
			l.rest, l.size = l.rest[:0], 0
		}
		b = b[nl+1:]
	}
}

func (l *lines) keepPart(b []byte) {
	l.size += int64(len(b))
	l.rest = append(l.rest, b[:min(len(b), keepLine-len(l.rest))]...)
}

// endLine treats the unterminated rest as a line, because a container may exit while it writes a line.
func (l *lines) endLine() {
	if l.size > 0 {
		l.addLine(l.rest, l.size)
		l.rest, l.size = l.rest[:0], 0
	}
}

// finishAnswer checks the rest at the end of a response. The rest is the start of an incomplete
// line, or a message of the kubelet, which has no timestamp and often no newline.
func (l *lines) finishAnswer() {
	if l.size == 0 || '0' <= l.rest[0] && l.rest[0] <= '9' {
		return
	}
	l.endLine()
}

func (l *lines) addLine(b []byte, size int64) {
	n := bytes.IndexByte(b[:min(len(b), maxStamp)], ' ')
	if n < 0 && len(b) <= maxStamp {
		n = len(b) // the line is empty and has no space after the timestamp
	}
	at, ok := parseTimestamp(b[:max(n, 0)])
	if !ok {
		if l.strays == 0 {
			l.stray = string(b[:min(len(b), 200)])
		}
		l.strays++
		return
	}
	key := seenLine{at: at, hash: uint32(xxhash.Sum64(b)) ^ uint32(size)}
	if l.isRepeated(key) {
		return
	}
	l.cut += size - int64(len(b))
	l.block = append(append(append(l.block, b[:n]...), cri...), b[min(n+1, len(b)):]...)
	l.block = append(l.block, '\n')
	l.fresh = append(l.fresh, key)
}

func (l *lines) isRepeated(key seenLine) bool {
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

func parseTimestamp(b []byte) (int64, bool) {
	if len(b) < len("2006-01-02T15:04:05Z") {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0, false
	}
	return t.UnixNano(), true
}
