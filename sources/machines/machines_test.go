package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// cluster is an API server with nodes and Machines.
type cluster struct {
	mu       sync.Mutex
	nodes    []string // NAME or NAME=PROVIDERID
	machines []string // NAMESPACE/CLUSTER/NAME=NODE, with a trailing "!": being deleted
	version  string   // "": no Machines
	fault    int
	asked    []string
}

func (c *cluster) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.Path)
	w := httptest.NewRecorder()
	list := func(items []any) {
		json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}
	switch {
	case c.fault != 0:
		w.WriteHeader(c.fault)
		fmt.Fprintf(w, `{"code":%d,"message":"nodes is forbidden"}`, c.fault)
	case r.URL.Path == "/api/v1/nodes":
		var items []any
		for _, n := range c.nodes {
			name, id, _ := strings.Cut(n, "=")
			id, recorded, _ := strings.Cut(id, "=") // the Machine in the annotations
			id = providerID(id, name)
			namespace, machine, _ := strings.Cut(recorded, "/")
			items = append(items, map[string]any{
				"metadata": map[string]any{"name": name, "annotations": map[string]string{"cluster.x-k8s.io/machine": machine, "cluster.x-k8s.io/cluster-namespace": namespace}},
				"spec":     map[string]any{"providerID": id},
			})
		}
		list(items)
	case c.version == "":
		http.NotFound(w, r)
	case r.URL.Path == "/apis/cluster.x-k8s.io":
		fmt.Fprintf(w, `{"kind":"APIGroup","preferredVersion":{"version":%q}}`, c.version)
	case r.URL.Path == "/apis/cluster.x-k8s.io/"+c.version+"/machines", r.URL.Path == "/apis/cluster.x-k8s.io/"+c.version+"/namespaces/fleet-local/machines":
		var items []any
		for _, m := range c.machines {
			path, node, _ := strings.Cut(m, "=")
			f := strings.Split(path, "/")
			meta := map[string]any{"namespace": f[0], "name": f[2]}
			if n, ok := strings.CutSuffix(node, "!"); ok {
				node, meta["deletionTimestamp"] = n, "2026-11-20T16:00:00Z"
			}
			node, id, _ := strings.Cut(node, "=")
			id = providerID(id, node)
			status := map[string]any{"phase": "Provisioning"}
			if node != "" {
				status = map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": node}}
			}
			if !strings.Contains(r.URL.Path, "/namespaces/") || f[0] == "fleet-local" {
				items = append(items, map[string]any{"metadata": meta, "spec": map[string]any{"clusterName": f[1], "providerID": id}, "status": status})
			}
		}
		list(items)
	default:
		http.NotFound(w, r)
	}
	return w.Result(), nil
}

// providerID returns the ID of a node, unless another one is given; "-" is none.
func providerID(id, node string) string {
	switch id {
	case "":
		return "cloud://" + node
	case "-":
		return ""
	}
	return id
}

// pipe stores lines.
type pipe struct {
	sources.Pipeline
	mu        sync.Mutex
	lines     []string
	watermark time.Time
}

func (p *pipe) Match(_ *matcher.Stream, rec matcher.Record, commit func()) {
	p.mu.Lock()
	p.lines = append(p.lines, string(rec.Text))
	p.mu.Unlock()
	commit()
}

func (p *pipe) AdvanceWatermark(_ string, at time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = at
}

func (p *pipe) provedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watermark
}

func (p *pipe) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.lines
	p.lines = nil
	return out
}

// inBubble runs a source in virtual time while f observes it.
func inBubble(t *testing.T, cfg Config, c *cluster, f func(s *Source, p *pipe, pass func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Transport = c
		s, p := New(cfg), &pipe{}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, p) }()
		f(s, p, func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // virtual
			synctest.Wait()
		})
		cancel()
		require.NoError(t, <-done)
	})
}

