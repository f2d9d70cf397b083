package kubernetes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

func TestValidate(t *testing.T) {
	f := func(c Config, want string) {
		t.Helper()
		err := c.Validate()
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
	}
	f(Config{}, "")
	f(Config{Namespaces: []string{"a", "b"}, Selector: "app in (a,b),x!=y", FieldSelector: "spec.nodeName=n,status.phase!=Failed", Include: []string{"team-*"}, LookBack: time.Hour, MaxStreams: 5, Labels: map[string]string{"cluster": "c"}}, "")
	f(Config{Namespaces: []string{"team-*"}}, `kubernetes: namespaces: "team-*" is not the name of a namespace; for a pattern, use include`)
	f(Config{Namespaces: []string{"a", "a"}}, "twice")
	f(Config{Namespaces: make([]string, 60)}, "60 names, which is too many")
	f(Config{Selector: "app in a"}, `kubernetes: selector "app in a" cannot be read`)
	f(Config{FieldSelector: "a"}, "kubernetes: field_selector")
	f(Config{Include: []string{"["}}, "is not a glob")
	f(Config{Labels: map[string]string{"a-b": "c"}}, "not a label name")
	f(Config{Labels: map[string]string{"pod": "c"}}, `label "pod" is already set by the pod; remove it here`)
}

func TestServes(t *testing.T) {
	s := New(Config{Labels: map[string]string{"cluster": "a"}})
	f := func(text string, want bool) {
		t.Helper()
		sel, err := selector.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, s.Serves(sel))
	}
	f(`{namespace="x", pod=~"y.*", container!="z"}`, true)
	f(`{cluster="a"}`, true)
	f(`{cluster="b"}`, false)
	f(`{component="machines"}`, false)
	f(`{job!="x", app="y"}`, true)
}

func TestPodLabels(t *testing.T) {
	f := func(o owner, labels map[string]string, app, workload string) {
		t.Helper()
		var p pod
		p.Metadata.Name, p.Metadata.Labels = "kube-apiserver-cp-1", labels
		o.Controller = true
		p.Metadata.OwnerReferences = []owner{{Kind: "Other", Name: "no"}, o}
		require.Equal(t, app, p.appName())
		require.Equal(t, workload, p.ownerName())
	}
	f(owner{Kind: "ReplicaSet", Name: "web-5d4f8c"}, nil, "", "web")
	f(owner{Kind: "ReplicaSet", Name: "web-a-5d4f8c"}, map[string]string{"pod-template-hash": "5d4f8c", "app": "x"}, "x", "web-a")
	f(owner{Kind: "ReplicaSet", Name: "byhand"}, nil, "", "byhand")
	f(owner{Kind: "DaemonSet", Name: "cni"}, map[string]string{"k8s-app": "y"}, "y", "cni")
	f(owner{Kind: "StatefulSet", Name: "db"}, map[string]string{"app.kubernetes.io/name": "z", "app": "x"}, "z", "db")
	f(owner{Kind: "Job", Name: "backup-29012345"}, nil, "", "backup-29012345")
	f(owner{Kind: "Node", Name: "cp-1"}, map[string]string{"component": "kube-apiserver"}, "", "kube-apiserver")
}

func TestStatus(t *testing.T) {
	f := func(text string, want phase, id string, restarts int) {
		t.Helper()
		p, err := readPod([]byte(`{"spec":{"containers":[{"name":"c"}]},"status":{"containerStatuses":[` + text + `]}}`))
		require.NoError(t, err)
		c := p.containers()[0]
		require.Equal(t, want, c.phase)
		require.Equal(t, id, c.id)
		require.Equal(t, restarts, c.restarts)
	}
	f("", waiting, "", 0)
	f(`{"name":"c","state":{"waiting":{"reason":"ContainerCreating"}}}`, waiting, "", 0)
	f(`{"name":"c","containerID":"x","state":{"running":{"startedAt":"2026-11-20T16:00:00Z"}}}`, running, "x", 0)
	f(`{"name":"c","state":{"running":{"startedAt":"2026-11-20T16:00:00Z"}}}`, waiting, "", 0)
	f(`{"name":"c","containerID":"x","restartCount":2,"state":{"terminated":{"finishedAt":null}}}`, ended, "x", 2)
	f(`{"name":"c","containerID":"x","restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"containerID":"x","finishedAt":"2026-11-20T16:00:00Z"}}}`, ended, "x", 3)
	f(`{"name":"other","containerID":"x","state":{"running":{}}}`, waiting, "", 0)
}

// TestSameLineElsewhere: a line has the same fingerprint here and in the source
// kubelet, which reads the node's file, so that it counts once.
func TestSameLineElsewhere(t *testing.T) {
	inBubble(t, func(b *bench) {
		pack := "pack: {name: p, version: 0.1.0, rules: 1}\nrules:\n- {alert: A, from: '{namespace=\"demo\"}', match: leaderelection lost, severity: info}\n"
		doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(pack)})
		require.Empty(b, problems.Errors())
		set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
		require.Empty(b, problems.Errors())
		prog, err := matcher.Compile(set)
		require.NoError(b, err)
		b.pipe.prog = prog
		at := time.Now()
		log := b.pod("demo", "p")
		log.write(at, "E1120 leaderelection lost")
		b.start()
		b.pass(5 * time.Second)
		file := matcher.NewStream(matcher.Labels{
			"namespace": "demo", "pod": "p", "container": "c", "filename": "/var/log/pods/demo_p_uid/c/0.log",
		}, matcher.StreamOptions{})
		stamp := at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
		want := prog.Scan(file, []byte(stamp+" stderr F E1120 leaderelection lost\n"), at)
		require.Len(b, want, 1)
		require.Len(b, b.pipe.hits, 1)
		require.Equal(b, want[0].ID, b.pipe.hits[0].ID)
		require.Equal(b, want[0].Time, b.pipe.hits[0].Time)
	})
}
