package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// TestBoundsOfRules accepts every number and duration of a rule at its bounds and
// refuses one beyond, with the range.
func TestBoundsOfRules(t *testing.T) {
	const head = "pack: {name: p}\nrules:\n- alert: A\n  from: '{container=\"c\"}'\n  match: text of it\n  severity: info\n  by: [pod]\n"
	f := func(format, low, below, high, above string) {
		t.Helper()
		for value, ok := range map[string]bool{low: true, below: false, high: true, above: false} {
			if value == "" {
				continue
			}
			text := head + fmt.Sprintf(format, value)
			doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(text)})
			_, more := rules.Build([]*rules.Document{doc}, rules.Options{})
			errs := append(problems, more...).Errors()
			if ok {
				require.Empty(t, errs, "%s\n%s", text, errs.Error())
				continue
			}
			require.NotEmpty(t, errs, text)
			require.Contains(t, errs.Error(), "; allowed are ", text)
			require.Contains(t, errs.Error(), "fix: use at ", text)
		}
	}
	f("  count: %s\n  within: 1h\n", "2", "0", "10000", "10001")
	f("  count: 2\n  within: %s\n", "1ms", "0s", "1y", "366d")
	f("  for: %s\n", "0s", "", "1y", "250y")
	f("  keep_firing_for: %s\n", "0s", "", "1y", "290y")
	f("  clear: the end of it\n  expire: %s\n", "1ms", "", "1y", "290y")
	f("  limit: %s\n", "1", "0", "10000", "9223372036854775807")
	f("  unless: {contains: work, within: %s}\n", "1ms", "0s", "1y", "290y")
	f("  tests: [{input: [{at: %s, line: x}], expect: [{at: 1y, firing: none}]}]\n", "0s", "", "1y", "2y")
	f("  tests: [{input: [{at: 1s, line: x, repeat: %s}], expect: [{at: 1y, firing: none}]}]\n", "1", "0", "100000", "100001")
}

// TestBudgetOfTests refuses tests that each are allowed and together are too much.
func TestBudgetOfTests(t *testing.T) {
	var docs []*rules.Document
	for i := range 8 {
		var b strings.Builder
		fmt.Fprintf(&b, "pack: {name: p%d}\nrules:\n- alert: A%d\n  from: '{container=\"c\"}'\n  match: text of it %d\n  severity: info\n  tests:\n", i, i, i)
		b.WriteString(strings.Repeat("  - {input: [{at: 0s, line: x, repeat: 100000}], expect: [{at: 1s, firing: none}]}\n", 1000))
		doc, problems := rules.Parse(rules.File{Name: fmt.Sprintf("p%d.yaml", i), Data: []byte(b.String())})
		require.Empty(t, problems.Errors())
		docs = append(docs, doc)
	}
	set, problems := rules.Build(docs, rules.Options{})
	require.Nil(t, set)
	require.Len(t, problems.Errors(), 1)
	require.Contains(t, problems.Error(), "p0.yaml:7")
	require.Contains(t, problems.Error(), "all packs together are allowed 2m0s")
}

// TestRepetitionsEnd refuses repetitions whose last time overflows.
func TestRepetitionsEnd(t *testing.T) {
	text := "pack: {name: p}\nrules:\n- alert: A\n  from: '{container=\"c\"}'\n  match: text of it\n  severity: info\n" +
		"  tests: [{input: [{at: 1s, line: x, repeat: 100000, every: 1y}], expect: [{at: 1y, firing: none}]}]\n"
	_, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(text)})
	require.Contains(t, problems.Error(), "after the start of the test")
}
