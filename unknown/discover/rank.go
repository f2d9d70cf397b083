package discover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/redact"
)

// Pattern stands for the lines that report the same error and that no rule matches.
type Pattern struct {
	// ID identifies the template. It is the same in every run.
	ID string `json:"id"`
	// Template is the message with placeholders. Error is the lines' error with placeholders,
	// or "" if they state no error.
	Template redact.Text `json:"template"`
	Error    redact.Text `json:"error,omitempty"`
	// Level is the highest level of the pattern's lines.
	Level Level `json:"level"`
	Count int64 `json:"count"`
	// Streams is the number of streams with the pattern, up to a limit. MoreStreams is set if
	// the limit was reached.
	Streams     int  `json:"streams"`
	MoreStreams bool `json:"more_streams,omitempty"`
	// First and Last are the earliest and the latest timestamp of the lines. They are nil if no
	// line has a timestamp.
	First *time.Time `json:"first,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
	// Score is the urgency of the pattern. A higher score is more urgent. Why gives the
	// reasons for it.
	Score   float64  `json:"score,omitempty"`
	Reasons []string `json:"why,omitempty"`
	// Example is the first line of the pattern, without its CRI or Docker envelope. Input, LineNumber and Labels say
	// where it was found.
	Example    redact.Text    `json:"example"`
	Input      string         `json:"input"`
	LineNumber int64          `json:"line_number"`
	Labels     matcher.Labels `json:"labels"`
	// Variants are patterns of the same cause with other words, the most urgent first. The
	// counts of this pattern include them.
	Variants []Pattern `json:"variants,omitempty"`
}

// Report is the result of a search.
type Report struct {
	Patterns []Pattern `json:"patterns"` // patterns, the most urgent first
	Inputs   int       `json:"inputs"`
	Lines    int64     `json:"lines"`
	Bytes    int64     `json:"bytes"`
	Covered  int64     `json:"covered"` // number of lines that a rule matches
	// Complaints is the number of lines that report an error and that no rule matches.
	Complaints int64 `json:"complaints"`
	// All is the number of all patterns, including those that Patterns omits.
	All int `json:"all_patterns"`
	// Evicted is the number of patterns that were evicted to bound memory. EvictedLines is the
	// number of their lines.
	Evicted      int64 `json:"evicted_patterns"`
	EvictedLines int64 `json:"evicted_lines"`
	Truncated    int64 `json:"truncated_lines"`
	Dropped      int64 `json:"dropped_lines"`
}

// Points of the ranking. Level and wording outweigh any realistic number of lines, because
// harmless lines repeat as often as other lines.
const (
	perLine       = 0.6 // points for each factor of ten in the number of lines
	maxFrequency  = 1.8
	perStream     = 1.0 // points for each factor of ten in the number of streams
	namedPoints   = 0.5 // points for an error in a line whose level is harmless
	passingPoints = -1.0
	retryPoints   = -0.5 // points for a program that tries again, because the next attempt may succeed
	// perCause is added to the rank of a pattern for each cause in a message such as "action: reason: reason". A failed
	// operation reports its cause, whereas a mere remark has none.
	perCause  = 0.2
	maxCauses = 5
	// perComponent is added each time the number of higher groups of the same component
	// doubles, so that a component with many complaints does not hide other components.
	perComponent = -1.5
	// otherModule is the weight with which a higher group counts if it belongs to another module of the
	// component.
	otherModule = 0.9
)

var levelPoints = map[Level]float64{
	levelDebug: 0, levelInfo: 2.25, levelUnknown: 2.25, levelWarning: 2.5, levelError: 3, levelFatal: 5,
}

var wordPoints = [...]float64{0, soft: 0.5, ordinary: 1.5, severe: 2.5}

// group holds the patterns of one cause.
type group struct {
	members []*pattern // patterns of the group, the most urgent first
	cause   cause
	module  string  // module of the first member
	all     pattern // sum of the counts of all members
	owners  []*component
	// base is the sum of the group's own points. score is base plus the demotion for higher
	// groups.
	base, score  float64
	higherGroups float64 // number of higher groups of the same components
	reasons      []string
}

// Report returns the ranked patterns so far, with secrets hidden. It returns at most top
// patterns with at least minCount lines. If top is 0, it returns all of them.
func (f *Finder) Report(minCount int64, top int) Report {
	out := f.report
	ranked := f.rank()
	out.Evicted, out.EvictedLines = f.patterns.evicted, f.patterns.evictedLines
	out.Patterns = []Pattern{}
	for _, g := range ranked {
		for _, p := range g.members {
			out.Complaints += p.waiting
		}
	}
	ranked = slices.DeleteFunc(ranked, func(g *group) bool { return g.all.count < minCount })
	if out.All = len(ranked); top > 0 {
		ranked = ranked[:min(len(ranked), top)]
	}
	for _, g := range ranked {
		p := g.members[0].export(&g.all)
		p.Score, p.Reasons = math.Round(g.score*10)/10, g.reasons
		for _, v := range g.members[1:] {
			p.Variants = append(p.Variants, v.export(v))
		}
		out.Patterns = append(out.Patterns, p)
	}
	return out
}

// export returns the exported form of a pattern with the counts of another pattern.
func (p *pattern) export(counts *pattern) Pattern {
	return Pattern{
		ID: fmt.Sprintf("%016x", p.id()), Template: p.template, Error: p.err,
		Level: counts.Level, Count: counts.count, Streams: len(counts.streams), MoreStreams: len(counts.streams) >= maxStreams,
		First: utcOrNil(counts.first), Last: utcOrNil(counts.last),
		Example: p.Line, Input: p.input, LineNumber: p.number, Labels: p.labels,
	}
}

func utcOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// rank returns the groups, the most urgent first.
func (f *Finder) rank() []*group {
	byCause := map[string]*group{}
	var all []*group
	for _, p := range f.patterns.join() {
		if p.idle() {
			continue
		}
		c := causeIn(string(p.template), string(p.err))
		g := byCause[c.key]
		if g == nil {
			g = &group{cause: c, module: p.module}
			byCause[c.key] = g
			all = append(all, g)
		}
		g.members = append(g.members, p)
		g.cause.remote = g.cause.remote || c.remote
	}
	for _, g := range all {
		f.rate(g)
	}
	slices.SortFunc(all, compareGroups)
	all = f.merge(all)
	f.rateNovelty(all)
	return diversify(all)
}

// maxMerged is the largest number of groups that merge considers as a target for one group.
const maxMerged = 500

// merge merges each group into a higher group with nearly the same cause, if there is one.
func (f *Finder) merge(all []*group) (out []*group) {
next:
	for _, g := range all {
		for _, o := range out[:min(len(out), maxMerged)] {
			if g.cause.similar(&o.cause) || g.sameOutage(o) {
				o.members = append(o.members, g.members...)
				f.rate(o)
				continue next
			}
		}
		out = append(out, g)
	}
	return out
}

// sameOutage reports whether both groups show that the same module cannot reach a server, in
// mostly the same streams. The failed steps may be different.
func (g *group) sameOutage(o *group) bool {
	if !g.cause.remote || !o.cause.remote || g.module == "" || g.module != o.module {
		return false
	}
	both := 0
	for _, s := range g.all.streams {
		if slices.Contains(o.all.streams, s) {
			both++
		}
	}
	return 2*both >= len(g.all.streams)
}

// points returns the points by which patterns of the same cause are compared.
func (p *pattern) points() float64 { return levelPoints[p.Level] + wordPoints[p.severity()] }

// causes returns how many causes the message and its error state after the failed operation.
func (p *pattern) causes() (n int) {
	words := p.words()
	for _, w := range words[:max(0, len(words)-1)] {
		if strings.HasSuffix(w, ":") {
			n++
		}
	}
	return n
}

func (f *Finder) rate(g *group) {
	slices.SortFunc(g.members, func(a, b *pattern) int {
		return cmp.Or(cmp.Compare(b.points(), a.points()), cmp.Compare(b.count, a.count), strings.Compare(string(a.template+a.err), string(b.template+b.err)))
	})
	passes, retries, named, waited, words, causes := true, true, false, time.Duration(0), 0, 0
	g.all = pattern{}
	for _, p := range g.members {
		g.all.add(p)
		passes = passes && p.passes()
		retries = retries && !p.Passes && p.Words > 0
		words, named = max(words, p.severity()), named || p.Named
		causes = max(causes, min(p.causes(), maxCauses))
		if p.waitedLong() {
			waited = max(waited, p.spells.longest)
		}
	}
	g.owners = g.owners[:0]
	for _, s := range g.all.streams {
		if c := f.owners[s]; !slices.Contains(g.owners, c) {
			g.owners = append(g.owners, c)
		}
	}
	g.base, g.reasons = 0, nil
	g.addPoints(levelPoints[g.all.Level], "level %s", g.all.Level)
	if waited > 0 {
		g.addPoints(wordPoints[words], "waits for %s", waited.Round(time.Second))
	} else {
		g.addPoints(wordPoints[words], "words")
	}
	if named && g.all.Level < levelWarning {
		g.addPoints(namedPoints, "names an error")
	}
	switch {
	case passes && retries:
		g.addPoints(retryPoints, "tries again")
	case passes:
		g.addPoints(passingPoints, "usually passes")
	default:
		g.addPoints(perCause*float64(causes), "causes")
	}
	g.addPoints(g.frequency(), "%d times", g.all.count)
	g.addPoints(perStream*math.Log10(float64(len(g.all.streams))), "%d streams", len(g.all.streams))
}

func (g *group) frequency() float64 {
	return min(perLine*math.Log10(float64(g.all.count)), maxFrequency)
}

func (g *group) addPoints(points float64, why string, args ...any) {
	if g.base += points; points != 0 {
		g.reasons = append(g.reasons, fmt.Sprintf(why, args...)+fmt.Sprintf(" %+.1f", points))
	}
	g.score = g.base
}

// compareGroups orders groups by score, and then by properties that are the same in every run.
func compareGroups(a, b *group) int {
	p, q := a.members[0], b.members[0]
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.all.count, a.all.count), strings.Compare(string(p.template+p.err), string(q.template+q.err)))
}

// maxDiverse is the number of groups for whose order diversify considers the components of
// higher groups. The cost is quadratic, and people do not read more groups.
const maxDiverse = 300

// diversify orders the groups. It repeatedly takes the group with the highest score and lowers the scores of the
// remaining groups of its components. A complaint of many components says little about each of them, so such a group
// lowers the scores less.
func diversify(rest []*group) []*group {
	out := make([]*group, 0, len(rest))
	for len(rest) > 0 && len(out) < maxDiverse {
		best := slices.MinFunc(rest, compareGroups)
		if d := best.demotion(); d < 0 {
			best.reasons = append(best.reasons, fmt.Sprintf("its component has more urgent entries %+.1f", d))
		}
		out = append(out, best)
		rest = slices.DeleteFunc(rest, func(g *group) bool { return g == best })
		for _, g := range rest {
			g.addAbove(best)
			g.score = g.base + g.demotion()
		}
	}
	slices.SortFunc(rest, compareGroups)
	return append(out, rest...)
}

// addAbove counts the higher group o. The weight is the share of the components that both
// groups have in common.
func (g *group) addAbove(o *group) {
	both := 0
	for _, c := range g.owners {
		if slices.Contains(o.owners, c) {
			both++
		}
	}
	share := jaccard(both, len(g.owners), len(o.owners))
	if g.module != o.module {
		share *= otherModule
	}
	g.higherGroups += share * float64(both) / float64(len(g.owners))
}

// demotion returns the negative points for higher groups of the same components.
func (g *group) demotion() float64 { return perComponent * math.Log2(1+g.higherGroups) }
