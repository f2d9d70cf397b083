package kubernetes

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"
)

const (
	// overlap is the period before the newest line that is read again after a disconnect. Times may step back slightly,
	// because stdout and stderr are stamped separately, and the API accepts only whole seconds.
	overlap = 2 * time.Second
	// keepFor is the time for which lines are remembered. It is the overlap, plus one second by
	// which the API rounds down, plus another second.
	keepFor   = 4 * time.Second
	maxRecent = 4096 // largest number of remembered lines of one log
	maxSaved  = 128  // largest number of lines in a saved position
	seenBytes = 12   // size of an encoded line
)

// seenLine identifies a line that was already read.
type seenLine struct {
	at   int64 // time in ns since 1970
	hash uint32
}

// logProgress records the progress in a log: its newest time, and the lines of the last seconds.
// Times are ns since 1970.
type logProgress struct {
	Newest int64 `json:"newest,omitempty"` // time of the newest line; zero if no line was read
	Last   int64 `json:"last,omitempty"`   // time of the line that was read last
	// Floor is the time before which lines are no longer remembered. Zero means that all lines are remembered.
	Floor   int64     `json:"floor,omitempty"`
	AtFloor int       `json:"at_floor,omitempty"` // number of forgotten lines at exactly Floor
	Lines   seenLines `json:"lines,omitempty"`
	head    int       // index of the first remembered line in Lines

	// Conns are the connections since the time at which it was last certain which instance was read, from old to new.
	Conns []conn `json:"conns,omitempty"`
}

// conn is one connection. A connection carries the log of one instance.
type conn struct {
	From  int64 `json:"from"`  // time up to which the connections before this one had read
	First int64 `json:"first"` // lowest time of the lines that the connection carried; zero if it carried none
}

// maxConns is the largest number of remembered connections of one log.
const maxConns = 16

func (r *logProgress) connect(from int64) {
	if n := len(r.Conns); n > 0 && r.Conns[n-1].First == 0 {
		return // the newest connection has carried no lines, so it is used again
	}
	if len(r.Conns) == maxConns { // merge the two oldest connections
		r.Conns[1].From = r.Conns[0].From
		r.Conns[1].First = max(r.Conns[0].First, r.Conns[1].First)
		r.Conns = r.Conns[:copy(r.Conns, r.Conns[1:])]
	}
	r.Conns = append(r.Conns, conn{From: from})
}

func (r *logProgress) extendConn(t int64) {
	if n := len(r.Conns); n > 0 {
		if c := &r.Conns[n-1]; c.First == 0 || t < c.First {
			c.First = t
		}
	}
}

// markEnd returns the time up to which all lines certainly belong to the instance that ended at
// end. A connection that carried a line from before end belongs to this instance. marked
// reports whether later connections, which may belong to the next instance, carried lines.
func (r *logProgress) markEnd(end time.Time) (at int64, marked bool) {
	for i := len(r.Conns) - 1; i >= 0; i-- {
		c := r.Conns[i]
		if c.First != 0 && !end.IsZero() && c.First < end.UnixNano() {
			break
		}
		at, marked = c.From, marked || c.First != 0
	}
	return at, marked
}

func (r *logProgress) add(l seenLine) {
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
		r.raiseFloor(r.Lines[r.head].at)
		r.head++
	}
	if r.Floor != 0 && (r.Floor < keep || r.Last < r.Newest-int64(overlap)) {
		// Forget the floor if it is old or the clock was set back. Reading lines twice is better than losing lines.
		r.Floor, r.AtFloor = 0, 0
	}
	if r.head > 256 && r.head > len(r.Lines)/2 {
		r.Lines = r.Lines[:copy(r.Lines, r.Lines[r.head:])]
		r.head = 0
	}
}

// raiseFloor raises the floor after a line at time t was forgotten.
func (r *logProgress) raiseFloor(t int64) {
	if t > r.Floor {
		r.Floor, r.AtFloor = t, 0
	}
	if t == r.Floor {
		r.AtFloor++
	}
}

// resumeTime returns the time from which lines are requested. This is overlap before the
// newest line, but not before the oldest remembered line.
func (r *logProgress) resumeTime() time.Time {
	return time.Unix(0, max(min(r.Newest, r.Last)-int64(overlap), r.Floor))
}

// trimmed returns a copy for the saved state. It contains at most the maxSaved newest lines.
func (r logProgress) trimmed() logProgress {
	lines := r.Lines[r.head:]
	if drop := len(lines) - maxSaved; drop > 0 {
		for _, l := range lines[:drop] {
			r.raiseFloor(l.at)
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
type seenLines []seenLine

// MarshalText encodes the lines as text.
func (s seenLines) MarshalText() ([]byte, error) {
	b := make([]byte, 0, seenBytes*len(s))
	for _, l := range s {
		b = binary.LittleEndian.AppendUint64(b, uint64(l.at))
		b = binary.LittleEndian.AppendUint32(b, l.hash)
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText decodes the lines. Damaged text yields none, so lines may be read twice.
func (s *seenLines) UnmarshalText(text []byte) error {
	*s = nil
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(b)%seenBytes != 0 || len(b) > seenBytes*maxSaved {
		return nil //nolint:nilerr // damaged text yields no lines
	}
	for ; len(b) > 0; b = b[seenBytes:] {
		*s = append(*s, seenLine{at: int64(binary.LittleEndian.Uint64(b)), hash: binary.LittleEndian.Uint32(b[8:])})
	}
	return nil
}
