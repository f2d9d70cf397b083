package matcher

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"crowsnest/internal/literals"
	"crowsnest/rules"

	"github.com/stretchr/testify/require"
)

// Tune changes no hit, also while other goroutines scan.
func TestTuneConcurrentlyWithScans(t *testing.T) {
	set := benchSignatures(t, 100)
	p := benchProgram(t, set)
	lines := benchLines(set, 1<<20, 0.05)
	blocks := wholeLines(lines, 64<<10)
	count := func() (n int) {
		s := NewStream(manager, StreamOptions{})
		for _, b := range blocks {
			n += len(p.Scan(s, b, arrival))
		}
		return n
	}
	s := NewStream(manager, StreamOptions{})
	p.Rules(s)
	before := s.sel.finder.sieve.Load()
	p.Tune()
	require.Same(t, before, s.sel.finder.sieve.Load(), "nothing is known yet")
	want := count()
	require.Positive(t, want)

	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { require.Equal(t, want, count()) })
	}
	p.Tune()
	wg.Wait()
	require.NotSame(t, before, s.sel.finder.sieve.Load())
	require.Equal(t, want, count())
	require.Nil(t, s.sel.finder.lines, "the lines are given back")
	require.Zero(t, p.learners.Load())
	require.Zero(t, p.untuned.Load())
}

// tuneFor tunes the selection of a stream for these lines.
func tuneFor(p *Program, s *Stream, lines string) {
	p.Rules(s)
	f := &s.sel.finder
	f.lines = []byte(lines)
	f.full.Store(true)
	p.learners.Add(1)
	p.untuned.Add(1)
	p.Tune()
}

// Of the texts that a part requires, the search is for those that are rare in the lines.
func TestTuneChoosesRareTexts(t *testing.T) {
	var set []*rules.Rule
	for _, s := range benchSignatures(t, worthTuning) {
		set = append(set, s.rule)
	}
	set = append(set,
		ruleOf(t, "Two", rules.Matcher{Contains: []string{"zebra crossing", "quagga resting"}}),
		ruleOf(t, "Field", rules.Matcher{Contains: []string{"zebra crossing"}, Fields: []rules.Field{{Name: "animal", Value: "okapi-is-shy"}}}))
	hit := "zebra crossing, quagga resting\n" + `{"msg":"zebra crossing","animal":"okapi\u002dis\u002dshy"}` + "\n" + `{"msg":"zebra crossing","animal":"okapi-is-shy"}` + "\n"
	for _, common := range []string{"zebra crossing", "quagga resting", "okapi-is-shy"} {
		p, s := compile(t, set...), NewStream(manager, StreamOptions{})
		tuneFor(p, s, strings.Repeat("a "+common+" again\n", 100))
		require.NotContains(t, s.sel.finder.sieve.Load().texts, literals.Text{Text: common})
		require.Equal(t, 3, requireShipped(t, p, set, hit+"zebra crossing\nquagga resting\nokapi-is-shy\n"))
	}
}

// The number of kept lines is bounded. A stream with few rules keeps none.
func TestTuneIsBounded(t *testing.T) {
	var set []signature
	for i, s := range benchSignatures(t, 60) {
		if i >= 30 {
			s.rule = s.rule.WithFrom(s.rule.From, selectorOf(t, `{container="manager",pod=~"p-1?[0-9]"}`))
		}
		set = append(set, s)
	}
	few := ruleOf(t, "Few", set[0].rule.Steps[0].Matcher)
	few = few.WithFrom(few.From, selectorOf(t, `{container="few"}`))
	set = append(set, signature{rule: few})
	p := benchProgram(t, set)
	block := bytes.Repeat([]byte("an ordinary line\n"), 4096)
	few2 := NewStream(Labels{"container": "few"}, StreamOptions{})
	p.Scan(few2, block, arrival)
	require.Nil(t, few2.sel.finder.lines)
	p.learners.Store(learning)
	s := NewStream(manager, StreamOptions{})
	p.Scan(s, block, arrival)
	require.Nil(t, s.sel.finder.lines, "others are at it")
	p.learners.Store(0)
	p.Scan(s, block, arrival)
	require.Len(t, s.sel.finder.lines, livePart)
}

func TestPrepare(t *testing.T) {
	set := benchSignatures(t, 30)
	old, next := benchProgram(t, set), benchProgram(t, set[:20])
	for range maxServed + 10 {
		old.Rules(NewStream(manager, StreamOptions{}))
	}
	old.Rules(NewStream(Labels{"container": "other"}, StreamOptions{}))
	require.Len(t, old.served, maxServed)
	next.Prepare(old)
	require.Len(t, next.selections, 2)
	s := NewStream(manager, StreamOptions{})
	before := next.selection(s.labels, s.opt)
	next.Rules(s)
	require.Same(t, before, s.sel, "it was made ready")
}

// A prefilter that was built quickly is replaced once it has read enough, unless Tune has
// replaced it. Both find the same.
func TestSettle(t *testing.T) {
	set := benchSignatures(t, 100)
	p := benchProgram(t, set)
	p.learners.Store(learning) // nothing is tuned
	block := benchLines(set, 1<<20, 0.05)
	s := NewStream(manager, StreamOptions{})
	want := len(p.Scan(s, block, arrival))
	require.Positive(t, want)
	before := s.sel.finder.sieve.Load()
	for range quickBytes / len(block) {
		require.Same(t, before, s.sel.finder.sieve.Load())
		require.Len(t, p.Scan(s, block, arrival), want)
	}
	settled := s.sel.finder.sieve.Load()
	require.NotSame(t, before, settled)
	require.Len(t, p.Scan(s, block, arrival), want)
	require.Same(t, settled, s.sel.finder.sieve.Load())
}
