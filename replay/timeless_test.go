package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Nothing is said about the time of lines that state none, nor about how long a failure lasts.
func TestTimeless(t *testing.T) {
	set, prog := compile(t, scanPack+`
- alert: Once
  from: '{container="syncer"}'
  match: "panic:"
  severity: warning
- alert: Heartbeat
  from: '{container="syncer"}'
  match: "synced"
  silent: 5m
  severity: warning
- alert: Steps
  from: '{container="syncer"}'
  sequence: ["error one", "error two"]
  within: 5m
  severity: warning
`)
	long := logOf("long", "2026-01-01T10:00:00Z I0101 started", "2026-01-01T18:00:00Z stopped")
	f := func(line []string, alerts []string, missing ...string) {
		t.Helper()
		for _, beside := range [][]Input{nil, {long}} {
			report, err := Scan(set, prog, append([]Input{logOf("-", line...)}, beside...), ScanOptions{Lenient: true, Findings: true, Now: time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)})
			require.NoError(t, err)
			var got, why []string
			for _, a := range report.Alerts {
				got = append(got, a.Episode.Alert)
				require.Zero(t, [4]time.Time{a.FiredAt, a.Episode.StartsAt, a.Episode.LastSeen, a.Episode.EndsAt})
				require.Empty(t, a.Episode.Annotations["first_seen"]+a.Episode.Annotations["last_seen"]+a.Assumes)
			}
			for _, x := range report.Findings {
				why = append(why, x.Missing)
				require.Zero(t, [3]time.Time{x.Episode.StartsAt, x.Episode.LastSeen, x.Episode.EndsAt})
			}
			require.Equal(t, alerts, got)
			require.Equal(t, missing, why)
		}
	}
	const unknown = "the log states no time"
	f([]string{"panic: x", "panic: y"}, []string{"Once"})
	f([]string{"error: leaderelection lost"}, nil, "alerts if the failure lasts 2 minutes; "+unknown)
	f([]string{"error: leaderelection lost", "successfully acquired"}, nil, "recovered")
	f([]string{"conflict on x", "conflict on x", "conflict on x"}, nil, "alerts at 3 lines within 1 minute; 3 lines seen, and "+unknown)
	f([]string{"error one", "error two"}, nil, "alerts if its 2 lines come in order, for one failure, within 5 minutes; "+unknown)
	f([]string{"synced"}, nil)
}
