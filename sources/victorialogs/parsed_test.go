//go:build !race

package victorialogs

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Of the lines in the tests of the shipped rules, nearly all have the same hits after an agent has
// parsed them. The others depend on the order of fields, which VictoriaLogs does not store.
func TestParsedLines(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	all, same := 0, 0
	for _, r := range set.Rules {
		for _, test := range r.Tests {
			for _, in := range test.Input {
				labels := map[string]string{}
				maps.Copy(labels, test.Stream)
				maps.Copy(labels, in.Labels)
				hits := func(line string) (out []string) {
					s := matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText, OfPods: true})
					for _, h := range prog.Match(s, matcher.Record{Time: time.Unix(1, 0), Text: []byte(line)}) {
						out = append(out, fmt.Sprint(h.Rule.Alert, h.Part, h.Values))
					}
					return out
				}
				message, fields, ok := parse(in.Text)
				want := hits(in.Text)
				if !ok || len(want) == 0 {
					continue
				}
				all++
				if slices.Equal(want, hits(string(lineWriter{fields: []string{"*"}}.line(recordOf(message, fields))))) {
					same++
				}
			}
		}
	}
	t.Logf("%d of %d lines have the same hits", same, all)
	require.Greater(t, all, 2000)
	require.GreaterOrEqual(t, 1000*same, 990*all)
}
