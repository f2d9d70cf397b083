package matcher

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// unmatchedByHits returns the lines of a program whose last rule hits every line that no other
// rule hits, which is the plain way to find what an unmatched buffer has.
func unmatchedByHits(hits []Hit, every *rules.Rule) (out []Complaint) {
	matched := false
	for _, h := range hits {
		switch {
		case h.Rule != every:
			matched = true
			continue
		case !matched && levelVerdict([]byte(h.Line)) != dependent:
			out = append(out, Complaint{Line: strings.Clone(h.Line), Time: h.Time, Untimed: h.Untimed, LineNumber: h.LineNumber})
		}
		matched = false
	}
	return out
}

// sameLines compares what a buffer has with the hits of the plain way.
type sameLines struct {
	every        *rules.Rule
	plain, quick *Program
	of, beside   *Stream
	buf          *Buffer
}

func newSameLines(t require.TestingT, set []*rules.Rule, opt StreamOptions) *sameLines {
	every := &rules.Rule{Mode: rules.ModeOn, Steps: []rules.Step{{}}}
	plain, err := compileFor(&rules.Set{Rules: append(set[:len(set):len(set)], every)}, newSample(1<<10))
	require.NoError(t, err)
	quick, err := compileFor(&rules.Set{Rules: set}, newSample(1<<10))
	require.NoError(t, err)
	return &sameLines{every: every, plain: plain, quick: quick, of: NewStream(manager, opt), beside: NewStream(manager, opt), buf: NewUnmatchedBuffer()}
}

func (x *sameLines) require(t require.TestingT, plain, quick []Hit) (lines int) {
	count, matched := 0, false
	for _, h := range plain {
		if h.Rule != x.every {
			matched = true
			continue
		}
		lines++
		if matched {
			count++
		}
		matched = false
	}
	require.Len(t, quick, count)
	require.Equal(t, unmatchedByHits(plain, x.every), append([]Complaint(nil), x.buf.Complaints()...))
	require.Equal(t, x.of.Counters(), x.beside.Counters())
	require.Equal(t, x.of.Unfinished(), x.beside.Unfinished())
	return lines
}

func (x *sameLines) scan(t require.TestingT, block string) int {
	return x.require(t, x.plain.Scan(x.of, []byte(block), arrival), x.quick.ScanInto(x.buf, x.beside, []byte(block), arrival))
}

func (x *sameLines) flush(t require.TestingT) int {
	return x.require(t, x.plain.Flush(x.of, arrival), x.quick.FlushInto(x.buf, x.beside, arrival))
}

// An unmatched buffer has the lines that hits of a rule for every line would have, and no
// others of them have hits.
func TestUnmatchedLines(t *testing.T) {
	sel, other := selectorOf(t, `{container="manager"}`), selectorOf(t, `{container="other"}`)
	rapid.Check(t, func(t *rapid.T) {
		var set []*rules.Rule
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			set = append(set, drawRule(t, []rules.Selector{sel, sel, sel, other}, i))
		}
		format := rapid.SampledFrom([]Format{FormatAuto, FormatCRI, FormatDocker, FormatText}).Draw(t, "format")
		x := newSameLines(t, set, StreamOptions{Format: format, TextTime: rapid.Bool().Draw(t, "time")})
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "blocks"), 1))
		for _, block := range split(drawInput(t, format), r) {
			x.scan(t, block)
		}
		x.flush(t)
		rec := Record{Text: []byte(drawText(t)), Number: 7}
		if rapid.Bool().Draw(t, "stamped") {
			rec.Time = arrival.Add(time.Minute)
		}
		if rapid.Bool().Draw(t, "field") {
			rec.Fields = []Field{{Name: []byte(rapid.SampledFrom(hostileFields).Draw(t, "name")), Value: []byte(rapid.SampledFrom(hostileValues).Draw(t, "value"))}}
		}
		x.require(t, x.plain.Match(x.of, rec), x.quick.MatchInto(x.buf, x.beside, rec))
	})
}

// The same with lines that pass skips, and with captures.
func TestUnmatchedLinesOfOrdinaryLogs(t *testing.T) {
	set := []*rules.Rule{
		ruleOf(t, "A", rules.Matcher{Contains: []string{"leaderelection lost"}}),
		ruleOf(t, "B", rules.Matcher{Regex: literals.MustExpression(`(?i)election (?P<a>lost)`)}, "a"),
		ruleOf(t, "C", rules.Matcher{Regex: literals.MustExpression(`failed to (?P<a>s\w+)x?$`)}, "a"),
	}
	r := rand.New(rand.NewPCG(3, 5))
	for round := range 60 {
		x := newSameLines(t, set, StreamOptions{TextTime: round%2 == 0, Format: []Format{FormatAuto, FormatCRI, FormatText}[round/2%3]})
		lines := 0
		for range 3 {
			lines += x.scan(t, randomLog(r, 1+r.IntN(90)))
		}
		require.Positive(t, lines+x.flush(t))
	}
}
