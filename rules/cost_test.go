package rules

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
			require.Positive(t, set.Rules[0].MaxLineTime())
			require.LessOrEqual(t, set.Rules[0].MaxLineTime(), maxLineCost)
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
