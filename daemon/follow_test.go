package daemon

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/daemon/config"
	"crowsnest/test/packregistry"
	"crowsnest/test/rulefolder"
	"crowsnest/web"
)

// flotilla is an aggregator and two agents that fetch the same artifact.
type flotilla struct {
	*ship
	publisher
	agents []*ship
	first  string // pack of version 1.0.0, which is in force
	// withAgents configures the aggregator without the artifact.
	withAgents func(*config.Config)
}

// newFlotilla starts a flotilla in which a version counts after a time.
func newFlotilla(t *testing.T, after time.Duration) *flotilla {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	f := &flotilla{publisher: newPublisher(t), first: rulefolder.Pack("b", "B", "text of b")}
	aggregator, address := newAggregator(t)
	f.ship, f.withAgents = aggregator, aggregator.cfg
	entry := f.entry(&config.Shadow{For: after})
	with := func(s *ship) {
		before := s.cfg
		s.cfg = func(c *config.Config) { before(c); entry(c) }
		s.grace = time.Second
	}
	with(aggregator)
	f.publish("1.0.0", f.first, f.key.PrivateKey)
	aggregator.start()
	for _, node := range []string{"n1", "n2"} {
		agent := newAgentOf(t, address.String(), node)
		with(agent)
		agent.start()
		f.agents = append(f.agents, agent)
	}
	for _, s := range f.all() {
		s.hasVersion("1.0.0")
	}
	return f
}

func (f *flotilla) all() []*ship { return append([]*ship{f.ship}, f.agents...) }

// hasVersion waits until a version is in force.
func (s *ship) hasVersion(version string) {
	s.t.Helper()
	s.eventually(func() bool { return s.version() == version && s.d.pipe.Rules().Rule("B") != nil }, version+" is in force")
}

// shadowNow returns the shadow of a process as the API shows it; the zero value if there
// is none.
func (s *ship) shadowNow() web.Shadow {
	s.t.Helper()
	_, body := s.get("/api/v1/status/shadow")
	var got struct{ Data struct{ Shadow web.Shadow } }
	require.NoError(s.t, json.Unmarshal([]byte(body), &got), body)
	return got.Data.Shadow
}

// compares waits until all processes evaluate a version and it is compared.
func (f *flotilla) compares(digest string) {
	f.ship.t.Helper()
	for _, s := range f.all() {
		s.eventually(func() bool { return s.shadowNow().Digest == digest }, "the version is evaluated")
	}
	f.eventually(func() bool { return !f.shadowNow().Until.IsZero() }, "it is compared")
}

// fires waits until an alert of a namespace is notified.
func (f *flotilla) fires(namespace string) {
	f.ship.t.Helper()
	f.eventually(func() bool {
		_, body := f.get("/api/v1/alerts")
		return strings.Contains(body, `"namespace":"`+namespace+`"`)
	}, namespace)
}

// more fires on more lines than the first version, same on the same.
func (f *flotilla) more() string {
	return strings.ReplaceAll(f.first, `match: "text of b"`, "match: text")
}

func (f *flotilla) same() string {
	return strings.ReplaceAll(f.first, `match: "text of b"`, "match: {contains: [text of, b]}")
}

// Agents match both versions, and the aggregator promotes one that fires the same alerts.
func TestFleetPromotes(t *testing.T) {
	f := newFlotilla(t, 3*time.Second)
	digest := f.publish("1.1.0", f.same(), f.key.PrivateKey)
	f.compares(digest)
	f.agents[0].log("team-1/vc-0", "text of b")
	f.agents[1].log("team-2/vc-0", "text of b")
	f.fires("team-1")
	f.fires("team-2")
	f.eventually(func() bool {
		sh := f.ship.d.pipe.shadow.Load()
		return sh == nil || len(sh.Engine().Episodes(time.Now())) == 2
	}, "the new version fires the same")
	for _, s := range f.all() {
		s.hasVersion("1.1.0")
		s.eventually(func() bool { return s.shadowNow().Digest == "" }, "nothing is evaluated beside it")
	}
}

// A version that fires more is refused, with the numbers, and stays refused when an agent
// or the aggregator is killed.
func TestFleetRefuses(t *testing.T) {
	f := newFlotilla(t, time.Hour)
	digest := f.publish("1.1.0", f.more(), f.key.PrivateKey)
	f.compares(digest)
	f.agents[1].log("team-2/vc-0", "some text")
	f.refused("1 alerts differ, more than the budget of 0: B (1 only in the new version, 0 only in the one in force)")
	for _, agent := range f.agents {
		agent.eventually(func() bool { return agent.shadowNow().Digest == "" }, "agents stop to match it")
		code, body := agent.do(http.MethodPost, "/-/promote?digest="+digest)
		require.Equal(t, http.StatusBadRequest, code, body)
	}
	require.Empty(t, f.am.firing("B"), "nobody is notified")
	for _, s := range f.all() {
		s.stop()
		s.start()
		s.hasVersion("1.0.0")
	}
	f.refused("1 alerts differ")
	require.Equal(t, digest, f.shadowNow().Digest)
	require.True(t, f.shadowNow().Until.IsZero(), "its time is over")

	code, body := f.do(http.MethodPost, "/-/promote?digest="+digest)
	require.Equal(t, http.StatusOK, code, body)
	for _, s := range f.all() {
		s.hasVersion("1.1.0")
	}
}

