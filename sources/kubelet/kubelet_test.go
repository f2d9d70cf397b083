package kubelet

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources"
	"crowsnest/test/kubesim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// pipe stores the blocks of each stream.
type pipe struct {
	sources.Pipeline // nil: for unused methods

	mu        sync.Mutex
	blocks    map[*matcher.Stream]string
	watermark time.Time
}

func (p *pipe) Scan(s *matcher.Stream, block []byte, commit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocks[s] += string(block)
	commit()
}
func (p *pipe) Match(*matcher.Stream, matcher.Record, func()) {}
func (p *pipe) Flush(*matcher.Stream)                         {}
func (p *pipe) AdvanceWatermark(_ string, at time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = at
}

func TestReads(t *testing.T) {
	root := t.TempDir()
	var cs []*kubesim.Container
	add := func(ns, pod, uid, container string) {
		c := kubesim.New(kubesim.Options{Root: root, Namespace: ns, Pod: pod, UID: uid, Container: container})
		c.Write("stdout", "in "+ns+" "+pod)
		cs = append(cs, c)
	}
	const uid = "6b1c9b5e-0000-4000-8000-000000000000"
	add("kube-system", "etcd-node1", "0123456789abcdef0123456789abcdef", "etcd") // static: a hash
	add("capi-system", "capi-0", uid, "manager")
	add("tenant-a", "app", uid, "app")
	add("crowsnest", "crowsnest-x", uid, "crowsnest")

	s := New(Config{
		Dir: root, Exclude: []string{"tenant-*"}, Labels: map[string]string{"cluster": "c1"},
		OwnPod: sources.OwnPod{SelfNamespace: "crowsnest", SelfPod: "crowsnest-x"},
	})
	require.Equal(t, "kubelet", s.Name())
	p := &pipe{blocks: map[*matcher.Stream]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p) }()
	require.Eventually(t, func() bool { return !s.Status().Watermark.IsZero() }, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-done)

	got := map[string]string{}
	for st, b := range p.blocks {
		l := st.Labels()
		require.Equal(t, "c1", l["cluster"])
		require.NotContains(t, l, "uid")
		require.True(t, strings.HasSuffix(l["filename"], "/0.log"), l["filename"])
		got[l["namespace"]+"/"+l["pod"]+"/"+l["container"]] = b[strings.Index(b, " F ")+3:]
	}
	require.Equal(t, map[string]string{
		"kube-system/etcd-node1/etcd": "in kube-system etcd-node1\n",
		"capi-system/capi-0/manager":  "in capi-system capi-0\n",
	}, got)
	st := s.Status()
	require.True(t, st.Opened)
	require.Len(t, st.Streams, 2)
	require.Equal(t, "capi-system", st.Streams[0].Labels["namespace"])
	require.NoError(t, New(Config{Dir: root}).Restore(s.Positions()))
	for _, c := range cs {
		require.NoError(t, c.Err)
		c.Close()
	}
}

func TestPathLabels(t *testing.T) {
	f := func(path string, want matcher.Labels) {
		t.Helper()
		got, ok := PathLabels(path)
		require.Equal(t, want != nil, ok, path)
		if ok {
			want["filename"] = path
			require.Equal(t, want, got)
		}
	}
	l := func(ns, pod, container string) matcher.Labels {
		return matcher.Labels{"namespace": ns, "pod": pod, "container": container}
	}
	f("/var/log/pods/ns_pod-0_6b1c9b5e/app/0.log", l("ns", "pod-0", "app"))
	f("/var/log/pods/kube-system_etcd-n1_0123abcd/etcd/3.log.20260102-030405.gz", l("kube-system", "etcd-n1", "etcd"))
	f("copied/ns_pod.with.dots_uid/app/0.log", l("ns", "pod.with.dots", "app"))
	f("ns_pod_uid/app/0.log", l("ns", "pod", "app"))
	f("/var/log/pods/ns_pod_uid/app/app.log", nil)
	f("/var/log/pods/ns_pod/app/0.log", nil)
	f("/var/log/pods/a_b_c_d/app/0.log", nil)
	f("/var/log/pods/_pod_uid/app/0.log", nil)
	f("/var/log/pods/ns__uid/app/0.log", nil)
	f("/var/log/syslog", nil)
	f("0.log", nil)
	f("", nil)
	f("-", nil)
}

func TestServes(t *testing.T) {
	s := New(Config{Labels: map[string]string{"cluster": "c1"}})
	f := func(text string, want bool) {
		t.Helper()
		sel, err := selector.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, s.Serves(sel), text)
	}
	f(`{namespace="any"}`, true)
	f(`{cluster="c1", container=~"x.*"}`, true)
	f(`{cluster="c2"}`, false)
	f(`{cluster!="c1", namespace="x"}`, false)
}

func TestValidate(t *testing.T) {
	f := func(c Config, want ...string) {
		t.Helper()
		err := c.Validate()
		if len(want) == 0 {
			require.NoError(t, err)
			return
		}
		for _, w := range want {
			require.ErrorContains(t, err, w)
		}
	}
	f(Config{})
	f(Config{Dir: "/x", Include: []string{"kube-*"}, Labels: map[string]string{"node_name": "n"}, LookBack: time.Hour})
	f(Config{Dir: "x", Include: []string{"["}, Labels: map[string]string{"pod": "x", "a-b": "x"}},
		"absolute", "glob", `"pod"`, `"a-b"`)
}

// FuzzPathLabels: only the last three elements of a path determine the labels, in
// exactly one way.
func FuzzPathLabels(f *testing.F) {
	f.Add("/var/log/pods/ns_pod_uid/app/0.log", "tenant")
	f.Add("a_b_c//0.log", "a_b_c")
	f.Add("/var/log/pods/ns_pod_uid/app/../../kube-system_etcd_0/etcd/0.log", "..")
	f.Add("/var/log/pods/ns_pod_uid_x/app/0.log", "ns_pod_uid/app")
	f.Add("/var/log/pods/ns_pod_uid/app/0.log.20260102-030405.gz", ".")
	f.Add(`C:\ns_pod_uid\app\0.log`, "\x00")
	f.Fuzz(func(t *testing.T, path, before string) {
		l, ok := PathLabels(path)
		if !ok {
			require.Nil(t, l)
			return
		}
		require.Len(t, l, 4)
		require.Equal(t, path, l["filename"])
		parts := strings.Split(filepath.Clean(path), "/")
		require.GreaterOrEqual(t, len(parts), 3)
		parts = parts[len(parts)-3:]
		require.Equal(t, l["container"], parts[1])
		uid, found := strings.CutPrefix(parts[0], l["namespace"]+"_"+l["pod"]+"_")
		require.True(t, found)
		for _, name := range []string{l["namespace"], l["pod"], uid} {
			require.NotEmpty(t, name)
			require.NotContains(t, name, "_", "two readings")
			require.NotContains(t, name, "/")
		}
		require.NotContains(t, []string{"", ".", ".."}, l["container"])
		// The path before the three elements does not matter.
		again, ok := PathLabels("/" + before + "/../" + strings.Join(parts, "/"))
		if ok && !strings.Contains(before, "/") && before != ".." && before != "." && before != "" {
			for _, name := range []string{"namespace", "pod", "container"} {
				require.Equal(t, l[name], again[name])
			}
		}
	})
}