func TestCompares(t *testing.T) {
	f := func(cfg Config, nodes, machines string, want ...string) {
		t.Helper()
		c := &cluster{version: "v1beta2", nodes: strings.Fields(nodes), machines: strings.Fields(machines)}
		inBubble(t, cfg, c, func(s *Source, p *pipe, pass func(time.Duration)) {
			pass(time.Second)
			require.Equal(t, want, p.take())
			require.True(t, s.Status().Up, s.Status().Error)
		})
	}
	f(Config{}, "n1 n2", "fleet-local/local/m1=n1 fleet-local/local/m2=n2",
		`msg="node has a machine" node=n1 machine=fleet-local/m1 cluster=fleet-local/local`,
		`msg="node has a machine" node=n2 machine=fleet-local/m2 cluster=fleet-local/local`,
		`msg="nodes and machines agree" nodes=2 machines=2`)
	f(Config{}, "n1 n2", "fleet-local/local/m1=n1",
		`msg="node has a machine" node=n1 machine=fleet-local/m1 cluster=fleet-local/local`,
		`msg="node has no machine" node=n2`,
		`msg="nodes and machines differ" nodes=2 machines=1 nodes_without_machine=1 machines_without_node=0`)
	f(Config{}, "n1", "a/c/m1=n1 a/c/m2 a/c/m3=away a/c/m4! a/c/m5=!",
		`msg="node has a machine" node=n1 machine=a/m1 cluster=a/c`,
		`msg="machine has no node" machine=a/m2 cluster=a/c phase=Provisioning`,
		`msg="machine has no node" machine=a/m3 cluster=a/c phase=Running`,
		`msg="machine has no node" machine=a/m4! cluster=a/c phase=Provisioning`,
		`msg="nodes and machines differ" nodes=1 machines=5 nodes_without_machine=0 machines_without_node=3`)
	// Machines of other clusters, one of them with a node of the same name.
	f(Config{}, "n1=p1", "a/own/m1=n1=p1 b/other/m2=w1 b/other/m3=n1=p2",
		`msg="node has a machine" node=n1 machine=a/m1 cluster=a/own`,
		`msg="nodes and machines agree" nodes=1 machines=1`)
	f(Config{}, "n1=p1", "b/other/m2=w1 b/other/m3=n1=p2", `msg="no machine belongs to these nodes" nodes=1 machines=2`)
	f(Config{}, "n1", "", `msg="no machine belongs to these nodes" nodes=1 machines=0`)
	f(Config{Namespace: "fleet-local", Cluster: "local"}, "n1", "fleet-local/other/m1=n1 b/other/m2=n1",
		`msg="node has no machine" node=n1`,
		`msg="nodes and machines differ" nodes=1 machines=0 nodes_without_machine=1 machines_without_node=0`)
	f(Config{Cluster: "own"}, "n1", "a/own/m1=n1 b/other/m2=x",
		`msg="node has a machine" node=n1 machine=a/m1 cluster=a/own`,
		`msg="nodes and machines agree" nodes=1 machines=1`)
	// A tenant's Machine names a node that is not its own, with and without the node's ID.
	lacks := []string{
		`msg="node is claimed by other machines" node=n2 machines=2 first=shop/fake`,
		`msg="node has a machine" node=n1 machine=fleet-local/m1 cluster=fleet-local/local`,
		`msg="node has no machine" node=n2`,
		`msg="nodes and machines differ" nodes=2 machines=1 nodes_without_machine=1 machines_without_node=0`,
	}
	f(Config{}, "n1==fleet-local/m1 n2==fleet-local/m2", "fleet-local/local/m1=n1 shop/c/fake=n2=- team/local/m2=n2", lacks...)
	f(Config{Namespace: "fleet-local"}, "n1=- n2=-=/m2", "fleet-local/local/m1=n1=- fleet-local/local/m3=n2=-",
		`msg="node is claimed by other machines" node=n2 machines=1 first=fleet-local/m3`,
		`msg="node has a machine" node=n1 machine=fleet-local/m1 cluster=fleet-local/local`,
		`msg="node has no machine" node=n2`,
		`msg="machine has no node" machine=fleet-local/m3 cluster=fleet-local/local phase=Running`,
		`msg="nodes and machines differ" nodes=2 machines=2 nodes_without_machine=1 machines_without_node=1`)
	f(Config{}, "n1=-", "shop/c/fake=n1=-",
		`msg="node is claimed by other machines" node=n1 machines=1 first=shop/fake`,
		`msg="no machine belongs to these nodes" nodes=1 machines=1`)
}

func TestGone(t *testing.T) {
	c := &cluster{version: "v1beta1", nodes: []string{"n1", "n2"}, machines: []string{"a/c/m1=n1", "a/c/m2"}}
	var saved json.RawMessage
	inBubble(t, Config{}, c, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(time.Second)
		require.Len(t, p.take(), 4)
		saved = s.Positions()
	})
	c.set(func() { c.nodes, c.machines = []string{"n1"}, []string{"a/c/m1=n1", "a/c/m2=!"} })
	synctest.Test(t, func(t *testing.T) {
		s, p := New(Config{Transport: c}), &pipe{}
		require.NoError(t, s.Restore(saved))
		require.NoError(t, s.compare(context.Background(), p))
		require.Equal(t, []string{
			`msg="node has a machine" node=n1 machine=a/m1 cluster=a/c`,
			`msg="node is gone" node=n2`,
			`msg="machine is gone" machine=a/m2`,
			`msg="nodes and machines agree" nodes=1 machines=2`,
		}, p.take())
		require.NoError(t, s.compare(context.Background(), p))
		require.Len(t, p.take(), 2, "it is reported once")
	})
	require.Error(t, New(Config{}).Restore(json.RawMessage("[]")))
	require.NoError(t, New(Config{}).Restore(nil))
}

