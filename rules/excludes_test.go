package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A rule whose `not` is what the other one requires leaves it the lines, so neither is shadowed.
func TestExcludedLinesAreNotShadowed(t *testing.T) {
	f := func(first, second string, shadowed bool) {
		t.Helper()
		a, _ := Parse(File{Name: "a.yaml", Data: []byte("pack: {name: a, version: 0.1.0, rules: 1}\nrules:\n- alert: A\n  from: '{container=\"c\"}'\n  match: " + first + "\n  severity: warning\n")})
		b, _ := Parse(File{Name: "b.yaml", Data: []byte("pack: {name: b, version: 0.1.0, rules: 1}\nrules:\n- alert: B\n  from: '{container=\"c\"}'\n  match: " + second + "\n  severity: warning\n")})
		_, problems := Build([]*Document{a, b}, Options{})
		got := false
		for _, p := range problems {
			got = got || p.Check == "shadowed"
		}
		require.Equal(t, shadowed, got, "%s %s: %v", first, second, problems)
	}
	const long = "the machine needs remediation"
	f("{contains: "+long+"}", "{contains: ["+long+", Mine]}", true) // A has all lines of B
	f("{contains: "+long+"}", "{regex: '"+long+"'}", true)
	f("{contains: "+long+", not: Mine}", "{contains: Mine, regex: '"+long+"'}", false)
	f("{contains: "+long+", not: {any: [Other, Mine]}}", "{contains: MineAlone, regex: '"+long+"'}", false)
	f("{contains: "+long+", not: {contains: Mine, any: [Other]}}", "{contains: Mine, regex: '"+long+"'}", true)
	f("{contains: "+long+", not: Other}", "{contains: Mine, regex: '"+long+"'}", true)
}
