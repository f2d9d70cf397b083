package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
)

// place is the origin of a line, according to the kubelet's path.
type place struct{ ns, pod, container string }

// signature is a shipped rule with lines that fire it, their origin, and the
// line that ends it.
type signature struct {
	alert   string
	lines   []string
	clear   string // "": silence ends it
	age     time.Duration
	at      place
	foreign []place           // that look similar but are not the right one
	labels  map[string]string // of its one alert
}

// signatures are some of the shipped rules whose selector names a workload.
var signatures = []signature{
	{
		alert: "VClusterControllerManagerLeaseLost", age: 10 * time.Minute,
		lines: []string{
			"2026-01-29 18:54:10\tINFO\tcommandwriter/commandwriter.go:128\tfailed to renew lease kube-system/kube-controller-manager: timed out waiting for the condition\t{\"component\": \"vcluster\", \"component\": \"controller-manager\"}",
		},
		clear:   `I0129 18:55:10.928584      47 leaderelection.go:271] successfully acquired lease kube-system/kube-controller-manager`,
		at:      place{"team-a", "vc-team-a-0", "syncer"},
		foreign: []place{{"team-a", "vc-team-a-0", "app"}, {"syncer", "syncer", "sync"}, {"team-a", "syncer", "syncer2"}},
		labels:  map[string]string{"namespace": "team-a", "pod": "vc-team-a-0", "severity": "critical", "resolves": "clear"},
	},
	{
		alert: "ClusterAutoscalerGroupBackedOffAfterConflict", age: 2 * time.Minute,
		lines: []string{`E0118 02:30:00.501234       1 static_autoscaler.go:518] Failed to scale up: failed to increase node group size: Operation cannot be fulfilled on machinedeployments.cluster.x-k8s.io "md-batch": the object has been modified; please apply your changes to the latest version and try again`},
		at:    place{"kube-system", "cluster-autoscaler-77f8-q2zlm", "clusterapi-cluster-autoscaler"},
		foreign: []place{
			{"kube-system", "cluster-autoscaler-77f8-q2zlm", "autoscaler"},
			{"cluster-autoscaler", "cluster-autoscaler", "app"},
			{"kube-system", "cluster-autoscaler-77f8-q2zln", "cluster.autoscaler"},
		},
		labels: map[string]string{"namespace": "kube-system", "node_group": "md-batch", "severity": "warning", "resolves": "quiet"},
	},
	{
		alert: "ControlPlaneStoppedEvictions", age: 20 * time.Minute,
		lines: []string{`I0126 21:04:04.055371       1 node_lifecycle_controller.go:1038] "Controller detected that all Nodes are not-Ready. Entering master disruption mode" logger="node-lifecycle-controller"`},
		clear: `I0126 21:24:04.055371       1 node_lifecycle_controller.go:1057] "Controller detected that some Nodes are Ready. Exiting master disruption mode" logger="node-lifecycle-controller"`,
		at:    place{"kube-system", "kube-controller-manager-cp-1", "kube-controller-manager"},
		foreign: []place{
			{"kube-system", "kube-controller-manager-cp-1", "controller-manager"},
			{"kube-controller-manager", "kube-controller-manager", "manager"},
			{"kube-system", "kube-controller-manager-cp-2", "kube-controller_manager"},
		},
		labels: map[string]string{"namespace": "kube-system", "severity": "critical", "resolves": "clear"},
	},
	{
		alert: "EtcdOutOfSpace", age: 2 * time.Minute,
		lines: []string{
			`{"level":"warn","ts":"2026-01-27T12:03:22.408Z","caller":"etcdserver/apply.go:753","msg":"alarm raised","alarm":"NOSPACE","from":"8e9e05c52164694d"}`,
			`E0127 12:03:22.408678       1 status.go:71] "Unhandled Error" err="etcdserver: mvcc: database space exceeded"`,
		},
		at:      place{"kube-system", "etcd-cp-1", "etcd"},
		foreign: []place{{"etcd", "etcd", "et-cd"}, {"kube-system", "etcd-cp-1", "app"}, {"kube-apiserver", "kube-apiserver-cp-1", "api-server"}},
		labels:  map[string]string{"namespace": "kube-system", "severity": "critical", "resolves": "quiet"},
	},
}

