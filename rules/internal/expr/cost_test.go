package expr

import (
	"os"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/internal/literals"
)

// TestCostHolds follows the threads of programs letter by letter: there are
// never more than was computed.
func TestCostHolds(t *testing.T) {
	type costed struct {
		expr string
		c    Cost
		most float64
	}
	var all []costed
	rows, err := os.ReadFile("../../../testdata/rules/costly.txt")
	require.NoError(t, err)
	for row := range strings.Lines(string(rows)) {
		if f := strings.SplitN(strings.TrimSpace(row), " ", 3); len(f) == 3 && f[0] != "#" {
			c := Cost{}
			c.AddExpression(literals.MustExpression(f[2]), false)
			if c.size < 1000 {
				all = append(all, costed{f[2], c, c.stepsPerByte() - c.fixed})
			}
		}
	}
	require.NotEmpty(t, all)
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("abckzKſ\u212aé世αA09 .:/\"\\-_")), 1, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(all).Draw(t, "expression")
		line := letters.Draw(t, "line")
		if rapid.Bool().Draw(t, "repeated") {
			line = strings.Repeat(line[:1], 50) + line
		}
		prog, w := c.c.programs[0].prog, newWalk(c.c.programs)
		live := map[uint32]bool{}
		for _, r := range line {
			starts := []uint32{uint32(prog.Start)}
			for pc := range live {
				if prog.Inst[pc].MatchRune(r) {
					starts = append(starts, prog.Inst[pc].Out)
				}
			}
			w.round++
			n := 0
			for _, pc := range starts {
				n += w.reachable(0, pc)
			}
			require.LessOrEqual(t, float64(n), c.most, "%q after %q of %q", c.expr, r, line)
			clear(live)
			for pc := range prog.Inst {
				if w.seen[0][pc] == w.round && takesLetter(prog.Inst[pc].Op) {
					live[uint32(pc)] = true
				}
			}
		}
	})
}

func takesLetter(op syntax.InstOp) bool {
	switch op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

func TestCost(t *testing.T) {
	f := func(expr string, want float64) {
		t.Helper()
		var c Cost
		c.AddExpression(literals.MustExpression(expr), false)
		require.InDelta(t, want, float64(c.Time())/float64(SizeCost(1)), 1e-6)
	}
	f(`abcd`, 2+1+1)        // texts, the start, and one thread after any letter
	f(`aaaa`, 2+1+4)        // after a, threads stand at each of four
	f(`[a-m]{3}[n-z]`, 2+4) // the start, two more of the first class, the second
	f(`.*a`, 2+4)           // either of the loop, both ends of the a
	var c Cost
	require.Zero(t, c.Time())
	c.AddTexts(30)
	require.Equal(t, SizeCost(10), c.Time())
}

// TestSizeHolds compares the bounds that need no program with the program.
func TestSizeHolds(t *testing.T) {
	parts := rapid.SampledFrom([]string{"a", "[a-z]", ".", "\\b", "^", "(b)", "(?:)", "k|s", "(?i)ks", "abc", "(?:a|b*)", "(c?)", "d{2,5}", "e{0}", "f{3,}", "g+"})
	ends := rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{0}", "{0,}", "{3}", "{2,}", "{0,2}", "*?"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := ""
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			pattern += "(?:" + parts.Draw(t, "part") + ")" + ends.Draw(t, "end")
			if rapid.Bool().Draw(t, "grouped") {
				pattern = "(?:" + pattern + ")" + ends.Draw(t, "end")
			}
		}
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Skip("too large")
		}
		prog, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err)
		require.GreaterOrEqual(t, Size(pattern), len(prog.Inst), pattern)
		var c Cost
		c.AddExpression(literals.MustExpression(pattern), false)
		c.AddTexts(3)
		require.GreaterOrEqual(t, c.Most(), c.Time(), pattern)
	})
}
