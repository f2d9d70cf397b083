package matcher

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crowsnest/internal/literals"
	"crowsnest/rules"

	"github.com/stretchr/testify/require"
)

// randomLog returns lines of which most are ordinary for pass, and the others are everything
// that it must not pass over.
func randomLog(r *rand.Rand, lines int) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var b strings.Builder
	for i := range lines {
		header := "2025-11-20T10:00:00.123456789Z"
		if r.IntN(8) == 0 {
			header = fmt.Sprintf("2025-11-20T10:%02d:00.%dZ", i%60, r.IntN(1e6))
		}
		header += pick(" stdout", " stdout", " stderr") + pick(" F ", " F ", " F ", " F ", " F ", " P ", " F:x ", " G ")
		if r.IntN(12) == 0 {
			header = pick("", `{"log":"`, "2025-11-20 ")
		}
		text := pick("Reconciling", "leaderelection lost", "LeaderElection LOST", "leaderelection", " lost", "panic: x", "goroutine 1 [running]:",
			`I1120 10:00:00.002415       1 a.go:1] "x" err=<`, "\tinner lost", " > lost=1", `{"level":"info","msg":"lost"}`, `{"level":"error"}`,
			"level=warn x", "failed to start", "", "main.main()", `{"err":"\u006cost"}`, "502", "E1120 10:00:00.002415       1 a.go:1] x")
		text += strings.Repeat("x", r.IntN(3)*r.IntN(70)) + pick("", "", " lost", " 502", "\r")
		if r.IntN(60) == 0 {
			text += strings.Repeat("y", 17<<10) + " lost"
		}
		b.WriteString(header + text + "\n")
	}
	return b.String()
}

// TestPass: the result is the same if no line is passed over. A NUL byte, which is dropped,
// prevents that for the lines after it.
func TestPass(t *testing.T) {
	lost := rules.Matcher{Contains: []string{"leaderelection lost"}}
	sets := map[string][]*rules.Rule{
		"one":     {ruleOf(t, "A", lost)},
		"folded":  {ruleOf(t, "A", lost), ruleOf(t, "B", rules.Matcher{Regex: literals.MustExpression(`(?i)election (?P<a>lost)`)}, "a")},
		"short":   {ruleOf(t, "A", rules.Matcher{Contains: []string{"502"}}), ruleOf(t, "B", rules.Matcher{Contains: []string{"lost"}})},
		"escaped": {ruleOf(t, "A", rules.Matcher{Fields: []rules.Field{{Name: "err", Value: "lost"}}})},
		"always":  {ruleOf(t, "A", lost), ruleOf(t, "B", rules.Matcher{Regex: literals.MustExpression(`^\S+x$`)})},
		"header":  {ruleOf(t, "A", rules.Matcher{Contains: []string{"2025-11-20"}}), ruleOf(t, "B", rules.Matcher{Contains: []string{" stdout F "}})},
	}
	r := rand.New(rand.NewPCG(3, 4))
	hits := 0
	for name, set := range sets {
		p := compile(t, set...)
		for round := range 60 {
			opt := StreamOptions{TextTime: round%2 == 0, Join: Join(round % 3), Format: []Format{FormatAuto, FormatCRI, FormatText}[round/2%3]}
			searched := []int{-1, 0, 3}[round%3]
			passed, all := NewStream(manager, opt), NewStream(manager, opt)
			one, other := NewBuffer(searched), NewBuffer(searched)
			for range 3 {
				log := randomLog(r, 1+r.IntN(90))
				got, want := p.ScanInto(one, passed, []byte("\r\n"+log), arrival), p.ScanInto(other, all, []byte("\x00\n"+log), arrival)
				require.Equal(t, want, got, "%s: %q", name, log)
				require.Equal(t, other.Complaints(), one.Complaints(), "%s: %q", name, log)
				require.Equal(t, all.Unfinished(), passed.Unfinished())
				hits += len(got)
				require.Equal(t, all.Counters(), passed.Counters())
			}
			require.Equal(t, p.FlushInto(other, all, arrival), p.FlushInto(one, passed, arrival))
		}
	}
	require.Greater(t, hits, 1000)
}
