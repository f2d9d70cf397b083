package sentinel

import (
	"cmp"
	"slices"
)

// When a complaint in a recorded log that is too short for more repeats, in seconds.
const (
	maxSpells    = 8    // objects
	maxPause     = 1200 // a longer one ends a spell
	repeatsFor   = 180  // from the first line to the last
	waitsFor     = 600  // the same, if nothing has failed yet
	repeatsEvery = 300  // on average
	repeats      = 3    // minutes with a line: many at once are one attempt
)

// spell is an uninterrupted repetition of a pattern for one object. It is not saved: only
// recorded logs need it.
type spell struct {
	object      uint64 // hash
	first, last int64
	minutes     int // with a line, at least
}

// spell counts a line about an object.
func (p *pattern) spell(object uint64, at int64) {
	k := slices.IndexFunc(p.spells, func(x spell) bool { return x.object == object })
	switch {
	case k >= 0:
		p.spells[k].add(at)
	case len(p.spells) < maxSpells:
		p.spells = append(p.spells, spell{object, at, at, 1})
	default:
		oldest := slices.MinFunc(p.spells, func(a, b spell) int { return cmp.Compare(a.last, b.last) })
		k = slices.Index(p.spells, oldest)
		p.spells[k] = spell{object, at, at, 1}
	}
}

func (x *spell) add(at int64) {
	switch {
	case at > x.last+maxPause:
		x.first, x.last, x.minutes = at, at, 1
	case at > x.last:
		if at/60 != x.last/60 {
			x.minutes++
		}
		x.last = at
	case at < x.first && at >= x.first-maxPause: // another file of the same object
		if at/60 != x.first/60 {
			x.minutes++
		}
		x.first = at
	}
}

// repeats reports whether the pattern repeats for one object up to the end of a log: for
// minutes, often enough, and not over for longer than it lasted.
func (p *pattern) repeats(end int64) bool {
	need := int64(repeatsFor)
	if !p.urgent() {
		need = waitsFor
	}
	return slices.ContainsFunc(p.spells, func(x spell) bool {
		took := x.last - x.first
		return x.minutes >= repeats && took >= need && took <= int64(x.minutes-1)*repeatsEvery && end-x.last <= took
	})
}
