package discover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// ranking is a list of groups, the best first.
type ranking []*group

// before orders by score, then by properties that are stable across runs.
func before(a, b *group) int {
	if c := cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.count, a.count)); c != 0 {
		return c
	}
	return slices.Compare(a.members[0].words, b.members[0].words)
}

// maxDiverse is how many groups diverse orders by similarity to those above. The
// cost is quadratic, and nobody reads that far.
const maxDiverse = 300

// diverse orders the groups: it repeatedly picks the best of those that remain,
// and demotes the ones similar to it. components maps stream numbers to components.
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
		g.location = locationOf(g, components, id)
	}
	out := make(ranking, 0, len(r))
	for len(rest) > 0 && len(out) < maxDiverse {
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
			g.demote(taken)
		}
	}
	slices.SortFunc(rest, before)
	return append(out, rest...)
}

// demote lowers the score of a group if o, a group above it, is similar.
func (g *group) demote(o *group) {
	if g.location.count(&o.location) {
		g.score = g.base + perComponent*math.Log2(1+g.location.similarAbove())
	}
}

// location is where a group was seen, and how many of the groups above were seen there.
type location struct {
	components []int // sorted
	modules    []int // sorted indexes of the components' modules
	above      []float64
}

func locationOf(g *group, components []string, id func(string) int) (p location) {
	for _, m := range g.members {
		for _, s := range m.streams {
			p.components = append(p.components, id(components[s]))
			p.modules = append(p.modules, id(components[s]+"\x00"+m.example.module))
		}
	}
	slices.Sort(p.components)
	slices.Sort(p.modules)
	p.components, p.modules = slices.Compact(p.components), slices.Compact(p.modules)
	p.above = make([]float64, len(p.components))
	return p
}

// count adds a group above to the components in which both were seen, and reports
// whether there are any. A complaint of many components says little about each.
func (p *location) count(o *location) bool {
	both := common(p.components, o.components)
	if both == 0 {
		return false
	}
	share := jaccard(both, len(p.components), len(o.components))
	share *= otherModule + (1-otherModule)*jaccard(common(p.modules, o.modules), len(p.modules), len(o.modules))
	for i, c := range p.components {
		if _, ok := slices.BinarySearch(o.components, c); ok {
			p.above[i] += share
		}
	}
	return true
}

// similarAbove returns the number of similar groups above this one, averaged over
// its components.
func (p *location) similarAbove() float64 {
	sum := 0.0
	for _, n := range p.above {
		sum += n
	}
	return sum / float64(max(len(p.above), 1))
}

// jaccard returns the share of common elements of two lists.
func jaccard(both, a, b int) float64 { return float64(both) / float64(a+b-both) }

func (g *group) reasons() []string {
	why := g.why
	if similarAbove := g.location.similarAbove(); similarAbove > 0 {
		why = append(why, fmt.Sprintf("others of its component are above %+.1f", perComponent*math.Log2(1+similarAbove)))
	}
	return why
}
