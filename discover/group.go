package discover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

type group struct {
	members     []*pattern // the best first
	cause       cause      // cause of the pattern that created the group
	module      string     // module of that pattern
	level       Level
	weight      weight
	stuckFor    time.Duration // longest wait for the same object
	transient   bool          // all members usually end by themselves
	retried     bool          // the transient members are retried
	named       bool          // a member names its error
	count       int64
	times       int64
	streams     []int
	first, last time.Time
	spread      int   // periods with lines
	before      int64 // lines of the component before the first one
	causes      int   // number of causes that a message states

	base      float64 // own points
	frequency float64 // those of them for the number of lines
	score     float64 // base, reduced by similar groups above
	why       []string
	location  location
}

// groups groups patterns of the same or nearly the same cause.
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
			g = &group{cause: c, module: p.example.module, transient: true, retried: true}
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
	merged := all.merge()
	f.byTime(merged)
	var out ranking
	for _, g := range merged {
		if g.count >= minCount {
			out = append(out, g)
		}
	}
	return out
}

const maxCompared = 500

// merge merges each group into a better one of nearly the same cause, if any.
func (r ranking) merge() ranking {
	var out ranking
next:
	for _, g := range r {
		for _, o := range out[:min(len(out), maxCompared)] {
			if g.cause.similar(&o.cause) || g.sameOutage(o) {
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

// sameOutage reports whether the same module, in mostly the same streams, fails to
// reach a server in two different steps.
func (g *group) sameOutage(o *group) bool {
	if !g.cause.remote || !o.cause.remote || g.module == "" || g.module != o.module {
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
	if p.waitedLong() {
		g.stuckFor = max(g.stuckFor, p.repeats.longest)
	}
	g.transient = g.transient && p.passes()
	g.retried = g.retried && !p.transient() && p.judgement.weight > 0
	g.named = g.named || p.example.reading.Named
	g.count += p.count
	g.times += max(p.count, p.times)
	for _, s := range p.streams {
		if !slices.Contains(g.streams, s) {
			g.streams = append(g.streams, s)
		}
	}
	if g.first.IsZero() || !p.first.IsZero() && p.first.Before(g.first) {
		g.first, g.before = p.first, p.place.before
	}
	if p.last.After(g.last) {
		g.last = p.last
	}
	g.spread = max(g.spread, p.spread.count)
	g.causes = max(g.causes, p.causes())
}

// causes returns how many causes follow what failed in the message and in its error.
func (p *pattern) causes() (n int) {
	for i, w := range p.words {
		if strings.HasSuffix(w, ":") && i < len(p.words)-1 {
			n++
		}
	}
	return n
}

// points rates a pattern against others of the same cause.
func (p *pattern) points() float64 { return levelPoints[p.level] + wordPoints[p.weight()] }

// rate computes the points of a group and the reasons for them.
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
	if g.stuckFor > 0 {
		add(wordPoints[g.weight], "waits for %s", g.stuckFor.Round(time.Second))
	} else {
		add(wordPoints[g.weight], "words")
	}
	if g.named && g.level < levelWarning {
		add(namedPoints, "names an error")
	}
	switch {
	case g.transient && g.retried:
		add(retryPoints, "tries again")
	case g.transient:
		add(passingPoints, "usually passes")
	}
	if !g.transient {
		add(perCause*float64(min(g.causes, maxCauses)), "causes")
	}
	g.frequency = min(perLine*math.Log10(float64(g.times)), maxFrequency)
	add(g.frequency, "%d times", g.times)
	add(perStream*math.Log10(float64(len(g.streams))), "%d streams", len(g.streams))
	g.score = g.base
}

// reason says for what a group gets points. why may have a place for a duration.
func reason(why string, d time.Duration, points float64) string {
	if d > 0 {
		why = fmt.Sprintf(why, d.Round(time.Second))
	}
	return why + fmt.Sprintf(" %+.1f", points)
}
