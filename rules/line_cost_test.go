package rules

import (
	"fmt"
	"os"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// costly is one row of testdata/rules/costly.txt.
type costly struct {
	expr         string
	alone, gated bool // whether a rule with it is loaded
}

func costlyExpressions(t testing.TB) []costly {
	t.Helper()
	text, err := os.ReadFile("../testdata/rules/costly.txt")
	require.NoError(t, err)
	var out []costly
	for row := range strings.Lines(string(text)) {
		if row = strings.TrimSpace(row); row == "" || row[0] == '#' {
			continue
		}
		f := strings.SplitN(row, " ", 3)
		require.Len(t, f, 3, row)
		out = append(out, costly{f[2], f[0] == "ok", f[1] == "ok"})
	}
	return out
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// What is loaded needs at most 100 ms for any line, whether a text guards it or
// not: a line may have that text.
func TestCostlyExpressions(t *testing.T) {
	f := func(matcher string, ok bool) {
		t.Helper()
		text := pack("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: " + matcher + "\n")
		d, problems := Parse(File{Name: "p.yaml", Data: []byte(text)})
		set, found := Build([]*Document{d}, Options{})
		for _, p := range append(problems, found...).Errors() {
			require.Equal(t, "too-costly", p.Check, p)
			require.False(t, ok, "%s: %v", matcher, p)
		}
		if set != nil {
			require.True(t, ok, matcher)
			require.Positive(t, set.Rules[0].MaxLineTime)
			require.LessOrEqual(t, set.Rules[0].MaxLineTime, maxLineCost)
		}
	}
	for _, c := range costlyExpressions(t) {
		f("{regex: "+quoted(c.expr)+"}", c.alone)
		f("{regex: "+quoted(c.expr)+", contains: guard}", c.gated)
	}
	// Many expressions of one rule count together, and so do plain texts.
	f("{contains: guard, any: [{regex: '[a-z]{90}0'}, {regex: '[a-z]{90}1'}, {regex: '[a-z]{90}2'}]}", false)
	f("{contains: guard, any: [{regex: '[a-z]{60}0'}, {regex: '[A-Z]{60}1'}, {regex: '[0-9]{60}2'}]}", true)
	f("{contains: guard, regex: '[a-z]{70}0', not: {regex: '[a-z]{70}1'}, field: {a: '~[a-z]{60}'}}", false)
	f("{contains: guard, field: {a: '~(?P<x>[a-z]{110})'}}", false)
	f("{contains: guard, field: {a: '~[a-z]{110}'}}", true)
	texts := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "text-%d,", i)
		}
		return b.String()
	}
	f("{any: ["+texts(500)+"]}", true)
	f("{any: ["+texts(700)+"]}", false)
	// A program that is not even looked at.
	f("{contains: guard, regex: '"+strings.Repeat("[a-z]{999}-", 25)+"'}", false)
}

// TestLineCostHolds follows the threads of programs letter by letter: there are
// never more than was computed.
func TestLineCostHolds(t *testing.T) {
	type costed struct {
		expr string
		p    profile
		most float64
	}
	var all []costed
	for _, c := range costlyExpressions(t) {
		p := profile{}
		p.expression(regexp.MustCompile(c.expr), false)
		if p.size < 1000 {
			all = append(all, costed{c.expr, p, p.steps() - p.fixed})
		}
	}
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("abckzKſ\u212aé世αA09 .:/\"\\-_")), 1, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(all).Draw(t, "expression")
		line := letters.Draw(t, "line")
		if rapid.Bool().Draw(t, "repeated") {
			line = strings.Repeat(line[:1], 50) + line
		}
		prog, w := c.p.programs[0].prog, newWalk(c.p.programs)
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
				n += w.reach(0, pc)
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

func TestLineCost(t *testing.T) {
	f := func(expr string, want float64) {
		t.Helper()
		got := lineCost([]Matcher{{Regex: regexp.MustCompile(expr)}})
		require.InDelta(t, want, float64(got)/float64(maxMatchedLine*costPerStep), 1e-6)
	}
	f(`abcd`, 2+1+1)        // texts, the start, and one thread after any letter
	f(`aaaa`, 2+1+4)        // after a, threads stand at each of four
	f(`[a-m]{3}[n-z]`, 2+4) // the start, two more of the first class, the second
	f(`.*a`, 2+4)           // either of the loop, both ends of the a
	require.Zero(t, lineCost(nil))
	require.Equal(t, time.Duration(math16(10)), lineCost([]Matcher{{Contains: make([]string, 30)}}))
}

func math16(steps int) int64 { return int64(steps) * int64(maxMatchedLine*costPerStep) }
