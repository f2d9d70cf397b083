package packs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/loader"
	"crowsnest/episodes"
	"crowsnest/rules"
	"crowsnest/sources/agents"
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
	*Shadow
	rule *rules.Rule
	now  time.Time
}

func newTally(t *testing.T, budget int) *tally {
	set := rulesOf(t, rulefolder.Pack("b", "B", "text of b"))
	rs, err := inforce.New(set)
	require.NoError(t, err)
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	c := &tally{&Shadow{
		artifact: &config.Artifact{Shadow: &config.Shadow{For: time.Hour, Budget: budget}}, began: began, rules: rs,
		guard: inforce.NewGuard(0), judged: map[string]bool{"B": true}, comparison: newComparison(shadowGrace),
	}, set.Rules[0], began}
	c.engine.Store(episodes.New(episodes.Config{}))
	c.begin(map[episodes.Fingerprint]bool{}, began, began)
	return c
}

// fires reports an alert of one version, which started at a time after the beginning.
func (c *tally) fires(next bool, fp episodes.Fingerprint, at time.Duration, state episodes.State) {
	c.count([]episodes.Episode{{Fingerprint: fp, Rule: c.rule, Alert: c.rule.Alert, State: state, StartsAt: c.began.Add(at)}}, c.judged, next, c.now)
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
	c.fires(true, 1, time.Minute, episodes.StateFiring) // the new version opens it later
	c.require(t, time.Hour+time.Minute, "", true)
	c.fires(true, 1, time.Minute, episodes.StateResolved)
	c.fires(false, 1, 0, episodes.StateResolved)
	c.fires(false, 1, time.Hour, episodes.StateFiring)
	c.require(t, time.Hour+2*time.Minute, "1 alerts differ, more than the budget of 0: B (0 only in the new version, 1 only in the one in force)", false)
}

func TestShadowComparesBoundedAlerts(t *testing.T) {
	c := newTally(t, 100_000)
	for i := range maxShadowAlerts + 1 {
		c.fires(true, episodes.Fingerprint(i), 0, episodes.StateFiring)
	}
	c.require(t, time.Minute, "more than 10000 alerts would have to be compared", false)
	require.Len(t, c.alerts, maxShadowAlerts)
}

// While some node does not match the new version, the clock stops, and alerts that have
// lines from that time are not compared.
func TestShadowWaitsForNodes(t *testing.T) {
	c := newTally(t, 0)
	lost := agents.Coverage{Waiting: map[string]string{"n1": "its agent has no such version"}}
	c.now = c.began.Add(10 * time.Minute)
	c.fires(false, 1, 5*time.Minute, episodes.StateFiring)
	c.fires(true, 1, 5*time.Minute, episodes.StateFiring)
	c.fires(false, 2, 10*time.Minute, episodes.StateFiring) // the agent may have ended before it sent more
	require.False(t, c.Cover(lost, c.now.Add(shadowGrace-1)))
	c.now = c.began.Add(70 * time.Minute)
	c.fires(false, 3, 65*time.Minute, episodes.StateFiring)
	c.require(t, 70*time.Minute, "", false)
	p := c.progress(c.judged, c.now)
	require.Equal(t, "node n1: its agent has no such version", p.waits())
	require.Equal(t, 10*time.Minute+shadowGrace-1, p.ran)

	require.True(t, c.Cover(agents.Coverage{}, c.now))
	c.begin(map[episodes.Fingerprint]bool{3: true}, c.now, c.now)
	c.fires(false, 4, 70*time.Minute-1, episodes.StateFiring) // a line from before
	c.fires(true, 5, 70*time.Minute-1, episodes.StateFiring)
	c.require(t, 119*time.Minute, "", false)
	c.require(t, 2*time.Hour, "", true)

	// A node that came back so soon that nobody noticed is a gap as well.
	require.False(t, c.Cover(agents.Coverage{Since: c.began}, c.now))
	require.True(t, c.Cover(agents.Coverage{Since: c.now}, c.now))
	c.begin(map[episodes.Fingerprint]bool{}, c.now, c.now)
	c.fires(false, 4, 2*time.Hour, episodes.StateFiring)
	c.require(t, 2*time.Hour+shadowGrace, "1 alerts differ, more than the budget of 0: B (0 only in the new version, 1 only in the one in force)", false)
}

// The lines that count towards an alert of a rule with a window are older than its start.
func TestShadowSkipsAlertsWithOlderLines(t *testing.T) {
	c := newTally(t, 0)
	c.next = &artifact.Artifact{}
	within := *c.rule
	within.Within = 5 * time.Minute
	c.rule = &within
	c.fires(true, 1, 5*time.Minute-1, episodes.StateFiring)
	c.fires(true, 1, 5*time.Minute-1, episodes.StateResolved)
	c.require(t, time.Hour, "", false) // nothing is known about the rule
	require.Equal(t, 1, c.progress(c.judged, c.now).uncompared)
	require.Equal(t, "no alert of these rules could be compared yet: B", c.view(c.now).Waiting)
	c.fires(true, 1, 5*time.Minute, episodes.StateFiring)
	c.require(t, 2*time.Hour, "1 alerts differ, more than the budget of 0: B (1 only in the new version, 0 only in the one in force)", false)
}

// An agent that finds a rule too costly refuses for all.
func TestShadowIsRefusedByANode(t *testing.T) {
	c := newTally(t, 0)
	c.Cover(agents.Coverage{Refused: "node n1 reports: rule B takes 0.50 of a CPU"}, c.began)
	c.require(t, time.Minute, "node n1 reports: rule B takes 0.50 of a CPU", false)
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