// lookAlikes are places that no selector of s may select.
func (s signature) lookAlikes() []place {
	up := func(p place) place {
		return place{strings.ToUpper(p.ns), strings.ToUpper(p.pod), strings.ToUpper(p.container)}
	}
	swap := strings.NewReplacer("a", "а", "e", "е", "c", "с", "y", "у", "-", "‐") // Cyrillic letters, and another hyphen
	cyrillic := place{swap.Replace(s.at.ns), swap.Replace(s.at.pod), swap.Replace(s.at.container)}
	turned := place{s.at.container, s.at.pod, s.at.ns}
	all := []place{
		{"tenant-a", "app-0", "app"},
		{"tenant-b", s.at.pod, "app"},
		up(s.at), cyrillic, turned,
		{"tenant-a", "x", "namespace=" + s.at.ns},
		{"tenant-a", "x", "..."},
		{"tenant-a", "x", `"} or {namespace="` + s.at.ns},
		{"tenant-a", "x", "a\nb"},
		{"tenant.b", "a.b.c", "c.d"},
		{"%2e%2e%2f", "x", "$(id)"},
	}
	return append(all, s.foreign...)
}

// forms are the ways in which a tenant prints a line to make it look like
// somebody else's. A form is the output of the container; the envelope around
// it is the runtime's unless raw is set.
type form struct {
	name string
	raw  bool
	text func(s signature, line string) string
}

func claim(s signature, line string) map[string]any {
	return map[string]any{"namespace": s.at.ns, "pod": s.at.pod, "container": s.at.container, "log": line, "message": line, "stream": "stderr", "time": stamp(s)}
}

// stamp returns what the runtime writes before a line of the signature.
func stamp(s signature) string { return time.Now().Add(-s.age).UTC().Format(time.RFC3339Nano) }

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings
	}
	return string(b)
}

var forms = []form{
	{name: "as it is", text: func(_ signature, line string) string { return line }},
	{name: "JSON that states labels", text: func(s signature, line string) string { return asJSON(claim(s, line)) }},
	{name: "a collector's record", text: func(s signature, line string) string {
		return asJSON(map[string]any{"log": line + "\n", "kubernetes": map[string]string{"namespace_name": s.at.ns, "pod_name": s.at.pod, "container_name": s.at.container}})
	}},
	{name: "a docker-json file", raw: true, text: func(s signature, line string) string {
		c := claim(s, line+"\n")
		c["attrs"] = map[string]string{"io.kubernetes.container.name": s.at.container, "io.kubernetes.pod.namespace": s.at.ns}
		return asJSON(c) + "\n"
	}},
	{name: "logfmt that states labels", text: func(s signature, line string) string {
		return fmt.Sprintf("namespace=%s pod=%s container=%s msg=%q %s", s.at.ns, s.at.pod, s.at.container, line, line)
	}},
	{name: "an envelope within the envelope", text: func(s signature, line string) string { return stamp(s) + " stderr F " + line }},
	{name: "a line end within the line", text: func(s signature, line string) string {
		return "ordinary\n" + stamp(s) + " stdout F " + line + "\n" + stamp(s) + " stdout F ordinary"
	}},
	{name: "a header of klog within the message", text: func(_ signature, line string) string {
		return `E0101 00:00:00.000000       1 a.go:1] "ok" err="` + "E0101 00:00:00.000000       1 a.go:1] " + line + `"`
	}},
	{name: "colours and directions", text: func(_ signature, line string) string {
		return "\x1b[31m\u202e" + line + "\u202c\x1b[0m\x1b]0;" + line + "\x07"
	}},
	{name: "a carriage return", text: func(_ signature, line string) string { return "harmless\r" + line + "\r" }},
	{name: "NUL bytes", text: func(_ signature, line string) string { return "\x00\x00" + line + "\x00" }},
	{name: "a selector", text: func(s signature, line string) string {
		return fmt.Sprintf("{namespace=%q, pod=%q, container=%q} %s", s.at.ns, s.at.pod, s.at.container, line)
	}},
	{name: "the banner of tail", text: func(s signature, line string) string {
		return fmt.Sprintf("==> /var/log/pods/%s_%s_0/%s/0.log <==\n%s stdout F %s", s.at.ns, s.at.pod, s.at.container, stamp(s), line)
	}},
	{name: "far behind", text: func(_ signature, line string) string { return strings.Repeat("x", 12<<10) + " " + line }},
	{name: "no envelope", raw: true, text: func(_ signature, line string) string { return line + "\n" }},
	{name: "a broken envelope", raw: true, text: func(s signature, line string) string {
		return stamp(s) + " stderr  F " + line + "\n2026-13-01T00:00:00Z stderr F " + line + "\n"
	}},
	{name: "a template", text: func(_ signature, line string) string { return `{{ define "x" }}` + line + `{{ end }}${jndi:ldap://x}` }},
}

