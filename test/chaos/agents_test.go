package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
)

// fleet is an aggregator and its agents, each with the logs of its own node.
type fleet struct {
	t      *testing.T
	dir    string
	agg    *process
	agents []*process
	pods   []string // folders
	good   *fakeam.Server
	pager  *pager // nil: none
}

const aggregatorConfig = `global: {blind_after: %s}
rules: {shipped: false, paths: [%s]}
sources:
  agents: {listen_address: "%s", lateness: %s}
sinks:
  alertmanager: {urls: [%s], resend_delay: 5s, min_firing: 2s}
limits: {active_alerts: 10000}
`

const agentConfig = `rules: {shipped: false, paths: [%s]}
sources:
  kubelet: {dir: %s}
sinks:
  upstream: {url: "http://%s", node: n%d}
`

// newFleet prepares n agents and their aggregator without starting them.
func newFleet(t *testing.T, n int, rules string, lateness, blind time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: folder(t), good: serve(t)}
	file := filepath.Join(f.dir, "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	urls := []string{f.good.URL}
	if f.pager = newPager(t, f.dir); f.pager != nil {
		urls = append(urls, f.pager.am.URL)
	}
	listen := freeAddr(t)
	own := func(name string) string {
		dir := filepath.Join(f.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "pods"), 0o755))
		return dir
	}
	f.agg = newProcess(t, own("aggregator"), fmt.Sprintf(aggregatorConfig, blind, file, listen, lateness, `"`+strings.Join(urls, `", "`)+`"`))
	for i := range n {
		dir := own(fmt.Sprintf("n%d", i))
		f.pods = append(f.pods, filepath.Join(dir, "pods"))
		f.agents = append(f.agents, newProcess(t, dir, fmt.Sprintf(agentConfig, file, f.pods[i], listen, i)))
	}
	return f
}

func (f *fleet) start() {
	f.agg.start()
	for _, a := range f.agents {
		a.start()
	}
	f.agg.ready()
	for _, a := range f.agents {
		a.ready()
	}
}

// pod creates a container on a node.
func (f *fleet) pod(node int, name string) *kubesim.Container {
	return kubesim.New(kubesim.Options{Root: f.pods[node], Namespace: "chaos", Pod: name, Container: "chaos"})
}

const fleetRules = `pack: {name: fleet, version: "1.0.0", rules: 2}
rules:
- alert: Lost
  from: '{container="chaos"}'
  match: {regex: 'lease lost id=(?P<id>[a-z0-9-]+)'}
  clear: {regex: 'lease taken id=(?P<id>[a-z0-9-]+)'}
  for: 2s
  by: [id]
  severity: warning
- alert: Everywhere
  from: '{container="chaos"}'
  match: {regex: 'cannot reach id=(?P<id>[a-z0-9-]+)'}
  count: 3
  distinct: pod
  within: 1h
  by: [id]
  severity: warning
`