// While an agent cannot verify the new version, nothing is compared, and the page says
// which node it is. Its lines meanwhile are no differences.
func TestFleetWaitsForAnAgent(t *testing.T) {
	f := newFlotilla(t, time.Hour)
	key, err := os.ReadFile(f.key.Public)
	require.NoError(t, err)
	n2 := f.agents[1]
	keys := filepath.Join(n2.dir, "packs.pub")
	rekey := func(from string) {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(keys, text, 0o600))
	}
	rekey(f.key.Public)
	before := n2.cfg
	n2.stop()
	n2.cfg = func(c *config.Config) { before(c); c.Rules.Artifacts[0].PublicKeyFile = keys }
	n2.start()
	n2.eventually(func() bool {
		_, body := f.get("/metrics")
		return strings.Contains(body, `crowsnest_agent_up{node="n2",source="agents"} 1`)
	}, "it is back")
	n2.eventually(n2.d.artifacts.Verified, "it has verified the version in force")
	rekey(packregistry.NewKey(t).Public)

	digest := f.publish("1.1.0", f.same(), f.key.PrivateKey)
	f.eventually(func() bool {
		sh := f.shadowNow()
		return sh.Digest == digest && len(sh.Nodes) == 1 && strings.Contains(sh.Nodes["n2"], "none was made with the given public key")
	}, "it waits for n2")
	sh := f.shadowNow()
	require.Contains(t, sh.Waiting, "node n2: its agent reports: ")
	require.Zero(t, sh.Compared)
	require.True(t, sh.Until.IsZero())
	_, page := f.get("/status")
	require.Contains(t, page, "node n2: its agent reports: ")
	n2.log("team-2/vc-0", "text of b")
	f.fires("team-2")

	require.NoError(t, os.WriteFile(keys, key, 0o600))
	f.compares(digest)
	require.Equal(t, 1, f.shadowNow().Uncompared, "the alert that was open when the comparison began")
	require.Zero(t, f.shadowNow().Differences)
}

// A restart of an agent interrupts the comparison, and causes no differences. Changed
// rules begin it again.
func TestFleetIsInterrupted(t *testing.T) {
	f := newFlotilla(t, time.Hour)
	digest := f.publish("1.1.0", f.same(), f.key.PrivateKey)
	f.compares(digest)
	began := f.shadowNow().Began
	n1 := f.agents[0]
	n1.stop()
	for _, pod := range []string{"team-1/vc-0", "team-1/vc-1", "team-3/vc-0"} {
		n1.log(pod, "text of b")
	}
	n1.start()
	f.fires("team-1")
	f.fires("team-3")
	f.compares(digest)
	n1.log("team-4/vc-0", "text of b")
	f.fires("team-4")
	f.eventually(func() bool {
		sh := f.ship.d.pipe.shadow.Load()
		return sh != nil && len(sh.Engine().Episodes(time.Now())) > 0
	}, "the new version fires as well")
	f.eventually(func() bool { return f.shadowNow().Compared >= time.Second }, "the clock runs")
	sh := f.shadowNow()
	require.Zero(t, sh.Differences)
	require.Empty(t, sh.Refused)
	require.Equal(t, began, sh.Began, "it is the same shadow")

	f.rules.Write("c.yaml", rulefolder.Pack("c", "C", "text of c"))
	f.eventually(func() bool { return f.shadowNow().Began.After(began) }, "the aggregator begins again")
	f.compares(digest)
	for _, agent := range f.agents {
		agent.rules.Write("c.yaml", rulefolder.Pack("c", "C", "text of c"))
	}
	f.eventually(func() bool { return f.agents[1].d.pipe.Rules().Rule("C") != nil }, "agents have the rule")
	f.compares(digest)
	f.agents[1].log("team-5/vc-0", "text of c")
	f.fires("team-5")
	require.Zero(t, f.shadowNow().Differences)
}

// An agent that states no version, like an older one, is waited for; an agent whose
// aggregator states none keeps the version in force.
func TestFleetNeedsBothSides(t *testing.T) {
	f := newFlotilla(t, time.Hour)
	n1 := f.agents[0]
	before := n1.cfg
	n1.stop()
	n1.cfg = func(c *config.Config) { before(c); c.Rules.Artifacts = nil }
	n1.start()
	digest := f.publish("1.1.0", f.same(), f.key.PrivateKey)
	f.eventually(func() bool {
		return strings.Contains(f.shadowNow().Nodes["n1"], "update the agent, or give it the same entry")
	}, "it waits")
	n1.stop()
	n1.cfg = before
	n1.start()
	f.compares(digest)

	f.stop()
	f.cfg = f.withAgents
	f.start()
	n1.eventually(func() bool {
		_, body := n1.get("/api/v1/status/shadow")
		return strings.Contains(body, `"shadow":null`)
	}, "the agent matches nothing beside")
	n1.hasVersion("1.0.0")
}
