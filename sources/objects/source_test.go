package objects

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/selector"
)

const (
	machinesPath = "/apis/cluster.x-k8s.io/v1beta1/machines"
	leasesPath   = "/apis/coordination.k8s.io/v1/leases"
	podsPath     = "/api/v1/pods"
)

// machineJSON returns a Machine with a condition Ready.
func machineJSON(name, ready, phase, more string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"u-%s"%s},"status":{"phase":%q,"conditions":[
		{"type":"Ready","status":%q,"reason":"R","message":"m","lastTransitionTime":"1999-12-31T23:59:00Z"}]}}`, name, name, more, phase, ready)
}

func leaseJSON(holder, renewed string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"kube-system","name":"kube-scheduler","uid":"u"},"spec":{"holderIdentity":%q,"leaseDurationSeconds":15,"renewTime":%q,"leaseTransitions":2}}`, holder, renewed)
}

// only returns the lines that contain a text, without the names of the object.
func only(lines []string, text string) (out []string) {
	for _, l := range lines {
		if strings.Contains(l, text) {
			out = append(out, l)
		}
	}
	return out
}

func TestConditionsAndPhases(t *testing.T) {
	a := newAPI(machinesPath + "=Machine")
	a.put(machinesPath, machineJSON("a", "False", "Provisioning", ""))
	const names = ` resource=machines.cluster.x-k8s.io kind=Machine object=shop/a name=a`
	var saved json.RawMessage
	inBubble(t, Config{Kinds: []string{"machines.cluster.x-k8s.io"}}, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(time.Second)
		require.Equal(t, []string{
			`conditions shop: msg="condition" type=Ready status=False` + names + ` reason=R since=1999-12-31T23:59:00Z age=1m0s message=m`,
			`phases shop: msg="phase" phase=Provisioning reason=""` + names + ` since=2000-01-01T00:00:00Z age=0s message=""`,
		}, p.take())
		require.True(t, s.Status().Up, s.Status().Error)
		pass(30 * time.Second)
		require.Empty(t, p.take(), "nothing changed")
		a.put(machinesPath, machineJSON("a", "True", "Running", ""))
		pass(time.Second)
		require.Equal(t, []string{
			`conditions shop: msg="condition" type=Ready status=True` + names + ` reason=R since=1999-12-31T23:59:00Z age=1m31s was=False message=m`,
			`phases shop: msg="phase" phase=Running reason=""` + names + ` since=2000-01-01T00:00:31Z age=0s was=Provisioning message=""`,
		}, p.take())
		pass(time.Minute)
		require.Len(t, only(p.take(), "was="), 0, "a repetition is no change")
		require.WithinDuration(t, time.Now(), p.provedAt(), 9*time.Second)
		saved = s.Positions()
		a.put(machinesPath, machineJSON("a", "True", "Deleting", `,"deletionTimestamp":"2000-01-01T00:00:00Z","finalizers":["x/y","z"]`))
		pass(time.Second)
		require.Equal(t, []string{
			`deleting shop: msg="object is being deleted"` + names + ` since=2000-01-01T00:00:00Z age=1m32s finalizers=x/y,z`,
		}, only(p.take(), "deleting shop"))
		a.remove(machinesPath, "shop/a")
		pass(time.Second)
		require.Equal(t, []string{
			`deleting shop: msg="object is gone"` + names,
			`conditions shop: msg="condition is gone" type=Ready` + names + ` was=True`,
			`phases shop: msg="phase is gone"` + names + ` was=Deleting`,
		}, p.take())
		require.Len(t, s.Status().Streams, 3)
		pass(4 * time.Minute)
		require.Empty(t, p.take())
		require.Empty(t, s.Status().Streams, "nothing is left in the namespace")
		require.EqualValues(t, 11, s.Status().Lines)
	})
	// What was removed while nothing ran is told once.
	inBubble(t, Config{Kinds: []string{"machines.cluster.x-k8s.io"}}, a, saved, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(time.Second)
		require.Equal(t, []string{
			`conditions shop: msg="condition is gone" type=Ready resource=machines.cluster.x-k8s.io kind=Machine object=shop/a name=a was=True`,
			`phases shop: msg="phase is gone" resource=machines.cluster.x-k8s.io kind=Machine object=shop/a name=a was=Running`,
		}, p.take())
		saved = s.Positions()
	})
	inBubble(t, Config{Kinds: []string{"machines.cluster.x-k8s.io"}}, a, saved, func(_ *Source, p *pipe, pass func(time.Duration)) {
		pass(5 * time.Minute)
		require.Empty(t, p.take())
	})
}