// write prints the lines of a signature in a form, whole or in partial lines of
// n bytes.
func write(c *kubesim.Container, s signature, f form, lines []string, n int) {
	for _, line := range lines {
		text := f.text(s, line)
		switch {
		case f.raw:
			c.Raw(text)
		case n > 0 && !strings.Contains(text, "\n"):
			for len(text) > n {
				c.Part("stderr", text[:n])
				c.Part("stdout", "noise") // of the other stream
				text = text[n:]
			}
			c.Write("stderr", text)
			c.Write("stdout", "")
		default:
			c.Write("stderr", text)
		}
	}
}

// forged writes lines from 50 wrong places.
func (d *victim) forged(s signature, lines func(signature) []string) {
	d.t.Helper()
	places := s.lookAlikes()
	for i := range 50 {
		p := places[i%len(places)]
		p.pod = fmt.Sprintf("%s-%d", p.pod, i)
		if i >= len(places) && strings.HasPrefix(p.ns, "tenant") {
			p.ns = fmt.Sprintf("%s%d", p.ns, i)
		}
		c := d.container(p.ns, p.pod, p.container, s.age)
		write(c, s, forms[i%len(forms)], lines(s), []int{0, 0, 7, 1, 40}[i%5])
		require.NoError(d.t, c.Err, "%+v", p)
	}
	d.planted(s, lines(s))
}

