//go:build e2e

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest"
	"crowsnest/cli/internal/demo"
	"crowsnest/sources/objects"
	"crowsnest/test/kubelab"
)

// clusterLab is a real API server with a node, and the program.
type clusterLab struct {
	*kubelab.Lab
	t       *testing.T
	kubelet *kubelab.Kubelet
	bin     string
	known   map[string]bool // namespaces
}

func newClusterLab(t *testing.T, opt kubelab.Options) *clusterLab {
	t.Helper()
	l := &clusterLab{Lab: kubelab.Start(t, opt), t: t, kubelet: kubelab.NewKubelet(t), bin: build(t), known: map[string]bool{"kube-system": true}}
	l.Node("node-1", l.kubelet.Port())
	require.Eventually(t, func() bool { code, _ := l.Try("GET", "/api/v1/namespaces/kube-system", nil); return code == 200 }, time.Minute, 100*time.Millisecond)
	l.ServiceAccount("kube-system", "default")
	return l
}

func (l *clusterLab) namespace(name string) {
	if !l.known[name] {
		l.known[name] = true
		l.Namespace(name)
	}
}

// run starts a pod with a container.
func (l *clusterLab) run(namespace, pod, container string) *kubelab.Container {
	l.t.Helper()
	l.namespace(namespace)
	l.Pod(kubelab.PodSpec{Namespace: namespace, Name: pod, Node: "node-1", Containers: []string{container}})
	c := l.kubelet.Start(namespace, pod, container)
	l.SetStatus(namespace, pod, kubelab.ContainerStatus{Name: container})
	return c
}

// play makes the recorded incidents happen, so that all have just ended. It returns their
// alerts.
func (l *clusterLab) play(now time.Time) (want []demo.Expected) {
	l.t.Helper()
	stories, err := demo.Load(crowsnest.Incidents())
	require.NoError(l.t, err)
	for i := range stories {
		stories[i].Now = stories[i].End
		want = append(want, stories[i].Fires...)
	}
	dir := l.t.TempDir()
	require.NoError(l.t, demo.NewPlay(dir, stories, now).Past())
	logs, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.log"))
	require.NoError(l.t, err)
	lines := map[string][]string{} // of an instance: some stories share pods
	for _, path := range logs {
		data, err := os.ReadFile(path)
		require.NoError(l.t, err)
		folder := filepath.Dir(path)
		names := strings.Split(filepath.Base(filepath.Dir(folder)), "_")
		instance := strings.Join([]string{names[0], names[1], filepath.Base(folder), filepath.Base(path)}, "/")
		lines[instance] = append(lines[instance], strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
	}
	for _, instance := range slices.Sorted(maps.Keys(lines)) {
		names := strings.Split(instance, "/")
		var c *kubelab.Container
		if names[3] == "0.log" {
			c = l.run(names[0], names[1], names[2])
		} else {
			c = l.kubelet.Start(names[0], names[1], names[2])
			l.SetStatus(names[0], names[1], kubelab.ContainerStatus{Name: names[2], Restarts: c.Restarts()})
		}
		slices.Sort(lines[instance])
		for _, line := range lines[instance] {
			f := strings.SplitN(line, " ", 4)
			at, err := time.Parse(time.RFC3339Nano, f[0])
			require.NoError(l.t, err)
			c.Log(at, f[3])
		}
	}
	return want
}

// scanned is what a scan of the cluster did.
type scanned struct {
	code       int
	out, err   string
	took       time.Duration
	memory     int64 // peak, bytes
	Alerts     []struct{ Labels map[string]string }
	NotSeen    []struct{ What, Why, Rule string } `json:"not_seen"`
	NotSeenRaw json.RawMessage
}

// command prepares a scan with a kubeconfig. Its temporary folder is empty at the end.
func (l *clusterLab) command(kubeconfig string, args ...string) *exec.Cmd {
	l.t.Helper()
	tmp := l.t.TempDir()
	cmd := exec.Command(l.bin, append([]string{"scan", "--cluster"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "KUBECONFIG="+kubeconfig)
	l.t.Cleanup(func() {
		left, err := os.ReadDir(tmp)
		require.NoError(l.t, err)
		require.Empty(l.t, left, "the temporary files are removed")
	})
	return cmd
}

// scan runs a scan with -o json.
func (l *clusterLab) scan(kubeconfig string, args ...string) (s scanned) {
	l.t.Helper()
	cmd := l.command(kubeconfig, append([]string{"-o", "json"}, args...)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	began := time.Now()
	s.code = exitCodeOf(cmd.Run())
	s.took = time.Since(began)
	s.memory = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	s.out, s.err = out.String(), stderr.String()
	if out.Len() > 0 {
		require.NoError(l.t, json.Unmarshal(out.Bytes(), &s), "%s", s.out)
	}
	l.t.Logf("scan %v: exit code %d, %v, %d MiB\n%s", args, s.code, s.took.Round(time.Millisecond), s.memory>>20, s.err)
	return s
}

// has reports whether an alert has these labels.
func (s *scanned) has(want demo.Expected) bool {
	return slices.ContainsFunc(s.Alerts, func(a struct{ Labels map[string]string }) bool {
		for name, value := range want {
			if a.Labels[name] != value {
				return false
			}
		}
		return true
	})
}

// user returns the kubeconfig of a new person with rules in a namespace; "": everywhere.
func (l *clusterLab) user(name, in string, rules ...kubelab.Rule) string {
	l.t.Helper()
	l.ServiceAccount("kube-system", name)
	l.Grant("kube-system", name, in, rules...)
	return l.Kubeconfig("", l.Token("kube-system", name))
}

var (
	readLogs = []kubelab.Rule{
		{Groups: []string{""}, Resources: []string{"pods", "events"}, Verbs: []string{"list"}},
		{Groups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
	}
	_ = objects.DefaultKinds
)

// Everything that recorded logs of the incidents contain is found in the cluster where
// they happen.
func TestE2EClusterIncidents(t *testing.T) {
	l := newClusterLab(t, kubelab.Options{})
	want := l.play(time.Now())
	s := l.scan(l.Kubeconfig("", kubelab.Admin))
	require.Zero(t, s.code)
	for _, alert := range want {
		require.True(t, s.has(alert), fmt.Sprint(alert))
	}
}