// TestFailures: one clear error, few requests, no watermark, then recovery.
func TestFailures(t *testing.T) {
	f := func(name string, fault int, version, text string) {
		t.Helper()
		c := &cluster{version: version, nodes: []string{"n1"}, machines: []string{"a/c/m1=n1"}, fault: fault}
		inBubble(t, Config{}, c, func(s *Source, p *pipe, pass func(time.Duration)) {
			pass(time.Minute)
			first := s.Status()
			require.False(t, first.Up, name)
			require.Contains(t, first.Error, text, name)
			asked := len(c.requests())
			pass(30 * time.Minute)
			require.Equal(t, first.Error, s.Status().Error)
			require.LessOrEqual(t, len(c.requests())-asked, 125, name)
			require.True(t, p.provedAt().IsZero(), name)
			require.Empty(t, p.take(), name)
			c.set(func() { c.fault, c.version = 0, "v1beta1" })
			pass(time.Minute)
			require.True(t, s.Status().Up, name)
			require.Empty(t, s.Status().Error, name)
			require.NotEmpty(t, p.take(), name)
			require.WithinDuration(t, time.Now(), p.provedAt(), 6*time.Second)
		})
	}
	f("no role", 403, "v1beta1", "not allowed: grant list of nodes and of machines.cluster.x-k8s.io (the API server answers 403: nodes is forbidden)")
	f("token", 401, "v1beta1", "refuses the credentials")
	f("broken", 500, "v1beta1", "nodes and machines cannot be compared: the API server answers 500")
}

// Without the Cluster API there is nothing to watch, and the watermark advances; if it
// was installed before, its absence is a failure, also after a restart.
func TestNoClusterAPI(t *testing.T) {
	c := &cluster{nodes: []string{"n1"}, machines: []string{"a/c/m1=n1"}}
	var saved json.RawMessage
	inBubble(t, Config{}, c, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(5 * time.Minute)
		st := s.Status()
		require.True(t, st.Up && st.Opened)
		require.Empty(t, st.Error)
		require.Contains(t, st.Idle, "the Cluster API is not installed")
		require.WithinDuration(t, time.Now(), p.provedAt(), 6*time.Second)
		require.Empty(t, p.take())
		c.set(func() { c.version = "v1beta1" })
		pass(time.Minute)
		require.Empty(t, s.Status().Idle)
		require.Len(t, p.take(), 2)
		saved = s.Positions()
	})
	c.set(func() { c.version = "" })
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Transport: c})
		require.NoError(t, s.Restore(saved))
		idle, err := s.idle(s.compare(t.Context(), &pipe{}))
		require.Empty(t, idle)
		require.ErrorContains(t, err, "the Cluster API was removed")
	})
}

// TestOneFailure: a single failure is not reported.
func TestOneFailure(t *testing.T) {
	c := &cluster{version: "v1beta1", nodes: []string{"n1"}, machines: []string{"a/c/m1=n1"}}
	inBubble(t, Config{}, c, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(58 * time.Second)
		c.set(func() { c.fault = 500 })
		pass(4 * time.Second)
		require.True(t, s.Status().Up)
		c.set(func() { c.fault = 0 })
		pass(10 * time.Second)
		require.True(t, s.Status().Up)
		require.EqualValues(t, 1, s.Status().Errors["compare"])
		require.Len(t, p.take(), 4)
	})
}

func TestConfig(t *testing.T) {
	f := func(c Config, want string) {
		t.Helper()
		if err := c.Validate(); want != "" {
			require.ErrorContains(t, err, want)
		} else {
			require.NoError(t, err)
		}
	}
	f(Config{}, "")
	f(Config{Interval: time.Second}, "machines: interval is 1s; use a duration from 5s to 1h0m0s")
	f(Config{Labels: map[string]string{"component": "x"}}, "is always")
	f(Config{Labels: map[string]string{"a-b": "x"}}, "not a label name")
	s := New(Config{Labels: map[string]string{"cluster": "a"}})
	for text, want := range map[string]bool{`{component="machines"}`: true, `{component="machines", cluster="b"}`: false, `{container=~".+"}`: false} {
		sel, err := selector.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, s.Serves(sel), text)
	}
}