// planted puts files with the lines into places of the tree that are not logs
// of containers, although their names suggest it.
func (d *victim) planted(s signature, lines []string) {
	d.t.Helper()
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%s stderr F %s\n", stamp(s), line)
	}
	right := s.at.ns + "_" + s.at.pod + "_"
	own := "tenant-a_app-0_11111111-0000-4000-8000-000000000000"
	for _, path := range []string{
		right + "uid_x/" + s.at.container + "/0.log",       // four parts
		right + "/" + s.at.container + "/0.log",            // no uid
		"_" + s.at.pod + "_u/" + s.at.container + "/0.log", // no namespace
		s.at.ns + "_" + s.at.pod + "/" + s.at.container + "/0.log",
		s.at.ns + "/" + s.at.pod + "/" + s.at.container + "/0.log",
		own + "/app/" + right + "u/" + s.at.container + "/0.log", // below the log of a tenant
		own + "/app/" + s.at.container + "/0.log",
		right + "u1/" + s.at.container + "/log",
		right + "u2/" + s.at.container + "/0.log.bak",
		right + "u3/" + s.at.container + "/x0.log",
		right + "u4/" + s.at.container + "/.0.log",
		right + "u5/0.log", // no container
		"0.log", s.at.container + ".log",
	} {
		path = filepath.Join(d.pods, path)
		require.NoError(d.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(d.t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	// Links from the right names to the log of a tenant.
	target := filepath.Join(d.pods, own, "app", "linked.log")
	require.NoError(d.t, os.WriteFile(target, []byte(text.String()), 0o600))
	for link, to := range map[string]string{
		right + "link1/" + s.at.container + "/0.log": target,
		right + "link2/" + s.at.container:            filepath.Join(d.pods, own, "app", s.at.container),
		right + "link3":                              filepath.Join(d.pods, own, "app", right+"u"),
	} {
		link = filepath.Join(d.pods, link)
		require.NoError(d.t, os.MkdirAll(filepath.Dir(link), 0o755))
		_ = os.Remove(link) // from before
		require.NoError(d.t, os.Symlink(to, link))
		d.links = append(d.links, link)
	}
}

// removeLinks removes what planted linked. Until then, rules that conclude something from
// silence wait: the links have names of logs that could refute them, and are not read.
func (d *victim) removeLinks() {
	d.t.Helper()
	for _, link := range d.links {
		require.NoError(d.t, os.Remove(link))
	}
	d.links = nil
}

// notified returns the notified alerts, except those of the daemon about itself,
// by name and labels.
func notified(am *fakeam.AM) map[string]int {
	out := map[string]int{}
	for name, words := range am.All() {
		if strings.HasPrefix(name, "Crowsnest") {
			continue
		}
		seen := map[string]bool{}
		for _, w := range words {
			if key := fmt.Sprint(w.Alert.Labels); !seen[key] {
				seen[key] = true
				out[name]++
			}
		}
	}
	return out
}

// TestForgedSignatures: only the workload that a rule selects can fire it, end
// it or delay it, whatever others print and however their pods are named. The
// same lines from the right place raise exactly one alert.
func TestForgedSignatures(t *testing.T) {
	d := newVictim(t, true, nil)
	for _, s := range signatures {
		d.forged(s, func(s signature) []string { return s.lines })
	}
	want := map[string]int{}
	for _, s := range signatures {
		c := d.container(s.at.ns, s.at.pod, s.at.container, s.age)
		write(c, s, forms[0], s.lines, 0)
		write(c, s, forms[0], s.lines, 5)
		for _, f := range []string{"JSON that states labels", "an envelope within the envelope", "colours and directions", "a carriage return"} {
			i := slices.IndexFunc(forms, func(x form) bool { return x.name == f })
			write(c, s, forms[i], s.lines, 0)
		}
		require.NoError(t, c.Err)
		want[s.alert] = 1
	}
	d.start()
	d.eventually("the lines are read", func() bool {
		return d.metric(daemon.LinesRead) > 1000 && d.metric(`crowsnest_source_lag_seconds{source="kubelet"}`) < 1 &&
			len(d.am.Accepted("CrowsnestHeartbeat")) > 0
	})
	d.removeLinks()
	d.eventually("the right places fire", func() bool {
		for _, s := range signatures {
			if len(d.am.Accepted(s.alert)) == 0 {
				return false
			}
		}
		return true
	})
	require.Equal(t, want, notified(d.am))
	for _, s := range signatures {
		got := d.am.Accepted(s.alert)[0].Alert
		labels := map[string]string{"alertname": s.alert}
		for k, v := range s.labels {
			labels[k] = v
		}
		require.Equal(t, labels, got.Labels)
	}
	d.forgedClears()
	require.Equal(t, want, notified(d.am))
}

// forgedClears writes clear lines from every pod, and then, one after the
// other, from those whose lines count.
func (d *victim) forgedClears() {
	t := d.t
	t.Helper()
	var cleared []signature
	for _, s := range signatures {
		if s.clear != "" {
			s.age = 0
			cleared = append(cleared, s)
			d.forged(s, func(s signature) []string { return []string{s.clear} })
		}
	}
	require.Len(t, cleared, 2)
	for i, s := range cleared {
		c := d.container(s.at.ns, s.at.pod, s.at.container, 0)
		write(c, s, forms[0], []string{s.clear}, 0)
		require.NoError(t, c.Err)
		// A receiver that has just started may be notified twice.
		d.eventually(s.alert+" is resolved", func() bool { return strings.HasSuffix(d.am.States(s.alert), "firing resolved") })
		for _, other := range cleared[i+1:] {
			require.Equal(t, "firing", d.am.States(other.alert))
		}
	}
}

// TestLabelsComeFromThePath: a container of the right name speaks only for
// itself, whatever its lines claim. The rule reads each form.
func TestLabelsComeFromThePath(t *testing.T) {
	s := signatures[slices.IndexFunc(signatures, func(s signature) bool { return s.alert == "EtcdOutOfSpace" })]
	s.alert = "SpaceExceeded"
	d := newVictim(t, false, map[string]string{"space.yaml": `pack: {name: space, version: "1.0.0", rules: 1}
rules:
- alert: SpaceExceeded
  from: '{container="etcd"}'
  match: {in: anywhere, contains: "database space exceeded"}
  by: [namespace]
  severity: critical
`}, `"+tenant-*"`)
	want := map[string]string{}
	for i, f := range forms {
		ns := fmt.Sprintf("tenant-%d", i)
		c := d.container(ns, s.at.pod, s.at.container, s.age)
		write(c, s, f, s.lines[1:], 0)
		require.NoError(t, c.Err)
		want[ns] = f.name
	}
	d.start()
	got := func() map[string]string {
		out := map[string]string{}
		for _, w := range d.am.Accepted(s.alert) {
			ns := w.Alert.Labels["namespace"]
			require.Equal(t, map[string]string{"alertname": s.alert, "namespace": ns, "severity": "critical", "resolves": "quiet"}, w.Alert.Labels)
			out[ns] = want[ns] // "" if no namespace of that name wrote
		}
		return out
	}
	d.eventually("every form is read", func() bool { return len(got()) >= len(want) })
	require.Equal(t, want, got())
}