// The aggregator concludes once what no node can decide alone.
func TestAgents(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, fleetRules, 2*time.Second, 6*time.Second)
	f.start()
	pods := []*kubesim.Container{f.pod(0, "p0"), f.pod(1, "p1"), f.pod(2, "p2")}
	notified := func(key string) bool { h := hear(f.good.AM)[key]; return h != nil && !h.firing.IsZero() }

	pods[0].Write("stderr", "lease lost id=a")
	pods[1].Write("stderr", "lease taken id=a")
	pods[0].Write("stderr", "lease lost id=b")
	for _, p := range pods {
		p.Write("stderr", "cannot reach id=x")
	}
	eventually(t, 20*time.Second, "a threshold over three nodes", func() bool { return notified("Everywhere x") })
	eventually(t, 20*time.Second, "the missing recovery", func() bool { return notified("Lost b") })
	pods[2].Write("stderr", "lease taken id=b")
	eventually(t, 20*time.Second, "the recovery on another node", func() bool { return hear(f.good.AM)["Lost b"].states == "firing resolved" })

	// An agent is down, so it is unknown whether its node logged the recovery.
	f.agents[2].kill()
	pods[0].Write("stderr", "lease lost id=c")
	pods[0].Write("stderr", "lease lost id=d")
	pods[2].Write("stderr", "lease taken id=c")
	eventually(t, 30*time.Second, "it is said that it is blind", func() bool { return notified("CrowsnestBlind agents/n2") })
	eventually(t, 50*time.Second, "what depends on it is held", func() bool { return f.agg.newest()[`crowsnest_rule_held{rule="Lost"}`] == 1 })
	require.False(t, notified("Lost c"))
	require.False(t, notified("Lost d"))
	pods[1].Write("stderr", "cannot reach id=y")
	pods[0].Write("stderr", "cannot reach id=y")
	f.agents[2].start()
	eventually(t, 20*time.Second, "the agent is back", func() bool { return hear(f.good.AM)["CrowsnestBlind agents/n2"].states == "firing resolved" })
	eventually(t, 20*time.Second, "the recovery was missing", func() bool { return notified("Lost d") })
	require.False(t, notified("Lost c"), "the recovery was on the node that was gone")
	pods[2].Write("stderr", "cannot reach id=y")
	eventually(t, 20*time.Second, "the threshold over a restart", func() bool { return notified("Everywhere y") })
	require.False(t, notified("Lost a"))
	m := f.agg.newest()
	require.Equal(t, 1.0, m[`crowsnest_agent_up{node="n1",source="agents"}`])
	require.Zero(t, m[`crowsnest_agents_gaps_total{source="agents"}`])

	// Two agents with one name.
	second := newProcess(t, f.dir, strings.Replace(readConfig(t, f.agents[2]), "node: n2", "node: n1", 1))
	second.start()
	eventually(t, 20*time.Second, "the second is refused", func() bool { return second.newest()["crowsnest_upstream_refused"] == 1 })
	eventually(t, 20*time.Second, "and people are notified", func() bool { return notified("CrowsnestAgentRefused agents/n1") })
	body, err := second.Get(t.Context(), "/-/ready")
	require.NoError(t, err, "a restart would not help")
	require.Contains(t, body, "another agent with the name of this node")
	second.kill()
	for _, a := range f.agents {
		a.term()
	}
	f.agg.term()
	if f.pager != nil {
		require.Equal(t, "firing resolved", f.pager.hook.States()["Lost b"])
		require.Equal(t, "firing", f.pager.hook.States()["Lost d"])
	}
}

func readConfig(t *testing.T, p *process) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Dir, "crowsnest.yml"))
	require.NoError(t, err)
	return string(b)
}

// The aggregator and agents are killed repeatedly: nothing is lost or notified
// twice.
func TestAgentsKilled(t *testing.T) {
	t.Parallel()
	kills := 5
	l := load{perSecond: 250, pad: 180, maxSize: 1 << 20, planted: 500, period: 1000, recovery: 24 * time.Second}
	if long {
		kills = 50
		l.planted, l.period = 2000, 4000
	}
	n := seed(t)
	rules, err := os.ReadFile("testdata/chaos.yaml")
	require.NoError(t, err)
	f := newFleet(t, 3, string(rules), 10*time.Second, 5*time.Minute)
	s := &scene{t: t, dir: f.agg.Dir, led: newLedger(), p: f.agg, good: f.good, bad: f.good, pager: f.pager, heal: func() {}, began: time.Now()}
	f.start()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	s.wait = func() { cancel(); wg.Wait() }
	t.Cleanup(s.wait)
	for i, dir := range f.pods {
		w := newWriter(dir, fmt.Sprintf("w%d", i), l, s.led, n*1000+uint64(i))
		s.writers = append(s.writers, w)
		wg.Go(func() { w.run(ctx) })
	}
	rng := rand.New(rand.NewPCG(n, 2))
	some := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	for i := range kills {
		pause(2*time.Second + some(2*time.Second))
		f.agg.kill()
		victim := f.agents[rng.IntN(len(f.agents))]
		switch i % 4 {
		case 1:
			victim.kill()
		case 3:
			victim.term()
		}
		pause(some(1500 * time.Millisecond))
		f.agg.start()
		if i%2 == 1 {
			victim.start()
		}
		pause(some(time.Second))
		if i%3 == 2 {
			f.agents[0].kill()
			f.agents[0].start()
		}
	}
	f.agg.ready()
	good, _ := s.settle(90*time.Second, nil)
	s.judge(good, good, nil)
	s.report(good, good)
	m, err := f.agg.Metrics(t.Context())
	require.NoError(t, err)
	require.Zero(t, m[`crowsnest_agents_gaps_total{source="agents"}`])
	again := []time.Duration{}
	for i, a := range f.agents {
		a.term()
		a.mu.Lock()
		again = append(again, a.repeats...)
		t.Logf("agent n%d: %d starts, VmHWM %.1f MiB, SIGTERM to exit %s", i, a.starts, float64(a.hwm)/1024, percentiles(sorted(a.exits)))
		a.mu.Unlock()
	}
	t.Logf("agents: read again after SIGKILL: %s", percentiles(sorted(again)))
	t.Logf("aggregator: hits %v, batches %v, repeated batches %v", m[`crowsnest_agents_hits_total{source="agents"}`],
		m[`crowsnest_agents_batches_total{source="agents"}`], m[`crowsnest_agents_repeated_batches_total{source="agents"}`])
}

