package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/episodes"
	"crowsnest/rules"
	"crowsnest/test/rulefolder"
)

// rulesOf returns the rules of a pack.
func rulesOf(t *testing.T, pack string) *rules.Set {
	t.Helper()
	set, err := loader.Check([]rules.File{{Name: "a.yaml", Data: []byte(pack)}})
	require.NoError(t, err)
	return set
}

// What a shadow counts, on a clock of its own.
type tally struct {
	*shadow
	rule *rules.Rule
	now  time.Time
}

func newTally(t *testing.T, budget int) *tally {
	set := rulesOf(t, rulefolder.Pack("b", "B", "text of b"))
	rs, err := newRuleset(set)
	require.NoError(t, err)
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	return &tally{&shadow{
		artifact: &config.Artifact{Shadow: &config.Shadow{For: time.Hour, Budget: budget}}, began: began, rules: rs,
		engine: episodes.New(episodes.Config{}), guard: newCostGuard(0), grace: shadowGrace, judged: map[string]bool{"B": true},
		alerts: map[episodes.Fingerprint]*compared{}, open: map[episodes.Fingerprint]bool{},
	}, set.Rules[0], began}
}

// fires reports an alert of one version, which started at a time after the beginning.
func (c *tally) fires(next bool, fp episodes.Fingerprint, at time.Duration, state episodes.State) {
	c.count([]episodes.Episode{{Fingerprint: fp, Rule: c.rule, Alert: c.rule.Alert, State: state, StartsAt: c.began.Add(at)}}, next, c.now)
}

func (c *tally) require(t *testing.T, after time.Duration, refused string, over bool) {
	t.Helper()
	c.now = c.began.Add(after)
	why, done := c.judge(c.now)
	require.Equal(t, refused, why)
	require.Equal(t, over, done)
}

func TestShadowCountsLastingDifferences(t *testing.T) {
	c := newTally(t, 1)
	c.fires(false, 1, 0, episodes.StateFiring)
	c.require(t, 20*time.Second, "", false)
	c.fires(true, 1, 0, episodes.StateFiring) // later, but in time
	c.fires(true, 1, 0, episodes.StateFiring) // it merely continues
	c.require(t, 10*time.Minute, "", false)
	c.fires(true, 2, 10*time.Minute, episodes.StateFiring)
	c.require(t, 20*time.Minute, "", false)
	c.fires(true, 1, 20*time.Minute, episodes.StateFiring) // once more than the version in force
	c.require(t, 20*time.Minute+29*time.Second, "", false)
	c.require(t, 20*time.Minute+30*time.Second, "2 alerts differ, more than the budget of 1: B (2 only in the new version, 0 only in the one in force)", false)
}

// A version is not promoted while fresh differences may exceed the budget.
func TestShadowWaitsForFreshDifferences(t *testing.T) {
	c := newTally(t, 0)
	c.require(t, 59*time.Minute+50*time.Second, "", false)
	c.fires(false, 1, 0, episodes.StateFiring)
	c.require(t, time.Hour, "", false)
	c.fires(true, 1, 0, episodes.StateFiring)
	c.require(t, time.Hour, "", true)
}

// Alerts that were open before are not compared until they end.
func TestShadowIgnoresOpenAlerts(t *testing.T) {
	c := newTally(t, 0)
	c.open[1] = true
	c.fires(false, 1, 0, episodes.StateFiring)
	c.require(t, time.Hour, "", true)
	c.fires(false, 1, 0, episodes.StateResolved)
	c.fires(false, 1, time.Hour, episodes.StateFiring)
	c.require(t, time.Hour+time.Minute, "1 alerts differ, more than the budget of 0: B (0 only in the new version, 1 only in the one in force)", false)
}

func TestShadowComparesBoundedAlerts(t *testing.T) {
	c := newTally(t, 100_000)
	for i := range maxShadowAlerts + 1 {
		c.fires(true, episodes.Fingerprint(i), 0, episodes.StateFiring)
	}
	c.require(t, time.Minute, "more than 10000 alerts would have to be compared", false)
	require.Len(t, c.alerts, maxShadowAlerts)
}

func TestDifferingRules(t *testing.T) {
	base := rulefolder.Pack("b", "B", "text of b")
	f := func(want bool, change string) {
		t.Helper()
		require.Equal(t, want, differing(rulesOf(t, base), rulesOf(t, change))["B"])
	}
	f(false, base)
	f(false, base+"  annotations: {summary: another text}\n")
	f(true, base+"  labels: {team: b}\n")
	f(true, base+"  origin: infrastructure\n")
	f(true, base+"  enabled: silent\n")
	f(true, rulefolder.Pack("b", "B", "text of"))
	f(true, rulefolder.Pack("c", "C", "text of b"))
}
