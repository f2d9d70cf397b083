package matcher

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// maxSame bounds the different lines of one time that are distinguished.
const maxSame = 4096

// same counts equal lines of one time: some container runtimes give one time to all
// lines that they read at once. It holds the lines with hits of the newest time.
type same struct {
	at    int64 // nanoseconds since 1970; zero if no line yet
	newer int64 // place of the newest line
	first equal
	more  map[uint64]equal // nil if first is the only one
}

// equal counts the equal lines of one time.
type equal struct {
	id    uint64
	place int64 // place of the newest line
	n     uint32
}

// Place sets the offset of the stream's next byte in its log. From then on equal lines
// with one time are different lines if their places differ, and a line that is read
// again is the same. A source that does not know the places of lines does not call it:
// equal lines with one time are then one line.
func (s *Stream) Place(offset int64) { s.base, s.placed = offset-s.counters.Bytes, true }

// number returns how many equal lines of the same time are before the one at place.
// A place that is not after the newest line restarts the count: the log is read again.
func (g *same) number(at int64, id uint64, place int64) uint32 {
	if g.at != at || place < g.newer {
		*g = same{at: at, newer: place, first: equal{id: id, place: place}}
		return 0
	}
	g.newer = place
	e, known := g.first, g.first.id == id
	if !known {
		e, known = g.more[id]
	}
	switch {
	case !known && len(g.more) >= maxSame:
		return 0
	case !known:
		e = equal{id: id, place: place}
	case place > e.place:
		e.place, e.n = place, e.n+1
	}
	if e.id == g.first.id {
		g.first = e
		return e.n
	}
	if g.more == nil {
		g.more = map[uint64]equal{}
	}
	g.more[id] = e
	return e.n
}

// numbered returns the fingerprint of a line that follows n equal lines with the same
// time.
func numbered(id uint64, n uint32) uint64 {
	if n == 0 {
		return id
	}
	var b [12]byte
	binary.LittleEndian.PutUint64(b[0:], id)
	binary.LittleEndian.PutUint32(b[8:], n)
	return xxhash.Sum64(b[:])
}