// The positions may be read while the source starts.
func TestPositionsWhileItStarts(t *testing.T) {
	a := newAPI(machinesPath + "=Machine")
	a.put(machinesPath, machineJSON("a", "False", "Provisioning", ""))
	inBubble(t, Config{Kinds: []string{"machines.cluster.x-k8s.io"}}, a, nil, func(s *Source, _ *pipe, _ func(time.Duration)) {
		for len(s.Status().Streams) == 0 {
			require.NotNil(t, s.Positions())
			runtime.Gosched()
		}
	})
}

// A restart repeats no change, and finds those that happened meanwhile.
func TestRestart(t *testing.T) {
	a := newAPI(machinesPath + "=Machine")
	a.put(machinesPath, machineJSON("a", "False", "Provisioning", ""))
	a.put(machinesPath, machineJSON("b", "False", "Provisioning", ""))
	cfg := Config{Kinds: []string{"machines.cluster.x-k8s.io"}}
	var saved json.RawMessage
	inBubble(t, cfg, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(10 * time.Second)
		saved = s.Positions()
	})
	a.put(machinesPath, machineJSON("b", "True", "Provisioning", ""))
	inBubble(t, cfg, a, saved, func(_ *Source, p *pipe, pass func(time.Duration)) {
		pass(time.Second)
		lines := p.take()
		require.Len(t, only(lines, "was="), 1)
		require.Len(t, only(lines, "status=True"), 1)
		require.Contains(t, only(lines, "was=")[0], "object=shop/b")
		require.Len(t, only(lines, `since=2000-01-01T00:00:00Z`), 2, "the phases are as old as before")
	})
	// An object that was replaced by another one of its name.
	inBubble(t, cfg, a, nil, func(_ *Source, p *pipe, pass func(time.Duration)) {
		pass(10 * time.Second)
		p.take()
		a.put(machinesPath, strings.Replace(machineJSON("b", "True", "Provisioning", ""), "u-b", "other", 1))
		pass(time.Second)
		lines := p.take()
		require.Len(t, lines, 4)
		require.Len(t, only(lines, "is gone"), 2)
	})
	s := New(cfg)
	require.NoError(t, s.Restore(saved))
	again := New(cfg)
	require.NoError(t, again.Restore(s.Positions()))
	require.Equal(t, s.readers[0].restored, again.readers[0].restored, "a stop before the first list")
	require.ErrorContains(t, New(cfg).Restore(json.RawMessage(`[]`)), "read the positions of objects")
	require.ErrorContains(t, New(cfg).Restore(json.RawMessage(`{"kinds":{"machines.cluster.x-k8s.io":{"words":["a"],"objects":{"x":[1,0,7,0]}}}}`)), "damaged")
}

func TestPods(t *testing.T) {
	a := newAPI(podsPath + "=Pod")
	a.put(podsPath, `{"metadata":{"namespace":"shop","name":"web-0"},"spec":{"containers":[{"name":"web","image":"example.org/web@sha256:00"},{"name":"proxy","image":"example.org/proxy:v2"}]},"status":{"phase":"Running","containerStatuses":[
		{"name":"web","image":"example.org/web:v1","restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 40s"}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","finishedAt":"1999-12-31T23:59:30Z"}}},
		{"name":"proxy","restartCount":0,"state":{"running":{"startedAt":"1999-12-31T23:00:00Z"}}}]}}`)
	inBubble(t, Config{Kinds: []string{"pods"}}, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(time.Second)
		const names = ` resource=pods kind=Pod object=shop/web-0 name=web-0 pod=web-0`
		require.Equal(t, []string{
			`phases shop: msg="phase" phase=Running reason=""` + names + ` since=2000-01-01T00:00:00Z age=0s message=""`,
			`phases shop: msg="container is waiting" reason=CrashLoopBackOff container=web` + names +
				` restarts=3 exit=137 exit_reason=OOMKilled since=1999-12-31T23:59:30Z age=30s message="back-off 40s"`,
			`phases shop: msg="container is running" reason="" container=proxy` + names +
				` restarts=0 exit="" exit_reason="" since=1999-12-31T23:00:00Z age=1h0m0s message=""`,
		}, p.take())
		require.Contains(t, string(s.Positions()), "shop/web-0")
		a.put(podsPath, `{"metadata":{"namespace":"shop","name":"web-1"},"status":{"phase":"Running","containerStatuses":[{"name":"web","state":{"running":{}}}]}}`)
		pass(time.Second)
		require.NotContains(t, string(s.Positions()), "shop/web-1", "nothing can be wrong with it")
		require.Equal(t, "example.org/web:v1", s.Image("shop", "web-0", "web"))
		require.Equal(t, "example.org/proxy:v2", s.Image("shop", "web-0", "proxy"))
		require.Empty(t, s.Image("shop", "web-0", "other")+s.Image("shop", "web-2", "web"))
		require.Equal(t, []string{"", "example.org/proxy:v2", "example.org/web:v1"}, s.Running(func(ns string) bool { return ns == "shop" }))
		require.Empty(t, s.Running(func(string) bool { return false }), "anybody may run any image")
	})
}

