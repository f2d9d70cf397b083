package kubernetes

import (
	"encoding/base64"
	"encoding/binary"
	"time"
)

const (
	// overlap is how far back a log is read again after a disconnect. stdout and
	// stderr are stamped separately, so times may step back slightly, and the
	// API accepts whole seconds only.
	overlap = 2 * time.Second
	// keepFor is how long lines are remembered: the overlap, the second that the
	// API rounds down by, and one more.
	keepFor = 4 * time.Second
	// maxRecent bounds the remembered lines of one log.
	maxRecent = 4096
	// maxSaved bounds the lines in a saved position.
	maxSaved = 128
)

// seen identifies a line that was read.
type seen struct {
	at   int64 // ns since 1970
	hash uint32
}

// recent is how far a log was read: the newest time, and the lines of the last
// seconds with their counts.
type recent struct {
	newest  int64 // ns; 0: nothing was read
	last    int64 // time of the line that was read last
	floor   int64 // 0, or earlier lines were read and are no longer remembered
	atFloor int   // number of forgotten lines of exactly that time
	lines   []seen
	head    int // index of the first remembered line

	// conns are the connections since the instance was last certain, oldest first.
	conns []conn
}

// conn is one connection: it carries the log of one instance.
type conn struct {
	From  int64 `json:"from"`  // earlier connections had read up to this time
	First int64 `json:"first"` // lowest time of its lines; 0: it had none
}

// maxConns bounds the remembered connections of one log.
const maxConns = 16

// connect records a new connection.
func (r *recent) connect(from int64) {
	if n := len(r.conns); n > 0 && r.conns[n-1].First == 0 {
		return // the latest one carried nothing
	}
	if len(r.conns) == maxConns { // merge the two oldest
		r.conns[1].From = r.conns[0].From
		r.conns[1].First = max(r.conns[0].First, r.conns[1].First)
		r.conns = r.conns[:copy(r.conns, r.conns[1:])]
	}
	r.conns = append(r.conns, conn{From: from})
}

// extendConn records a line of the latest connection.
func (r *recent) extendConn(at int64) {
	if n := len(r.conns); n > 0 {
		if c := &r.conns[n-1]; c.First == 0 || at < c.First {
			c.First = at
		}
	}
}

// mark returns the time up to which all lines belong to the instance that ended at
// end, if later connections may have carried the next one. A connection with a line
// older than the end carried the old one.
func (r *recent) mark(end time.Time) (at int64, marked bool) {
	for i := len(r.conns) - 1; i >= 0; i-- {
		c := r.conns[i]
		if c.First != 0 && !end.IsZero() && c.First < end.UnixNano() {
			break
		}
		at, marked = c.From, marked || c.First != 0
	}
	return at, marked
}

func (r *recent) add(l seen) {
	r.lines = append(r.lines, l)
	r.newest, r.last = max(r.newest, l.at), l.at
	keep := min(r.newest, r.last) - int64(keepFor)
	if len(r.conns) > 0 {
		keep = min(keep, r.conns[0].From-int64(keepFor))
	}
	for r.head < len(r.lines) && r.lines[r.head].at < keep {
		r.head++
	}
	if len(r.lines)-r.head > maxRecent {
		r.floor, r.atFloor = raise(r.floor, r.atFloor, r.lines[r.head].at)
		r.head++
	}
	if r.floor != 0 && (r.floor < keep || r.last < r.newest-int64(overlap)) {
		r.floor, r.atFloor = 0, 0 // too old to matter, or the clock was set back: duplicates are better than losses
	}
	if r.head > 256 && r.head > len(r.lines)/2 {
		r.lines = r.lines[:copy(r.lines, r.lines[r.head:])]
		r.head = 0
	}
}

// raise returns the floor after forgetting a line of this time.
func raise(floor int64, n int, at int64) (int64, int) {
	switch {
	case at > floor:
		return at, 1
	case at == floor:
		return floor, n + 1
	}
	return floor, n
}

// held returns the remembered lines with their counts.
func (r *recent) held() map[seen]int {
	m := make(map[seen]int, len(r.lines)-r.head)
	for _, l := range r.lines[r.head:] {
		m[l]++
	}
	return m
}

// since returns where reading continues: overlap before the newest line, or at the
// oldest remembered one.
func (r *recent) since() time.Time {
	return time.Unix(0, max(min(r.newest, r.last)-int64(overlap), r.floor))
}

// pack encodes the newest lines, at most maxSaved, and returns the floor that
// belongs to them.
func (r *recent) pack() (text string, floor int64, at int) {
	lines, floor, at := r.lines[r.head:], r.floor, r.atFloor
	if drop := len(lines) - maxSaved; drop > 0 {
		for _, l := range lines[:drop] {
			floor, at = raise(floor, at, l.at)
		}
		lines = lines[drop:]
		if r.last < r.newest-int64(overlap) {
			floor, at = 0, 0
		}
	}
	b := make([]byte, 0, 12*len(lines))
	for _, l := range lines {
		b = binary.LittleEndian.AppendUint64(b, uint64(l.at))
		b = binary.LittleEndian.AppendUint32(b, l.hash)
	}
	return base64.StdEncoding.EncodeToString(b), floor, at
}

// unpack decodes the result of pack. ok is false if it is damaged.
func unpack(text string) (lines []seen, ok bool) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b)%12 != 0 || len(b) > 12*maxSaved {
		return nil, false
	}
	for ; len(b) > 0; b = b[12:] {
		lines = append(lines, seen{at: int64(binary.LittleEndian.Uint64(b)), hash: binary.LittleEndian.Uint32(b[8:])})
	}
	return lines, true
}
