package matcher

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// maxSame bounds the number of different lines with one time that are distinguished.
const maxSame = 4096

// same counts equal lines with the same time, because some container runtimes give one time to
// all lines that they read at once. It holds the lines with hits of the newest time.
type same struct {
	at    int64 // nanoseconds since 1970; zero if there was no line yet
	newer int64 // place of the newest line
	first equal
	more  map[uint64]equal // all lines; nil if there is only first
}

// equal counts equal lines with the same time.
type equal struct {
	id    uint64
	place int64 // place of the newest of them
	n     uint32
}

// SetOffset sets the offset of the stream's next byte in its log. From then on, equal lines
// with the same time are different lines if their places differ, and a line that is read again
// is recognized. A source that does not know places does not call it. Then equal lines with the
// same time count as one line.
func (s *Stream) SetOffset(offset int64) { s.base, s.placed = offset-s.counters.Bytes, true }

// countEqual returns how many equal lines of the same time come before the one at place. If
// place is not after the newest line, the log is read again and the count restarts.
func (g *same) countEqual(t int64, id uint64, place int64) uint32 {
	if g.at != t || place < g.newer {
		*g = same{at: t, newer: place, first: equal{id: id, place: place}}
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

// numberedFingerprint returns the fingerprint of a line that follows n equal lines of the same
// time.
func numberedFingerprint(id uint64, n uint32) uint64 {
	if n == 0 {
		return id
	}
	var b [12]byte
	binary.LittleEndian.PutUint64(b[0:], id)
	binary.LittleEndian.PutUint32(b[8:], n)
	return xxhash.Sum64(b[:])
}