// Cluster API writes conditions in two forms, which may contradict each other.
func TestFormsOfConditions(t *testing.T) {
	f := func(status, want string) {
		t.Helper()
		o, _, err := projectObject("machines.cluster.x-k8s.io", json.RawMessage(`{"metadata":{"name":"a"},"status":`+status+`}`))
		require.NoError(t, err)
		var got []string
		for _, f := range listFacts(o) {
			got = append(got, f.name.Value()+"="+f.value.Value())
		}
		require.Equal(t, want, strings.Join(got, " "))
	}
	f(`{"conditions":[{"type":"Ready","status":"True"},{"type":"Old","status":"False"}],"v1beta2":{"conditions":[{"type":"Ready","status":"False"}]}}`, "Ready=False Old=False")
	f(`{"conditions":[{"type":"Ready","status":"True"}],"deprecated":{"v1beta1":{"conditions":[{"type":"Ready","status":"False"},{"type":"Old","status":"True"}]}}}`, "Ready=True Old=True")
	f(`{"conditions":"none","deprecated":7,"v1beta2":[],"phase":{"x":1}}`, "")
	f(`"text"`, "")
	f(`null`, "")
	f(`{"conditions":[{"status":"True"},{"type":"A","status":"True"},{"type":"A","status":"False"}],"phase":"Bound"}`, "A=True =Bound")
}

