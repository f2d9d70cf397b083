package mcp

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

const lease = "2026-01-02T03:00:00Z E0101 lost the lease password=hunter2 " + hostile + "\n"

func TestReplay(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing")) // nothing is written
	c := connect(t, "http://127.0.0.1:1", nil)
	got := call[replayOut](c, "replay", args{"lines": lease, "labels": args{"namespace": "kube-system", "container": "manager"}})
	require.Equal(t, "The lines would have fired 1 alert.", got.Verdict)
	require.Equal(t, "kube-system", got.Alerts[0].FromLogs.Labels["namespace"])
	require.Contains(t, got.Alerts[0].FromLogs.Line, "<redacted>")
	require.NotContains(t, fmt.Sprint(got), "hunter2")
	require.Equal(t, []Replayed{{Rule: "LeaseLost", Lines: 1, Episodes: 1, Alerts: 1}}, got.Rules)
	require.False(t, got.Seen.Complete)
	require.Contains(t, fmt.Sprint(got.Seen.NotSeen), "No states of Kubernetes objects: 1 of 2 rules has no input")

	got = call[replayOut](c, "replay", args{"lines": "2026-01-02T03:00:00Z all is fine\n"})
	require.Contains(t, got.Verdict, "The lines would have fired no alert. This does NOT mean that nothing failed")

	pack := "pack: {name: p, rules: 1}\nrules:\n- {alert: Mine, from: '{container=\"c\"}', match: fine, by: [namespace], severity: info}\n"
	got = call[replayOut](c, "replay", args{"lines": "2026-01-02T03:00:00Z all is fine\n", "rules": pack})
	require.Equal(t, "Mine", got.Alerts[0].Alert)
	require.Equal(t, "lines of the call, evaluated with the rules of the call", got.Seen.Basis)

	for want, in := range map[string]args{
		"the rules of the call are refused:\nrules.yaml:1": {"lines": "x", "rules": "pack: 1"},
		"at most 262144 are allowed":                       {"lines": "x", "rules": strings.Repeat("#", maxRules+1)},
		"at most 1048576 are allowed":                      {"lines": strings.Repeat("x", maxLines+1)},
		"replay needs lines":                               {"lines": ""},
		"missing properties":                               {},
	} {
		require.Contains(t, c.fails("replay", in), want)
	}
}

// Calls share one set of rules.
func TestReplayConcurrent(t *testing.T) {
	set := demo(t)
	c := connect(t, "http://127.0.0.1:1", func(cfg *Config) { cfg.Rules = func() (*rules.Set, error) { return set, nil } })
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			res, err := c.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "replay", Arguments: args{"lines": strings.Repeat(lease, 200)}})
			if assert.NoError(t, err) {
				assert.Contains(t, textOf(res), "The lines would have fired 1 alert.")
			}
		})
	}
	all.Wait()
}

func TestReplayManyAlerts(t *testing.T) {
	var lines strings.Builder
	for i := range 400 {
		fmt.Fprintf(&lines, "2026-01-02T03:00:00Z lost the lease of team-%d %s\n", i, strings.Repeat("y", 2000))
	}
	pack := "pack: {name: p, rules: 1}\nrules:\n- {alert: Mine, from: '{container=\"c\"}', match: {regex: 'lease of (?P<who>\\S+)'}, by: [who], limit: 1000, severity: info}\n"
	got := call[replayOut](connect(t, "http://127.0.0.1:1", nil), "replay", args{"lines": lines.String(), "rules": pack})
	require.Equal(t, 400, got.Total)
	require.Less(t, len(got.Alerts), 100)
	require.Contains(t, got.Verdict, fmt.Sprintf("400 alerts; these are the first %d. Give fewer lines", len(got.Alerts)))
	require.Contains(t, fmt.Sprint(got.Seen.NotSeen), "This file leaves out 200 failures")
}

func TestExplain(t *testing.T) {
	c := connect(t, "http://127.0.0.1:1", nil)
	got := call[explainOut](c, "explain", args{"line": "lost the lease token=abcdefghijklmnop " + hostile, "rule": "LeaseLost", "labels": args{"container": "manager"}})
	require.True(t, got.Explained[0].Matches)
	require.NotContains(t, got.Explained[0].FromLogs.Text, "abcdefghijklmnop")
	require.Contains(t, got.Explained[0].FromLogs.Text, "LeaseLost: the line matches")
	got = call[explainOut](c, "explain", args{"line": "fine", "rule": "LeaseLost"})
	require.False(t, got.Explained[0].Matches)
	require.Equal(t, "This line matches 0 of 2 rules. That does not mean that the line is harmless: no rule describes it.", call[explainOut](c, "explain", args{"line": "fine"}).Verdict)
	require.Contains(t, c.fails("explain", args{"line": "x", "rule": "Lease"}), "did you mean LeaseLost?")
	require.Contains(t, c.fails("explain", args{"line": strings.Repeat("x", maxLine+1)}), "at most 65536 are allowed")
	require.Contains(t, c.fails("explain", args{"line": ""}), "line is empty")
}
