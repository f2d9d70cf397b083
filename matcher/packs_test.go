package matcher

import (
	"strings"
	"testing"

	"crowsnest/rules"

	"github.com/stretchr/testify/require"
)

// shipped returns the rules that the program ships, made to read every stream.
func shipped(t testing.TB) []*rules.Rule {
	t.Helper()
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	var out []*rules.Rule
	for _, r := range set.Rules {
		out = append(out, r.WithFrom(r.From, rules.Selector{}))
	}
	return out
}

// TestShippedRules compares the package with the reference: the shipped rules on the lines
// of their own tests.
func TestShippedRules(t *testing.T) {
	set := shipped(t)
	p := compile(t, set...)
	lines := ownLines(set)
	require.Positive(t, requireShipped(t, p, set, lines))
	untuned := scanAll(p, NewStream(manager, StreamOptions{}), []string{lines})
	tuneFor(p, NewStream(manager, StreamOptions{}), lines) // other texts are rare in them
	requireHits(t, untuned, scanAll(p, NewStream(manager, StreamOptions{}), []string{lines}))
}

// ownLines returns the lines of the tests of rules.
func ownLines(set []*rules.Rule) string {
	var lines strings.Builder
	for _, r := range set {
		for _, test := range r.Tests {
			for _, in := range test.Input {
				if in.Text != "" {
					lines.WriteString(strings.ReplaceAll(in.Text, "\n", " ") + "\n")
				}
			}
		}
	}
	return lines.String()
}

// requireShipped returns the number of hits.
func requireShipped(t *testing.T, p *Program, set []*rules.Rule, input string) int {
	s := NewStream(manager, StreamOptions{})
	ref := newReference(set, s.Labels(), StreamOptions{})
	ref.scan(input, arrival)
	ref.flush()
	hits := scanAll(p, s, []string{input})
	requireHits(t, ref.hits, hits)
	require.Equal(t, ref.counters, s.Counters())
	return len(hits)
}

// TestShippedTexts keeps the shipped rules cheap: none is tried on every line.
func TestShippedTexts(t *testing.T) {
	for _, r := range shipped(t) {
		for _, info := range Texts(r) {
			require.False(t, info.EveryLine, "%s, %s", r.Alert, info.Part.Name(r))
		}
	}
}
