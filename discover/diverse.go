package discover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// ranking is groups in order, the best first.
type ranking []*group

// before orders by score, then by what is the same over runs.
func before(a, b *group) int {
	if c := cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.count, a.count)); c != 0 {
		return c
	}
	return slices.Compare(a.members[0].words, b.members[0].words)
}

// mostDiverse is how many groups are ordered by what is above them. Each of them
// makes all others be looked at again, and nobody reads so far.
const mostDiverse = 300

// diverse takes one group after the other, the best of those that are left, given
// what was taken. components are those of the streams.
func (r ranking) diverse(components []string) ranking {
	ids := map[string]int{}
	id := func(name string) int {
		if _, ok := ids[name]; !ok {
			ids[name] = len(ids)
		}
		return ids[name]
	}
	rest := slices.Clone(r)
	for _, g := range rest {
		g.place = placeOf(g, components, id)
	}
	out := make(ranking, 0, len(r))
	for len(rest) > 0 && len(out) < mostDiverse {
		best := 0
		for i, g := range rest {
			if before(g, rest[best]) < 0 {
				best = i
			}
		}
		taken := rest[best]
		out = append(out, taken)
		rest = slices.Delete(rest, best, best+1)
		for _, g := range rest {
			g.below(taken)
		}
	}
	slices.SortFunc(rest, before)
	return append(out, rest...)
}

// below gives a group fewer points, the more of what is above it is like it.
func (g *group) below(o *group) {
	if g.place.count(&o.place) {
		g.score = g.base + perComponent*math.Log2(1+g.place.crowd())
	}
}

// place is where a group was seen, and how much of what is above it was seen there.
type place struct {
	components []int // sorted
	parts      []int // of components, sorted
	above      []float64
}

func placeOf(g *group, components []string, id func(string) int) (p place) {
	for _, m := range g.members {
		for _, s := range m.streams {
			p.components = append(p.components, id(components[s]))
			p.parts = append(p.parts, id(components[s]+"\x00"+m.example.part))
		}
	}
	slices.Sort(p.components)
	slices.Sort(p.parts)
	p.components, p.parts = slices.Compact(p.components), slices.Compact(p.parts)
	p.above = make([]float64, len(p.components))
	return p
}

// count counts a group above in the components that both were seen in, and tells
// whether there are any. What many components complain of tells little about each
// of them.
func (p *place) count(o *place) bool {
	both := inBoth(p.components, o.components)
	if both == 0 {
		return false
	}
	share := shared(both, len(p.components), len(o.components))
	share *= otherPart + (1-otherPart)*shared(inBoth(p.parts, o.parts), len(p.parts), len(o.parts))
	for i, c := range p.components {
		if _, ok := slices.BinarySearch(o.components, c); ok {
			p.above[i] += share
		}
	}
	return true
}

// crowd is how many groups like this one are above it: on average over its
// components.
func (p *place) crowd() float64 {
	sum := 0.0
	for _, n := range p.above {
		sum += n
	}
	return sum / float64(max(len(p.above), 1))
}

// shared is the share of two lists that both have.
func shared(both, a, b int) float64 { return float64(both) / float64(a+b-both) }

// reasons says how the score came about.
func (g *group) reasons() []string {
	why := g.why
	if crowd := g.place.crowd(); crowd > 0 {
		why = append(why, fmt.Sprintf("others of its component are above %+.1f", perComponent*math.Log2(1+crowd)))
	}
	return why
}
