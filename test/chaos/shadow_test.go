package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/artifact"
	"crowsnest/rules"
	"crowsnest/test/kubesim"
	"crowsnest/test/packregistry"
)

// leasePack has the rule Lost with one change.
func leasePack(change string) string {
	return `pack: {name: leases, version: "1.0.0", rules: 1}
rules:
- alert: Lost
  from: '{container="chaos"}'
  match: {regex: 'lease lost id=(?P<id>[a-z0-9-]` + change + `
  by: [id]
  severity: warning
  tests:
  - name: two
    stream: {namespace: a, pod: p, container: chaos}
    input: [{at: 0s, line: "lease lost id=a"}, {at: 1s, line: "lease lost id=a"}]
    expect: [{at: 5s, firing: [{alertname: Lost, id: a}]}]
`
}

// packs publishes versions of an artifact.
type packs struct {
	t *testing.T
	*packregistry.Registry
	key packregistry.Key
}

func (p packs) publish(version, text string) string {
	p.t.Helper()
	a, err := artifact.New([]rules.File{{Name: "leases.yaml", Data: []byte(text)}}, artifact.Info{Title: "leases", Version: version})
	require.NoError(p.t, err)
	ref, err := artifact.ParseReference(p.Host + "/team/leases:" + version)
	require.NoError(p.t, err)
	r, err := artifact.Open(ref, artifact.Options{PlainHTTP: true})
	require.NoError(p.t, err)
	defer r.Close()
	require.NoError(p.t, r.Push(p.t.Context(), a))
	require.NoError(p.t, r.Sign(p.t.Context(), a, p.key.PrivateKey))
	require.NoError(p.t, r.Push(p.t.Context(), a, "stable"))
	return a.Digest
}

// says waits until an answer of a process contains a text.
func (p *process) says(path, text string) {
	p.t.Helper()
	eventually(p.t, time.Minute, path+" contains "+text, func() bool {
		body, err := p.Get(p.t.Context(), path)
		return err == nil && strings.Contains(body, text)
	})
}

// A shadow outlives kills of agents and of the aggregator: a version that fires the same
// alerts has no differences, and one that does not is refused for good.
func TestShadowBehindAgents(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, fleetRules, 2*time.Second, time.Minute)
	p := packs{t, packregistry.Start(t), packregistry.NewKey(t)}
	entry := fmt.Sprintf("rules: {shipped: false, artifacts: [{reference: %s/team/leases:stable, public_key_file: %s, plain_http: true, interval: 10s, shadow: {for: 1h}}]}\n", p.Host, p.key.Public)
	for _, x := range append(f.agents, f.agg) {
		config := readConfig(t, x)
		i := strings.Index(config, "rules:")
		end := i + strings.Index(config[i:], "\n") + 1
		require.NoError(t, x.Configure(config[:i]+entry+config[end:]))
	}
	p.publish("1.0.0", leasePack("+)'}"))
	f.agg.start()
	for _, a := range f.agents {
		a.start()
	}
	for _, x := range append(f.agents, f.agg) {
		x.says("/api/v1/rules", `"Lost"`)
	}
	notified := func(key string) bool { h := hear(f.good.AM)[key]; return h != nil && !h.firing.IsZero() }
	pods := []*kubesim.Container{f.pod(0, "p0"), f.pod(1, "p1")}
	loses := func(node int, id string) {
		t.Helper()
		pods[node].Write("stderr", "lease lost id="+id)
		pods[node].Write("stderr", "lease lost id="+id)
	}
	told := func(id string) {
		t.Helper()
		eventually(t, 30*time.Second, id+" is notified", func() bool { return notified("Lost " + id) })
	}
	compared := func(digest string) {
		t.Helper()
		f.agg.says("/api/v1/status/shadow", digest)
		f.agg.says("/api/v1/status/shadow", `"until":`)
	}

	same := p.publish("1.1.0", leasePack("{1,})'}"))
	compared(same)
	loses(0, "a")
	told("a")
	f.agents[0].kill()
	loses(0, "b") // read by the next process, before it has the new version
	loses(1, "c")
	f.agents[0].start()
	told("b")
	told("c")
	compared(same)
	f.agg.kill()
	loses(1, "d")
	f.agg.start()
	told("d")
	compared(same)
	loses(0, "e")
	told("e")
	f.agents[1].kill()
	f.agg.kill()
	loses(1, "g")
	f.agents[1].start()
	f.agg.start()
	told("g")
	compared(same)

	// The next version needs three lines in place of one.
	worse := p.publish("1.2.0", strings.Replace(leasePack("+)'}\n  count: 3\n  within: 1m"), "input: [", `input: [{at: 2s, line: "lease lost id=a"}, `, 1))
	compared(worse)
	require.False(t, notified("CrowsnestPackBroken"), "there were no differences before")
	loses(0, "f")
	told("f")
	refused := "1 alerts differ, more than the budget of 0: Lost (0 only in the new version, 1 only in the one in force)"
	f.agg.says("/api/v1/status/shadow", refused)
	for _, x := range append(f.agents, f.agg) {
		x.kill()
		x.start()
	}
	f.agg.says("/api/v1/status/shadow", refused)
	f.agg.says("/api/v1/status/shadow", worse)
	for _, a := range f.agents {
		a.says("/api/v1/status/shadow", `"shadow":null`)
		a.term()
	}
	f.agg.term()
}
