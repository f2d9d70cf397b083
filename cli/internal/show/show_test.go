package show

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

func TestAlert(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := episodes.Episode{
		Alert: "LeaseLost", State: episodes.StateResolved, Reason: episodes.ReasonClear,
		Labels: map[string]string{"alertname": "LeaseLost", "severity": "critical", "resolves": "clear", "namespace": "team-a", "x": "a b"},
		Annotations: map[string]string{
			"summary": "lost the lease", "remediation": "Restart it.\n1. kubectl delete pod vc-0",
			"runbook_url": "https://example.org/r", "affected": "yes: 0.22.1", "fixed_in": "0.22.6",
		},
		StartsAt: start, FiredAt: start.Add(130 * time.Second), LastSeen: start.Add(time.Second), EndsAt: start.Add(time.Hour), Count: 2,
		Line: "leaderelection\tlost \x1b[31m", First: "first",
	}
	var b strings.Builder
	require.NoError(t, Alert(&b, e, Style{}))
	require.Equal(t, `RESOLVED critical LeaseLost
  lost the lease
  where       namespace=team-a x="a b"
  since       2026-01-02T03:04:05Z, certain after 2m10s, last seen 2026-01-02T03:04:06Z, ended 2026-01-02T04:04:05Z (clear), 2 lines
  line        leaderelection lost
  first line  first
  what to do  Restart it.
              1. kubectl delete pod vc-0
  runbook     https://example.org/r
  affected    yes: 0.22.1
  fixed in    0.22.6
`, b.String())

	b.Reset()
	require.NoError(t, Alert(&b, e, Style{Color: true}))
	require.Contains(t, b.String(), "\x1b[32mRESOLVED\x1b[0m")
}
