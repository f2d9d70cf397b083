package sentinel

import "crowsnest/internal/quota"

// Limits of the number of lines that are examined. All other lines are only counted, which
// takes a tenth of the time. The shape of a line consists of its words without digits (see
// shapeHash).
const (
	paceSlots  = 4096
	shapeEvery = 30  // period of the limit perShape, in seconds
	perShape   = 3   // largest number of lines of one shape in one stream during shapeEvery
	perParty   = 150 // largest number of lines of one namespace per second
	// perSecond is the largest number of lines per second. Lines of infrastructure and the
	// first lines of each namespace do not count.
	perSecond   = 3000
	alwaysOf    = 5
	maxParties  = 1024
	shapeWithin = 240 // number of bytes of a line from which its shape is computed

	// newPerSecond limits the lines of a stream whose shape is new. The lines of a lasting
	// failure repeat their shapes.
	newPerSecond = 1
	newBurst     = 200
)

// pace limits the number of lines that are examined. The limits apply to floods of equal
// lines, and to namespaces that write many different lines. Its clock is the time of the
// lines, so the result does not depend on when they are read.
type pace struct {
	shapes  []shapeCount
	parties map[string]*partyCount
	all     partyCount
}

type shapeCount struct {
	shape   uint32
	window  uint32 // number of the period to which the counts belong
	looked  uint16
	skipped uint16 // number of lines skipped since a line was last examined
}

type partyCount struct {
	second int64
	looked int
}

func newPace() pace {
	return pace{shapes: make([]shapeCount, paceSlots), parties: map[string]*partyCount{}}
}

// newShapes limits the examined lines of a stream whose shape is new. Without it, a stream in
// which every line has different words would have no limit of its own.
type newShapes struct {
	at   int64 // time of the newest line
	left int64
}

func (n *newShapes) admit(t int64) bool {
	if t > n.at {
		n.left = min(newBurst, n.left+(t-n.at)*newPerSecond)
		n.at = t
	}
	if n.left == 0 {
		return false
	}
	n.left--
	return true
}

// admit decides whether a line is examined. It returns the number of lines for which the line
// then counts, or 0 if the line is not examined.
func (p *pace) admit(n *note, line string, t int64) (weight int64) {
	h := shapeHash(n.stream, line)
	x := &p.shapes[h%paceSlots]
	shape, window := uint32(h>>32), uint32(t/shapeEvery)
	admitted := true
	switch {
	case x.shape != shape:
		*x = shapeCount{shape: shape, window: window}
		admitted = n.shapes.admit(t)
	case x.window != window:
		x.window, x.looked = window, 0
	}
	if !admitted || x.looked >= perShape || !p.admitParty(n.component.party, n.component.class == quota.Infrastructure, t) {
		x.skipped = uint16(min(int(x.skipped)+1, 1<<16-1))
		return 0
	}
	x.looked++
	weight = int64(x.skipped) + 1
	x.skipped = 0
	return weight
}

func (p *pace) admitParty(party string, infrastructure bool, t int64) bool {
	q := p.parties[party]
	if q == nil {
		if len(p.parties) >= maxParties {
			clear(p.parties)
		}
		q = &partyCount{second: t}
		p.parties[party] = q
	}
	if q.second != t {
		q.second, q.looked = t, 0
	}
	q.looked++
	if p.all.second != t {
		p.all = partyCount{second: t}
	}
	p.all.looked++
	return q.looked <= perParty && (infrastructure || p.all.looked <= perSecond || q.looked <= alwaysOf)
}

// shapeHash hashes a stream and the letters of those words of a line that contain no digit. The
// hash is equal for lines that differ only in numbers, times and IDs. It is much cheaper than
// the key of a pattern, but less exact. Words are separated by everything that is not a letter,
// digit, dash, dot or colon, so there may be empty words.
func shapeHash(stream uint64, line string) uint64 {
	const prime = 0x9E3779B97F4A7C15
	hash, digits := stream, false
	word := hash // hash with the letters of the current word
	for i := range min(len(line), shapeWithin) {
		switch c := line[i]; wordClassOf[c] {
		case letter:
			word = (word ^ uint64(c)) * prime
		case figure:
			digits = true
		case joint:
		default:
			if !digits {
				hash = (word ^ '*') * prime
			}
			word, digits = hash, false
		}
	}
	if !digits {
		hash = (word ^ '*') * prime
	}
	return hash ^ hash>>29
}

// Classes of the bytes that a word may contain. All other bytes end a word.
const (
	figure = 1 + iota
	letter
	joint
)

var wordClassOf = func() (of [256]uint8) {
	for c := range of {
		switch {
		case '0' <= c && c <= '9':
			of[c] = figure
		case 'a' <= c|0x20 && c|0x20 <= 'z' && c < 0x80:
			of[c] = letter
		case c == '-' || c == '.' || c == ':':
			of[c] = joint
		}
	}
	return of
}()
