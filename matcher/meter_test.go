package matcher

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/literals"
	"crowsnest/rules"
)

// TestPanic breaks one of two rules from inside: the whole rule is quarantined.
func TestPanic(t *testing.T) {
	m := rules.Matcher{Contains: []string{"lost"}}
	broken, whole := ruleOf(t, "Broken", m), ruleOf(t, "Whole", m)
	broken.Clear = &rules.ClearOrUnless{Matcher: rules.Matcher{Contains: []string{"back"}}}
	p := compile(t, broken, whole)
	require.Equal(t, Part(0), p.parts[1].role)
	p.parts[1].cond, p.parts[1].decided = nil, false
	s := NewStream(manager, StreamOptions{})
	for range maxPanics {
		require.Empty(t, p.Quarantined())
		require.Len(t, p.Scan(s, []byte("back\n"), arrival), 1)
		hits := p.Scan(s, []byte("lost\n"), arrival)
		require.Len(t, hits, 1)
		require.Same(t, whole, hits[0].Rule)
	}
	require.Equal(t, []Quarantined{{broken, ReasonPanic}}, p.Quarantined())
	require.Len(t, p.Scan(s, []byte("lost\n"), arrival), 1)
	require.Empty(t, p.Scan(s, []byte("back\n"), arrival))
}

func TestQuarantineOfCost(t *testing.T) {
	m := rules.Matcher{Contains: []string{"lost"}}
	a, b := ruleOf(t, "A", m), ruleOf(t, "B", m)
	p, s := compile(t, a, b), NewStream(manager, StreamOptions{})
	scan := func(p *Program) (names []string) {
		for _, h := range p.Scan(s, []byte("lost\n"), arrival) {
			names = append(names, h.Rule.Alert)
		}
		return names
	}
	p.Quarantine(ruleOf(t, "A", m), ReasonCost) // another one of that name
	require.Equal(t, []string{"A", "B"}, scan(p))
	p.Quarantine(a, ReasonCost)
	require.Equal(t, []string{"B"}, scan(p))
	require.Equal(t, []Quarantined{{a, ReasonCost}}, p.Quarantined())

	// An unchanged rule stays quarantined across reloads; a changed one does not.
	p.meters[0].spent.Store(7)
	p.meters[0].tries.Store(70)
	p.meters[1].spent.Store(8)
	p.meters[1].tries.Store(80)
	again, changed := *a, *a
	changed.Hash = "another"
	q := compile(t, b, &again)
	q.CopyCounters(p)
	require.Equal(t, []string{"B"}, scan(q))
	require.Equal(t, []Quarantined{{&again, ReasonCost}}, q.Quarantined())
	require.Equal(t, []Cost{{b, 80, 8}, {&again, 70, 7}}, q.Costs())
	last := compile(t, ruleOf(t, "New", m), &changed)
	last.CopyCounters(q)
	require.Equal(t, []string{"New", "A"}, scan(last))
	require.Empty(t, last.Quarantined())
	require.Equal(t, time.Duration(7), last.Costs()[1].Spent, "a counter never falls")
}

// fakeWatch is a stopwatch that advances by the duration of the next try.
type fakeWatch struct {
	now, took time.Duration
	looks     int
}

func (w *fakeWatch) read() time.Duration {
	if w.looks++; w.looks%2 == 0 {
		w.now += w.took
	}
	return w.now
}

// TestCosts compares the estimate with the duration of the tries.
func TestCosts(t *testing.T) {
	r := ruleOf(t, "A", rules.Matcher{Contains: []string{"lost"}, Not: &rules.Matcher{Regex: literals.MustExpression(`[a-z]{200}z`)}})
	require.Greater(t, r.MaxLineTime(), 95*time.Millisecond)
	f := func(line string, lines int, took, want time.Duration, mostLooks float64) {
		t.Helper()
		w := &fakeWatch{took: took}
		p, err := CompileTimed(&rules.Set{Rules: []*rules.Rule{r}}, w.read)
		require.NoError(t, err)
		s, block := NewStream(manager, StreamOptions{}), []byte(strings.Repeat(line+"\n", 10))
		for range lines / 10 {
			p.Scan(s, block, arrival)
		}
		require.InEpsilon(t, want, p.Costs()[0].Spent, 0.15)
		require.InEpsilon(t, lines, p.Costs()[0].Evaluations, 0.15)
		require.LessOrEqual(t, float64(w.looks), mostLooks*float64(lines))
	}
	const n = 100_000
	f("lost", n, 100*time.Nanosecond, n*100*time.Nanosecond, 2.2/64)
	f("lost", n, time.Microsecond, n*time.Microsecond, 2.2/4)
	f("lost", 1000, 20*time.Microsecond, 1000*20*time.Microsecond, 2)
	long := strings.Repeat("x", longLine) + "lost"
	f(long, 100, time.Microsecond, 100*time.Microsecond, 2)
	// A machine that sleeps does not make a rule costly.
	f("lost", 10, time.Hour, 10*maxTry(r, 4), 2)
	require.Less(t, maxTry(r, 4), 100*time.Microsecond)
	require.Greater(t, maxTry(r, MaxLine), 100*time.Millisecond)
}

// TestCostsInTurn has tries in a pattern: the choice of the timed tries must not depend on
// it.
func TestCostsInTurn(t *testing.T) {
	w := &fakeWatch{took: 100 * time.Nanosecond}
	var set []*rules.Rule
	for i := range 16 {
		set = append(set, ruleOf(t, fmt.Sprint("R", i), rules.Matcher{Contains: []string{"lost"}}))
	}
	p, err := CompileTimed(&rules.Set{Rules: set}, w.read)
	require.NoError(t, err)
	s := NewStream(manager, StreamOptions{})
	block := []byte(strings.Repeat("lost\n", 10))
	for range 2_000 {
		p.Scan(s, block, arrival)
	}
	for _, c := range p.Costs() {
		require.InEpsilon(t, 20_000*100*time.Nanosecond, c.Spent, 0.35)
	}
}

// TestCostsConcurrently is for the race detector.
func TestCostsConcurrently(t *testing.T) {
	began := time.Now()
	r := ruleOf(t, "A", rules.Matcher{Contains: []string{"lost"}})
	p, err := CompileTimed(&rules.Set{Rules: []*rules.Rule{r}}, func() time.Duration { return time.Since(began) })
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s := NewStream(manager, StreamOptions{})
			for range 1000 {
				p.Scan(s, []byte("lost\nlost\n"), arrival)
				p.Costs()
				p.Quarantined()
			}
		})
	}
	wg.Wait()
	require.Positive(t, p.Costs()[0].Spent)
	p.Quarantine(r, ReasonCost)
	require.Empty(t, p.Scan(NewStream(manager, StreamOptions{}), []byte("lost\n"), arrival))
}
