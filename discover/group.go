package discover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// group is all patterns of one cause, on its way into the order.
type group struct {
	members     []*pattern // the best first
	cause       cause      // of the first that made it
	part        string     // of the program, of that one
	level       Level
	weight      weight
	lasting     time.Duration // that something has been waited for
	passing     bool          // all of them usually pass
	retried     bool          // those that do are tried again
	named       bool          // one of them calls its error one
	count       int64
	times       int64
	streams     []int
	first, last time.Time

	base  float64 // points by itself
	score float64 // with what is above it
	why   []string
	place place
}

// groups puts patterns of the same cause together, and those of nearly the same.
func (f *Finder) groups(minCount int64) ranking {
	byCause := map[string]*group{}
	for e := f.tree.recent.Front(); e != nil; e = e.Next() {
		p := e.Value.(*pattern)
		if p.idle() {
			continue
		}
		c := p.cause()
		g := byCause[c.key]
		if g == nil {
			g = &group{cause: c, part: p.example.part, passing: true, retried: true}
			byCause[c.key] = g
		}
		g.cause.remote = g.cause.remote || c.remote
		g.add(p)
	}
	var all ranking
	for _, g := range byCause {
		g.rate()
		all = append(all, g)
	}
	slices.SortFunc(all, before)
	var out ranking
	for _, g := range all.merge() {
		if g.count >= minCount {
			out = append(out, g)
		}
	}
	return out
}

// mostCompared bounds the groups that others are compared with.
const mostCompared = 500

// merge adds groups to better ones of nearly the same cause.
func (r ranking) merge() ranking {
	var out ranking
next:
	for _, g := range r {
		for _, o := range out[:min(len(out), mostCompared)] {
			if g.cause.like(&o.cause) || g.unreached(o) {
				for _, p := range g.members {
					o.add(p)
				}
				o.rate()
				continue next
			}
		}
		out = append(out, g)
	}
	return out
}

// unreached tells whether the same part of a program, in mostly the same streams,
// fails to reach something in one step and in another.
func (g *group) unreached(o *group) bool {
	if !g.cause.remote || !o.cause.remote || g.part == "" || g.part != o.part {
		return false
	}
	both := 0
	for _, s := range g.streams {
		if slices.Contains(o.streams, s) {
			both++
		}
	}
	return 2*both >= len(g.streams)
}

func (g *group) add(p *pattern) {
	g.members = append(g.members, p)
	g.level = max(g.level, p.level)
	g.weight = max(g.weight, p.weight())
	if p.waited() {
		g.lasting = max(g.lasting, p.again.longest)
	}
	g.passing = g.passing && p.passes()
	g.retried = g.retried && p.judgement.patience&passing == 0 && p.judgement.weight > 0
	g.named = g.named || p.example.reading.Named
	g.count += p.count
	g.times += max(p.count, p.times)
	for _, s := range p.streams {
		if !slices.Contains(g.streams, s) {
			g.streams = append(g.streams, s)
		}
	}
	if g.first.IsZero() || !p.first.IsZero() && p.first.Before(g.first) {
		g.first = p.first
	}
	if p.last.After(g.last) {
		g.last = p.last
	}
}

// points rates a pattern among those of the same cause.
func (p *pattern) points() float64 { return levelPoints[p.level] + wordPoints[p.weight()] }

// rate gives a group its points, and says why.
func (g *group) rate() {
	slices.SortFunc(g.members, func(a, b *pattern) int {
		return cmp.Or(cmp.Compare(b.points(), a.points()), cmp.Compare(b.count, a.count), slices.Compare(a.words, b.words))
	})
	g.base, g.why = 0, nil
	add := func(points float64, format string, args ...any) {
		if g.base += points; points != 0 {
			g.why = append(g.why, fmt.Sprintf(format, args...)+fmt.Sprintf(" %+.1f", points))
		}
	}
	add(levelPoints[g.level], "level %s", g.level)
	if g.lasting > 0 {
		add(wordPoints[g.weight], "waits for %s", g.lasting.Round(time.Second))
	} else {
		add(wordPoints[g.weight], "words")
	}
	if g.named && g.level < LevelWarning {
		add(namedPoints, "names an error")
	}
	switch {
	case g.passing && g.retried:
		add(retryPoints, "tries again")
	case g.passing:
		add(passingPoints, "usually passes")
	}
	add(min(math.Log10(float64(g.times)), mostFrequency), "%d times", g.times)
	add(perStream*math.Log10(float64(len(g.streams))), "%d streams", len(g.streams))
	g.score = g.base
}
