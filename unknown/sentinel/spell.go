package sentinel

import (
	"cmp"
	"slices"
)

// Limits in seconds that decide when a complaint repeats in a short recorded log, for which the
// other criteria need too much time.
const (
	maxSpells    = 8    // number of objects
	maxPause     = 1200 // a longer pause ends a spell
	repeatsFor   = 180  // time from the first line to the last
	waitsFor     = 600  // time from the first line to the last if nothing has failed yet
	repeatsEvery = 300  // longest average distance between lines
	repeats      = 3    // number of minutes that contain a line, because many lines in one minute are one attempt
)

// spell is an uninterrupted repetition of a pattern for one object. It is not saved, because
// only recorded logs need it.
type spell struct {
	object      uint64 // hash of the object
	first, last int64
	minutes     int // lower bound of the number of minutes that contain a line
}

// spell counts a line about an object.
func (p *pattern) spell(object uint64, t int64) {
	k := slices.IndexFunc(p.spells, func(x spell) bool { return x.object == object })
	switch {
	case k >= 0:
		p.spells[k].add(t)
	case len(p.spells) < maxSpells:
		p.spells = append(p.spells, spell{object, t, t, 1})
	default:
		oldest := slices.MinFunc(p.spells, func(a, b spell) int { return cmp.Compare(a.last, b.last) })
		k = slices.Index(p.spells, oldest)
		p.spells[k] = spell{object, t, t, 1}
	}
}

func (x *spell) add(t int64) {
	switch {
	case t > x.last+maxPause:
		x.first, x.last, x.minutes = t, t, 1
	case t > x.last:
		if t/60 != x.last/60 {
			x.minutes++
		}
		x.last = t
	case t < x.first && t >= x.first-maxPause: // the line is from another file about the same object
		if t/60 != x.first/60 {
			x.minutes++
		}
		x.first = t
	}
}

// repeats reports whether the pattern repeats for one object up to the end of a log. It must
// have repeated for minutes and often enough, and the time since its last line must not exceed
// the time for which it repeated.
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
