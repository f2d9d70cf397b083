package inforce

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/loader"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// The time when a rule last saw a line is exact to a block, whichever streams it shares
// with other rules, and even if there are more combinations than are kept.
func TestLastSeen(t *testing.T) {
	text := "pack: {name: seen, version: \"1.0.0\"}\nrules:\n"
	for i := range 12 {
		text += fmt.Sprintf("- {alert: R%d, from: '{r%d=\"yes\"}', match: \"text %d\", severity: info, annotations: {summary: s}, remediation: {summary: s, steps: [x]}}\n", i, i, i)
	}
	docs, problems := loader.ParseFiles([]rules.File{{Name: "seen.yaml", Data: []byte(text)}})
	require.Empty(t, problems.Errors())
	set, problems := loader.BuildSet(docs, rules.Options{})
	require.Empty(t, problems.Errors())
	rs, err := New(set)
	require.NoError(t, err)
	rs.maxMany = 24
	want := map[string]time.Time{}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for n := range 60 { // combinations of 12 rules
		n *= 67
		labels := matcher.Labels{"container": "c"}
		now = now.Add(time.Millisecond)
		for i := range 12 {
			if n>>i&1 == 1 {
				labels[fmt.Sprint("r", i)] = "yes"
				want[fmt.Sprint("R", i)] = now
			}
		}
		s := matcher.NewStream(labels, matcher.StreamOptions{})
		rs.NoteLine(s, now)
		rs.NoteLine(s, now)
		if n%3 == 0 {
			require.Equal(t, want, rs.LastSeen())
		}
	}
	require.Equal(t, want, rs.LastSeen())
	require.LessOrEqual(t, rs.many.Load(), rs.maxMany)
	now = now.Add(time.Second)
	rs.SawRule(set.Rules[0], now)
	rs.SawRule(&rules.Rule{}, now)
	want["R0"] = now
	require.Equal(t, want, rs.LastSeen())
}
