package discover

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// group is all patterns of one cause, on its way into the order.
type group struct {
	members     []*pattern // the best first
	words       []string   // of the cause
	level       Level
	weight      weight
	passing     bool // all of them
	named       bool // one of them calls its error one
	count       int64
	streams     []int
	first, last time.Time

	base  float64 // points by itself
	score float64 // with what is above it
	why   []string
	crowd float64 // how many above are of the component
}

// groups puts patterns of the same cause together, and those of nearly the same.
func (f *Finder) groups(minCount int64) ranking {
	byCause := map[string]*group{}
	for e := f.tree.recent.Front(); e != nil; e = e.Next() {
		p := e.Value.(*pattern)
		cause := p.cause()
		g := byCause[cause]
		if g == nil {
			g = &group{passing: true, words: causeWords(cause)}
			byCause[cause] = g
		}
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

// Constants of merging.
const (
	// sameCause is the least share of the words of two causes that both have.
	sameCause = 0.75
	// mostCompared bounds the groups that others are compared with.
	mostCompared = 500
)

// merge adds groups to better ones of nearly the same cause.
func (r ranking) merge() ranking {
	var out ranking
next:
	for _, g := range r {
		for _, o := range out[:min(len(out), mostCompared)] {
			if alikeWords(o.words, g.words) {
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

// causeWords returns the words of a cause that tell it from others, sorted.
func causeWords(cause string) []string {
	var out []string
	for word := range strings.FieldsSeq(cause) {
		word = strings.Trim(word, "()[]{}.,:;'=*")
		if len(word) >= 3 && !strings.Contains(word, "<") {
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func alikeWords(a, b []string) bool {
	both := 0
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch c := strings.Compare(a[i], b[k]); {
		case c == 0:
			both++
			i, k = i+1, k+1
		case c < 0:
			i++
		default:
			k++
		}
	}
	return both >= fewestWords && float64(both) >= sameCause*float64(len(a)+len(b)-both)
}

func (g *group) add(p *pattern) {
	g.members = append(g.members, p)
	g.level = max(g.level, p.level)
	g.weight = max(g.weight, p.judgement.weight)
	g.passing = g.passing && p.judgement.passing
	g.named = g.named || p.example.reading.Named
	g.count += p.count
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
func (p *pattern) points() float64 { return levelPoints[p.level] + wordPoints[p.judgement.weight] }

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
	add(wordPoints[g.weight], "words")
	if g.named && g.level < LevelWarning {
		add(namedPoints, "names an error")
	}
	if g.passing {
		add(passingPoints, "usually passes")
	}
	add(min(math.Log10(float64(g.count)), mostFrequency), "%d lines", g.count)
	add(perStream*math.Log10(float64(len(g.streams))), "%d streams", len(g.streams))
	g.score = g.base
}

// ranking is a heap: the best first.
type ranking []*group

func (r ranking) Len() int           { return len(r) }
func (r ranking) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r ranking) Less(i, j int) bool { return before(r[i], r[j]) < 0 }

// Push adds a pattern; it is for package heap.
func (r *ranking) Push(x any) { *r = append(*r, x.(*group)) }

// Pop removes the last; it is for package heap.
func (r *ranking) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

// before orders by score, then by what is the same over runs.
func before(a, b *group) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.count, a.count), slices.Compare(a.members[0].words, b.members[0].words))
}

// mostDiverse is how many groups are ordered by what is above them. Each of them
// makes all others be looked at again, and nobody reads so far.
const mostDiverse = 300

// diverse takes one group after the other, the best of those that are left, given
// what was taken. Points only get less, so the best that has not got less is the
// best of all.
func (r ranking) diverse(components []string) ranking {
	taken := map[string]float64{}
	out := make(ranking, 0, len(r))
	heap.Init(&r)
	for len(r) > 0 && len(out) < mostDiverse {
		top := r[0]
		top.crowd = math.Inf(1)
		for _, s := range top.streams {
			top.crowd = min(top.crowd, taken[components[s]])
		}
		score := top.base + perComponent*math.Log2(1+top.crowd)
		if score < top.score {
			top.score = score
			heap.Fix(&r, 0)
			continue
		}
		heap.Pop(&r)
		own := map[string]bool{}
		for _, s := range top.streams {
			own[components[s]] = true
		}
		for c := range own {
			taken[c] += 1 / float64(len(own)) // what all complain of is nobody's own
		}
		out = append(out, top)
	}
	slices.SortFunc(r, before)
	return append(out, r...)
}

// reasons says how the score came about.
func (g *group) reasons() []string {
	why := g.why
	if g.crowd > 0 {
		why = append(why, fmt.Sprintf("others of its component are above %+.1f", perComponent*math.Log2(1+g.crowd)))
	}
	return why
}

// cause returns why it happened, in small letters: patterns of one cause are one
// entry. Go wraps errors as "what: what: why"; how a request failed is no cause.
func (p *pattern) cause() string {
	message, err, _ := strings.Cut(strings.ToLower(strings.Join(p.words, " ")), between)
	parts := strings.Split(strings.TrimSpace(message), ": ")
	if err = strings.TrimSpace(err); err != "" {
		parts = append(parts, strings.Split(err, ": ")...)
	}
	for len(parts) > 1 && transport(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	k := len(parts) - 1
	for k > 0 && !telling(parts[k:]) {
		k--
	}
	return strings.Trim(strings.TrimSuffix(alike(strings.Join(parts[k:], ": ")), " [recovered]"), "()[]{}.,; ")
}

// alike makes all placeholders the same: a value is quoted here and not there, and
// has digits here and not there.
func alike(text string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '<')
		end := strings.IndexByte(text, '>')
		if open < 0 || end < open {
			break
		}
		b.WriteString(text[:open])
		b.WriteString("<>")
		text = text[end+1:]
	}
	b.WriteString(text)
	return strings.ReplaceAll(b.String(), `"`, "")
}

// fewestWords is how many words, beside placeholders and short ones, tell one
// cause from another. "x not found" is too little.
const fewestWords = 3

func telling(parts []string) bool {
	n := 0
	for _, part := range parts {
		for word := range strings.FieldsSeq(part) {
			if len(word) >= 3 && !strings.Contains(word, "<") {
				n++
			}
		}
	}
	return n >= fewestWords
}

// transports are how a request failed, not which one did: parts of an error that
// start so.
var transports = []string{
	"get ", "post ", "put ", "patch ", "delete ", "dial ", "read ", "write ", "connect ", "context ", "eof", "unexpected eof", "i/o ",
	"net/http", "rpc error", "connection ", "broken pipe", "request canceled", "client rate limiter", "timed out waiting for the condition",
	"server gave http response",
}

// transport tells whether a part of an error only says how a request failed, or is
// nothing but a name.
func transport(part string) bool {
	if slices.ContainsFunc(transports, func(t string) bool { return strings.HasPrefix(part, t) }) {
		return true
	}
	switch first, rest, _ := strings.Cut(part, " "); {
	case strings.Contains(rest, " "):
		return false
	case strings.Contains(first, "<"):
		return true // such as "<obj> timeout"
	default:
		return slices.Contains([]string{"read", "write", "connect", "http", "timeout", "timed"}, first)
	}
}