const floodedRules = `pack: {name: flooded, version: "1.0.0", rules: 2}
rules:
- alert: Each
  from: '{container="chaos"}'
  match: {regex: 'flood of id=(?P<id>[a-z0-9-]+)'}
  count: 2
  within: 1h
  by: [id]
  severity: info
- alert: Lines
  from: '{container="chaos"}'
  match: "flood of"
  by: [pod]
  keep_firing_for: 1h
  severity: info
  annotations: {lines: "{{ $value }}"}
`

// The aggregator is down while an agent finds more than it keeps: the agent
// stops reading, stays small, reloads and stops in time, and afterwards
// everything is counted once.
func TestAgentsWithoutAggregator(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, floodedRules, 10*time.Second, 5*time.Minute)
	agent, pod := f.agents[0], f.pod(0, "p0")
	const lines = 200_000
	rng := rand.New(rand.NewPCG(seed(t), 3))
	var block strings.Builder
	for range lines {
		fmt.Fprintf(&block, "%s stderr F flood of id=%016x%016x\n", pod.Stamp(), rng.Uint64(), rng.Uint64())
	}
	pod.Raw(block.String())
	require.NoError(t, pod.Err)
	agent.start()
	eventually(t, 60*time.Second, "reading stops", func() bool { return agent.newest()["crowsnest_upstream_blocked"] == 1 })
	body, err := agent.Get(t.Context(), "/-/ready")
	require.NoError(t, err, "it does its part")
	require.Contains(t, body, "the aggregator cannot be reached")
	err = agent.Reload(t.Context())
	require.NoError(t, err, "a reload does not wait for the aggregator")
	_, err = agent.Get(t.Context(), "/-/healthy")
	require.NoError(t, err)
	m, err := agent.Metrics(t.Context())
	require.NoError(t, err)
	t.Logf("kept: %.0f bytes in %.0f batches", m["crowsnest_upstream_unacked_bytes"], m["crowsnest_upstream_unacked_batches"])
	require.Less(t, m["crowsnest_upstream_unacked_bytes"], float64(10<<20))
	agent.term()
	agent.start()
	eventually(t, 60*time.Second, "reading stops again", func() bool { return agent.newest()["crowsnest_upstream_blocked"] == 1 })
	f.agg.start()
	notified := func() int64 {
		if h := hear(f.good.AM)["Lines "]; h != nil {
			return h.lines
		}
		return 0
	}
	eventually(t, 120*time.Second, "all lines are counted", func() bool { return notified() >= lines })
	require.Equal(t, int64(lines), notified())
	agent.term()
	agent.mu.Lock()
	defer agent.mu.Unlock()
	t.Logf("SIGTERM to exit: %v; VmHWM of the agent %.1f MiB", agent.exits, float64(agent.hwm)/1024)
	require.LessOrEqual(t, agent.exits[0], 5*time.Second)
	require.LessOrEqual(t, float64(agent.hwm)/1024, 128.0, "MiB")
}