func TestAbsentAndForbidden(t *testing.T) {
	a := newAPI("/api/v1/nodes=Node")
	a.put("/api/v1/nodes", `{"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	cfg := Config{Kinds: []string{"nodes", "machines.cluster.x-k8s.io"}}
	var saved json.RawMessage
	inBubble(t, cfg, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(90 * time.Second)
		require.True(t, s.Status().Up, s.Status().Error)
		require.Empty(t, s.Status().Idle)
		require.Equal(t, []string{"machines.cluster.x-k8s.io"}, s.Status().Absent)
		require.Contains(t, p.take()[0], `node=n1`)
		require.WithinDuration(t, time.Now(), p.provedAt(), 9*time.Second, "an absent kind holds nothing up")
		a.set(func() { a.kinds[machinesPath] = "Machine"; a.denied = machinesPath })
		pass(2 * time.Minute)
		st := s.Status()
		require.False(t, st.Up)
		require.Contains(t, st.Error, "not allowed to read machines.cluster.x-k8s.io: add the rule {apiGroups: [cluster.x-k8s.io], resources: [machines], verbs: [list, watch]} to the ClusterRole")
		require.NotEmpty(t, p.take(), "other kinds are read on")
		stands := p.provedAt()
		pass(time.Minute)
		require.Equal(t, stands, p.provedAt())
		a.set(func() { a.denied = "" })
		a.put(machinesPath, machineJSON("a", "True", "Running", ""))
		pass(2 * time.Minute)
		require.True(t, s.Status().Up, s.Status().Error)
		require.Empty(t, s.Status().Absent)
		require.NotEmpty(t, only(p.take(), "object=shop/a"))
		saved = s.Positions()
		// The definition is removed, and the objects with it.
		a.set(func() {
			delete(a.kinds, machinesPath)
			a.fault = 500
		})
		pass(time.Second)
		a.set(func() { a.fault = 0 })
		pass(time.Minute)
		require.Empty(t, only(p.take(), "is gone"), "the API server may just be starting")
		require.Contains(t, s.Status().Error, "the API server no longer has machines.cluster.x-k8s.io")
		pass(4 * time.Minute)
		require.Len(t, only(p.take(), "is gone"), 2)
		require.True(t, s.Status().Up, s.Status().Error)
	})
	// It was removed while nothing ran.
	inBubble(t, cfg, a, saved, func(_ *Source, p *pipe, pass func(time.Duration)) {
		pass(5 * time.Minute)
		lines := only(p.take(), "is gone")
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], "kind=Machine")
	})
	inBubble(t, Config{Kinds: []string{"machines.cluster.x-k8s.io"}}, a, nil, func(s *Source, _ *pipe, pass func(time.Duration)) {
		pass(time.Minute)
		require.True(t, s.Status().Up)
		require.Contains(t, s.Status().Idle, "has none of the kinds")
	})
}

// The view machines writes the lines of the source machines.
func TestMachines(t *testing.T) {
	const nodesPath = "/api/v1/nodes"
	a := newAPI(nodesPath+"=Node", machinesPath+"=Machine")
	a.put(nodesPath, `{"metadata":{"name":"n1"},"spec":{"providerID":"p1"}}`)
	a.put(nodesPath, `{"metadata":{"name":"n2"}}`)
	a.put(machinesPath, `{"metadata":{"namespace":"a","name":"m1"},"spec":{"clusterName":"c","providerID":"p1"},"status":{"phase":"Running","nodeRef":{"name":"n1"}}}`)
	a.put(machinesPath, `{"metadata":{"namespace":"b","name":"m1"},"spec":{"clusterName":"c","providerID":"p2"},"status":{"nodeRef":{"name":"n1"}}}`)
	cfg := Config{Kinds: []string{"nodes", "machines.cluster.x-k8s.io"}, Machines: &Machines{}}
	var saved json.RawMessage
	inBubble(t, cfg, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(2 * time.Second)
		want := []string{
			`machines : msg="node has a machine" node=n1 machine=a/m1 cluster=a/c`,
			`machines : msg="node has no machine" node=n2`,
			`machines : msg="nodes and machines differ" nodes=2 machines=1 nodes_without_machine=1 machines_without_node=0`,
		}
		require.Equal(t, want, only(p.take(), "machines :"))
		pass(70 * time.Second)
		require.Equal(t, want, only(p.take(), "machines :"), "repeated")
		saved = s.Positions()
		a.remove(nodesPath, "/n2")
	})
	inBubble(t, cfg, a, saved, func(_ *Source, p *pipe, pass func(time.Duration)) {
		pass(2 * time.Second)
		require.Len(t, only(p.take(), `machines : msg="node is gone" node=n2`), 1)
		pass(70 * time.Second)
		require.Empty(t, only(p.take(), `machines : msg="node is gone" node=n2`), "it is told once")
	})
	cfg.Machines.Namespace = "x"
	inBubble(t, cfg, a, nil, func(_ *Source, p *pipe, pass func(time.Duration)) {
		pass(2 * time.Second)
		require.Len(t, only(p.take(), `msg="node has no machine" node=n1`), 1)
	})
}

func TestBounds(t *testing.T) {
	a := newAPI(machinesPath + "=Machine")
	for i := range 5 {
		a.put(machinesPath, machineJSON(fmt.Sprint("m", i), "True", "Running", ""))
	}
	inBubble(t, Config{Kinds: []string{"machines.cluster.x-k8s.io"}, MaxObjects: 3}, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(time.Second)
		require.Len(t, p.take(), 6)
		loss := s.Status().Losses["objects"]
		require.EqualValues(t, 2, loss.Count)
		require.Equal(t, "machines.cluster.x-k8s.io shop/m4", loss.Path)
		a.remove(machinesPath, "shop/m0")
		a.put(machinesPath, machineJSON("m4", "True", "Running", ""))
		pass(time.Second)
		require.Len(t, only(p.take(), "object=shop/m4"), 2)
	})
	var many []string
	for i := range 70 {
		many = append(many, fmt.Sprintf(`{"type":"T%d","status":"True","message":%q}`, i, strings.Repeat("x", 10000)))
	}
	o, cut, err := projectObject("x", json.RawMessage(`{"metadata":{"name":"a"},"status":{"conditions":[`+strings.Join(many, ",")+`]}}`))
	require.NoError(t, err)
	require.True(t, cut)
	require.Len(t, o.facts, maxConditions)
	require.LessOrEqual(t, len(o.facts[0].message), maxMessage+len("…"))
}

// Texts of tenants forge no field and no beginning of a line.
func TestHostileTexts(t *testing.T) {
	in, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": "a", "namespace": "shop"},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "X status=True", "status": "False\n", "reason": `" msg="lease is stale"`, "message": `a" msg="condition" type=Ready status=True object=kube-system/b`,
		}}},
	})
	require.NoError(t, err)
	o, _, err := projectObject("x", in)
	require.NoError(t, err)
	for _, f := range listFacts(o) {
		got := subject{"x", "X"}.factLine(o, f, f.value, time.Time{})
		require.Equal(t, 1, strings.Count(got, ` msg="`)+strings.Count("^"+got, `^msg="`), got)
		require.Equal(t, `msg="condition" type="X status=True" status="False\n" resource=x kind=X object=shop/a name=a reason="\" msg=\"lease is stale\""`+
			` since="" age="" message="a\" msg=\"condition\" type=Ready status=True object=kube-system/b"`, got)
	}
}

// What a node runs is known from its status, whatever is in it.
func TestVersionsOfNodes(t *testing.T) {
	f := func(status string, want ...string) {
		t.Helper()
		o, _, err := projectObject(nodes, json.RawMessage(`{"metadata":{"name":"n"},"status":`+status+`}`))
		require.NoError(t, err)
		s := New(Config{Kinds: []string{"nodes"}})
		s.readers[0].objects["n"] = o
		require.Equal(t, want, s.Running(func(string) bool { return false }))
	}
	f(`{"nodeInfo":{"kubeletVersion":"v1.34.1","containerRuntimeVersion":"containerd://2.1.4"}}`, "node/containerd:2.1.4", "node/kubelet:v1.34.1")
	f(`{"nodeInfo":{"kubeletVersion":"v1.33.4+rke2r1","containerRuntimeVersion":"containerd://2.0.5-k3s1"}}`,
		"node/containerd:2.0.5-k3s1", "node/kubelet:v1.33.4+rke2r1", "node/rke2:v1.33.4+rke2r1")
	f(`{"nodeInfo":{"kubeletVersion":"v1.34.1","containerRuntimeVersion":""}}`, "node/kubelet:v1.34.1")
	f(`{"nodeInfo":{"kubeletVersion":7}}`)
	f(`[]`)
	f(`null`)
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
	f(Config{Kinds: DefaultKinds()}, "")
	f(Config{Kinds: []string{"secrets"}}, `objects: kinds has "secrets": the contents of secrets are never read; remove it`)
	f(Config{Kinds: []string{"secrets.example.org"}}, "never read")
	f(Config{Kinds: []string{"Machine"}}, "which is not the name of a kind; use RESOURCE or RESOURCE.GROUP")
	f(Config{Kinds: []string{"pods/log"}}, "which is not the name of a kind")
	f(Config{Kinds: []string{"pods."}}, "which is not the name of a kind")
	f(Config{Kinds: []string{"pods", "pods"}}, `has "pods" twice`)
	require.Empty(t, New(Config{Kinds: []string{"nodes"}}).Image("shop", "web-0", "web"))
	f(Config{Machines: &Machines{}}, "")
	f(Config{Machines: &Machines{}, Kinds: []string{"nodes"}}, "objects: machines compares nodes with machines.cluster.x-k8s.io; add both to kinds")
	f(Config{Labels: map[string]string{"namespace": "x"}}, "is already set by the object")
	f(Config{Labels: map[string]string{"a-b": "x"}}, "not a label name")
	s := New(Config{Labels: map[string]string{"cluster": "a"}})
	for text, want := range map[string]bool{
		`{component="leases"}`: true, `{component="conditions", namespace="x"}`: true, `{component="machines"}`: false,
		`{component="leases", cluster="b"}`: false, `{container=~".+"}`: false, `{namespace="x"}`: true,
	} {
		sel, err := selector.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, s.Serves(sel), text)
	}
}
