package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A file of 1 MB is parsed in about a second, whatever is in it. The bound is generous because
// machines are busy; each of these took many times as long when its time grew with the square
// of its size, or with repetitions in its expressions.
func TestLargeFilesAreQuick(t *testing.T) {
	const size = 969_000
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	pack := func(rules string) string {
		return "pack: {name: big, version: 0.1.0}\nrules:\n" + rules
	}
	many := func(form string) string {
		var b strings.Builder
		for i := 0; b.Len() < size && i < maxRules; i++ {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	const head = "- {alert: Rule%[1]d, from: '{container=\"c\"}', origin: any, severity: warning, "
	const first = "- alert: A\n  from: '{container=\"c\"}'\n  origin: any\n  severity: warning\n"
	for name, text := range map[string]string{
		"errors on one line":      "pack: {name: big}\nrules: [" + fill("{a: 1},") + "]\n",
		"unknown keys":            pack(first + "  match: x\n" + many("  unknownkey%d: x\n")),
		"entries":                 pack(first + "  match: x\n  labels:\n" + many("    l%d: x\n")),
		"empty rules":             pack(fill("-\n")),
		"blank lines at the end":  pack(many(head + "match: {contains: 'failure %[1]d'}}\n")[:size/2]) + "\n" + strings.Repeat("\n", size/2),
		"repetitions":             pack(many(head + "match: {contains: foo, regex: '(a{1,900}b{1,900})c%[1]d'}}\n")),
		"repetitions in one rule": pack(first + "  match: {any: [" + strings.Repeat("{contains: foo, regex: '(abcdefghijklmnopqrstuvwxyz){1000}'}, ", 900) + "]}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			d, _ := Parse(File{Name: "big.yaml", Data: []byte(text)})
			Build([]*Document{d}, Options{})
			require.Less(t, time.Since(start), 15*time.Second)
			t.Log(time.Since(start))
		})
	}
}
