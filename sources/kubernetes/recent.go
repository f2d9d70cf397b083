package kubernetes

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
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
	// seenBytes is the size of an encoded line.
	seenBytes = 12
)

// seen identifies a line that was read.
type seen struct {
	at   int64 // ns since 1970
	hash uint32
}

// recent is how far a log was read: the newest time, and the lines of the last
// seconds with their counts. Times are ns since 1970.
type recent struct {
	Newest  int64     `json:"newest,omitempty"`   // zero if nothing was read
	Last    int64     `json:"last,omitempty"`     // time of the line that was read last
	Floor   int64     `json:"floor,omitempty"`    // unless zero, earlier lines were read and are no longer remembered
	AtFloor int       `json:"at_floor,omitempty"` // number of forgotten lines of exactly that time
	Lines   seenLines `json:"lines,omitempty"`
	head    int       // index of the first remembered line

	// Conns are the connections since the instance was last certain, oldest first.
	Conns []conn `json:"conns,omitempty"`
}

// conn is one connection: it carries the log of one instance.
type conn struct {
	From  int64 `json:"from"`  // earlier connections had read up to this time
	First int64 `json:"first"` // lowest time of its lines; zero if the instance had none
}

// maxConns bounds the remembered connections of one log.
const maxConns = 16

// connect records a new connection.
func (r *recent) connect(from int64) {
	if n := len(r.Conns); n > 0 && r.Conns[n-1].First == 0 {
		return // the latest one carried nothing
	}
	if len(r.Conns) == maxConns { // merge the two oldest
		r.Conns[1].From = r.Conns[0].From
		r.Conns[1].First = max(r.Conns[0].First, r.Conns[1].First)
		r.Conns = r.Conns[:copy(r.Conns, r.Conns[1:])]
	}
	r.Conns = append(r.Conns, conn{From: from})
}

// extendConn records a line of the latest connection.
func (r *recent) extendConn(at int64) {
	if n := len(r.Conns); n > 0 {
		if c := &r.Conns[n-1]; c.First == 0 || at < c.First {
			c.First = at
		}
	}
}

// mark returns the time up to which all lines belong to the instance that ended at
// end, if later connections may have carried the next one. A connection with a line
// older than the end carried the old one.
func (r *recent) mark(end time.Time) (at int64, marked bool) {
	for i := len(r.Conns) - 1; i >= 0; i-- {
		c := r.Conns[i]
		if c.First != 0 && !end.IsZero() && c.First < end.UnixNano() {
			break
		}
		at, marked = c.From, marked || c.First != 0
	}
	return at, marked
}

func (r *recent) add(l seen) {
	r.Lines = append(r.Lines, l)
	r.Newest, r.Last = max(r.Newest, l.at), l.at
	keep := min(r.Newest, r.Last) - int64(keepFor)
	if len(r.Conns) > 0 {
		keep = min(keep, r.Conns[0].From-int64(keepFor))
	}
	for r.head < len(r.Lines) && r.Lines[r.head].at < keep {
		r.head++
	}
	if len(r.Lines)-r.head > maxRecent {
		r.Floor, r.AtFloor = raise(r.Floor, r.AtFloor, r.Lines[r.head].at)
		r.head++
	}
	if r.Floor != 0 && (r.Floor < keep || r.Last < r.Newest-int64(overlap)) {
		r.Floor, r.AtFloor = 0, 0 // too old to matter, or the clock was set back: duplicates are better than losses
	}
	if r.head > 256 && r.head > len(r.Lines)/2 {
		r.Lines = r.Lines[:copy(r.Lines, r.Lines[r.head:])]
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
	m := make(map[seen]int, len(r.Lines)-r.head)
	for _, l := range r.Lines[r.head:] {
		m[l]++
	}
	return m
}

// since returns where reading continues: overlap before the newest line, or at the
// oldest remembered one.
func (r *recent) since() time.Time {
	return time.Unix(0, max(min(r.Newest, r.Last)-int64(overlap), r.Floor))
}

// saved returns a copy for the saved state, which has the newest lines, at most maxSaved.
func (r recent) saved() recent {
	lines := r.Lines[r.head:]
	if drop := len(lines) - maxSaved; drop > 0 {
		for _, l := range lines[:drop] {
			r.Floor, r.AtFloor = raise(r.Floor, r.AtFloor, l.at)
		}
		lines = lines[drop:]
		if r.Last < r.Newest-int64(overlap) {
			r.Floor, r.AtFloor = 0, 0
		}
	}
	r.Lines, r.head, r.Conns = slices.Clone(lines), 0, slices.Clone(r.Conns)
	return r
}

// seenLines are lines that were read. In JSON they are a string.
type seenLines []seen

// MarshalText encodes the lines.
func (s seenLines) MarshalText() ([]byte, error) {
	b := make([]byte, 0, seenBytes*len(s))
	for _, l := range s {
		b = binary.LittleEndian.AppendUint64(b, uint64(l.at))
		b = binary.LittleEndian.AppendUint32(b, l.hash)
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText decodes the lines. If they are damaged there are none, so lines are read
// twice.
func (s *seenLines) UnmarshalText(text []byte) error {
	*s = nil
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(b)%seenBytes != 0 || len(b) > seenBytes*maxSaved {
		return nil
	}
	for ; len(b) > 0; b = b[seenBytes:] {
		*s = append(*s, seen{at: int64(binary.LittleEndian.Uint64(b)), hash: binary.LittleEndian.Uint32(b[8:])})
	}
	return nil
}
