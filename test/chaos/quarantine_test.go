package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/wait"
)

// costlyPack has a rule that is accepted, matches nothing, and takes a large
// part of a CPU at some hundred lines per second.
func costlyPack(expr string) string {
	return fmt.Sprintf(`pack: {name: costly, version: "1.0.0", rules: 2}
rules:
- alert: ChaosCostly
  from: '{container="chaos"}'
  match: {contains: "chaos.go:12", regex: '%s'}
  severity: warning
- alert: ChaosCheap
  from: '{container="chaos"}'
  match: {contains: "no line has this", regex: '%s'}
  severity: warning
`, expr, expr)
}

const (
	costlyExpr   = `[a-z ,]{1,90}[A-Z][A-Z]`
	costlySeries = `crowsnest_rule_seconds_total{rule="ChaosCostly"}`
	givenUp      = `crowsnest_rule_inactive{reason="given_up",rule="ChaosCostly"}`
	givenUpAlert = "CrowsnestRuleGivenUp"
)

// A rule that uses too much CPU is quarantined within about a minute and
// reported. No other rule becomes slower, neither before nor after, and the
// rule stays quarantined until it changes.
func TestQuarantine(t *testing.T) {
	onlyLong(t)
	s := newScene(t, seed(t), options{
		writers: 2, load: load{perSecond: 500, pad: 200, maxSize: 1 << 20, planted: 250, period: 1000, quiet: true}, resend: 5 * time.Second, shipped: true,
		packs: map[string]string{"costly.yaml": costlyPack(costlyExpr)},
	})
	s.p.start()
	s.p.ready()
	from := time.Now()
	notified := func(resolved bool) bool {
		for _, got := range []map[string]*heard{hear(s.good.AM), hear(s.bad.AM)} {
			if h := got[s.quarantinedKey()]; h == nil || h.resolved != resolved {
				return false
			}
		}
		return true
	}
	ok := wait.Until(90*time.Second, func() bool { return notified(false) })
	quarantined := time.Now()
	cpu := func(m map[string]float64) float64 { return m["process_cpu_seconds_total"] }
	require.True(t, ok, "the alert does not arrive; the rule took %.1f s of %.1f s CPU", s.p.newest()[costlySeries], cpu(s.p.newest()))
	t.Logf("reported as quarantined after %v", quarantined.Sub(from).Round(100*time.Millisecond))
	require.GreaterOrEqual(t, quarantined.Sub(from), 50*time.Second, "not for a busy moment")

	eventually(t, 5*time.Second, "the metrics say so", func() bool { return s.p.newest()[givenUp] == 1 })
	before := s.p.newest()
	pause(20 * time.Second)
	after := s.p.newest()
	t.Logf("the rule took %.1f s of %.1f s CPU; in 20 s after that %.2f s of %.2f s", before[costlySeries], cpu(before), after[costlySeries]-before[costlySeries], cpu(after)-cpu(before))
	require.Greater(t, before[costlySeries], 0.2*50)
	require.LessOrEqual(t, after[costlySeries]-before[costlySeries], 0.1)
	require.Zero(t, after[strings.Replace(givenUp, "ChaosCostly", "ChaosCheap", 1)], "what is not tried costs nothing")
	s.givenUpIs(t, true)

	// A reload that changes other rules, and one that changes this one.
	s.writeRules(1)
	s.reload(t)
	s.givenUpIs(t, true)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "costly.yaml"), []byte(costlyPack("nobody writes this")), 0o600))
	s.reload(t)
	s.givenUpIs(t, false)
	eventually(t, 20*time.Second, "the end of it arrives at both", func() bool { return notified(true) })
	to := time.Now()

	good, bad := s.settle(30*time.Second, nil)
	for _, got := range []map[string]*heard{good, bad} {
		require.Equal(t, "firing resolved", got[s.quarantinedKey()].states)
		delete(got, s.quarantinedKey())
	}
	s.judge(good, bad, nil)
	s.report(good, bad)
	log, err := os.ReadFile(filepath.Join(s.dir, "daemon.log"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "rule is quarantined"), "it is logged once")
	during, later := s.led.latencies(good, from, quarantined), s.led.latencies(good, quarantined, to)
	t.Logf("other rules while it took too much: %s", percentiles(during))
	t.Logf("other rules after that:             %s", percentiles(later))
	require.LessOrEqual(t, at(during, 0.99), time.Second, "p99 meanwhile")
	require.LessOrEqual(t, at(during, 1), 2*time.Second, "greatest meanwhile")
	require.LessOrEqual(t, at(later, 0.99), time.Second, "p99 after that")
}

func (s *scene) quarantinedKey() string {
	return keyOf(map[string]string{"alertname": givenUpAlert, "severity": "warning", "rule": "ChaosCostly", "reason": "cost"})
}

func (s *scene) reload(t *testing.T) {
	t.Helper()
	err := s.p.Reload(t.Context())
	require.NoError(t, err)
}

// givenUpIs compares the API with the page.
func (s *scene) givenUpIs(t *testing.T, want bool) {
	t.Helper()
	api, err := s.p.Get(t.Context(), "/api/v1/rules")
	require.NoError(t, err)
	require.Equal(t, want, strings.Contains(api, `"health":"given_up"`))
	require.Equal(t, want, strings.Contains(api, `"givenUp":"it took more of a CPU`))
	page, err := s.p.Get(t.Context(), "/rules/ChaosCostly")
	require.NoError(t, err)
	require.Equal(t, want, strings.Contains(page, "no longer evaluated: it took more of a CPU"))
}
