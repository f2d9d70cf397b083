package sentinel

import (
	"github.com/cespare/xxhash/v2"
)

// Bounds of the lines that are looked at. A look takes some microseconds; a line that is
// only counted takes a tenth of one.
const (
	paceSlots   = 4096
	shapeEvery  = 30   // seconds
	perShape    = 3    // looks at one shape of lines of a stream
	perParty    = 150  // looks at lines of a namespace in a second
	perSecond   = 3000 // looks in a second; those at infrastructure, and at the first lines of a namespace, come on top
	alwaysOf    = 5
	maxParties  = 1024
	shapeWithin = 240 // bytes of a line

	// Looks at lines of a stream whose shape is new. What lasts has a shape that returns.
	newPerSecond = 1
	newBurst     = 200
)

// pace bounds how many complaints are looked at: of equal ones in a storm, and of a
// namespace that writes many different ones. It counts by the times of lines, so reading
// late gives the same result.
type pace struct {
	shapes  []shapeCount
	parties map[string]*partyCount
	all     partyCount
	words   []byte // words of a line
}

type shapeCount struct {
	shape   uint32
	window  uint32 // its number
	looked  uint16
	skipped uint16 // lines skipped since the last look
}

type partyCount struct {
	second int64
	looked int
}

func newPace() pace {
	return pace{shapes: make([]shapeCount, paceSlots), parties: map[string]*partyCount{}}
}

// newShapes bounds the looks at lines of a stream whose shape is new, which have no other
// bound where every line has words of its own.
type newShapes struct {
	at   int64 // newest time of a line
	left int64
}

func (n *newShapes) admit(at int64) bool {
	if at > n.at {
		n.left = min(newBurst, n.left+(at-n.at)*newPerSecond)
		n.at = at
	}
	if n.left == 0 {
		return false
	}
	n.left--
	return true
}

// admit returns how many lines a look at this one stands for: 0 without a look.
func (p *pace) admit(n *note, line string, at int64) (weight int64) {
	h := p.shapeHash(n.stream, line)
	x := &p.shapes[h%paceSlots]
	shape, window := uint32(h>>32), uint32(at/shapeEvery)
	admitted := true
	switch {
	case x.shape != shape:
		*x = shapeCount{shape: shape, window: window}
		admitted = n.shapes.admit(at)
	case x.window != window:
		x.window, x.looked = window, 0
	}
	if !admitted || x.looked >= perShape || !p.admitParty(n.component.party, n.component.infrastructure, at) {
		x.skipped = uint16(min(int(x.skipped)+1, 1<<16-1))
		return 0
	}
	x.looked++
	weight = int64(x.skipped) + 1
	x.skipped = 0
	return weight
}

func (p *pace) admitParty(party string, infrastructure bool, at int64) bool {
	q := p.parties[party]
	if q == nil {
		if len(p.parties) >= maxParties {
			clear(p.parties)
		}
		q = &partyCount{second: at}
		p.parties[party] = q
	}
	if q.second != at {
		q.second, q.looked = at, 0
	}
	q.looked++
	if p.all.second != at {
		p.all = partyCount{second: at}
	}
	p.all.looked++
	return q.looked <= perParty && (infrastructure || p.all.looked <= perSecond || q.looked <= alwaysOf)
}

// shapeHash hashes a stream and the letters of a line without the words that have a
// digit: equal for repetitions of a message with other times and identifiers. It is much
// cheaper than a pattern, and may be wrong.
func (p *pace) shapeHash(stream uint64, line string) uint64 {
	p.words = appendWords(p.words[:0], line[:min(len(line), shapeWithin)])
	const prime = 0x9E3779B97F4A7C15
	h := (xxhash.Sum64(p.words) ^ stream) * prime
	return h ^ h>>29
}
