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
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"crowsnest"
	"crowsnest/cli/internal/demo"
	"crowsnest/test/kubelab"
	"crowsnest/test/servers"
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
	require.NoError(l.t, demo.NewPlay(dir, stories, now).WritePast())
	logs, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.log"))
	require.NoError(l.t, err)
	lines := map[string][]string{} // lines by instance, because some stories share pods
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
	code     int
	out, err string
	took     time.Duration
	memory   int64 // peak, bytes
	Alerts   []struct{ Labels map[string]string }
	NotSeen  []struct{ What, Why, Rule string } `json:"not_seen"`
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
	if len(rules) > 0 {
		l.Grant("kube-system", name, in, rules...)
	}
	return l.Kubeconfig("", l.Token("kube-system", name))
}

// readLogs is what a role needs so that logs and Events are seen.
var readLogs = []kubelab.Rule{
	{Groups: []string{""}, Resources: []string{"pods", "events"}, Verbs: []string{"list"}},
	{Groups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
}

// shippedRole returns the rules of deploy/scan-role.yaml.
func shippedRole(t *testing.T) (out []kubelab.Rule) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repoRoot, "deploy/scan-role.yaml"))
	require.NoError(t, err)
	role, _, _ := strings.Cut(string(data), "\n---\n")
	var of struct {
		Rules []kubelab.Rule `json:"rules"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(role), &of))
	return of.Rules
}

// auditPolicy records all requests of the account that scans.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, users: ["system:serviceaccount:kube-system:reader"]}, {level: None}]
`

// Everything that recorded logs of the incidents contain is found in the cluster where
// they happen, as far as the person may read it.
func TestE2EClusterIncidents(t *testing.T) {
	audit := t.TempDir()
	policy, requests := filepath.Join(audit, "policy.yaml"), filepath.Join(audit, "requests")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	l := newClusterLab(t, kubelab.Options{APIServerArgs: []string{"--audit-policy-file", policy, "--audit-log-path", requests}})
	want := l.play(time.Now())
	l.run("shop", "web-0", "web").Log(time.Now(), "hello")
	reader := l.user("reader", "", shippedRole(t)...)

	t.Run("all", func(t *testing.T) {
		s := l.scan(reader)
		require.Zero(t, s.code)
		require.Len(t, s.NotSeen, 1, "the journals of nodes")
		for _, alert := range want {
			require.True(t, s.has(alert), fmt.Sprint(alert))
		}
		require.NotContains(t, s.out, "shop/web-0", "no rule is about it")
		require.Contains(t, l.scan(reader, "-A").out, "shop/web-0")
	})
	t.Run("reads only", func(t *testing.T) {
		data, err := os.ReadFile(requests)
		require.NoError(t, err)
		n := 0
		for line := range strings.Lines(string(data)) {
			var r struct {
				Verb      string
				ObjectRef struct{ Resource, Subresource string }
			}
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			require.Contains(t, []string{"get", "list"}, r.Verb)
			require.NotEqual(t, "secrets", r.ObjectRef.Resource)
			n++
		}
		require.Greater(t, n, 20)
	})
	t.Run("one namespace", func(t *testing.T) {
		maple := l.user("maple", "team-maple", readLogs...)
		for _, args := range [][]string{nil, {"-A"}, {"-n", "team-maple"}} {
			config := maple
			if args == nil || args[0] == "-A" {
				config = inNamespace(t, maple, "team-maple")
			}
			s := l.scan(config, args...)
			require.Zero(t, s.code)
			require.Len(t, s.Alerts, 1)
			require.Equal(t, "VClusterControllerManagerLeaseLost", s.Alerts[0].Labels["alertname"])
			require.Contains(t, s.err, `not seen: nodes: forbidden; a role needs {apiGroups: [""], resources: [nodes], verbs: [list]}`)
			require.Contains(t, s.err, "not seen: leases.coordination.k8s.io of namespace team-maple: forbidden; a role needs {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list]}")
			require.Equal(t, len(args) != 2, strings.Contains(s.err, "not seen: pods and logs of other namespaces: forbidden; a role needs a ClusterRole"))
		}
		s := l.scan(maple, "-n", "team-maple,kube-system")
		require.Equal(t, 1, s.code)
		require.Len(t, s.Alerts, 1)
		require.Contains(t, s.err, "not seen: pods and logs of namespace kube-system: forbidden")
		s = l.scan(maple, "-n", "kube-system")
		require.Equal(t, 1, s.code)
		require.Contains(t, s.err, `pods of kube-system cannot be listed: forbidden; a role needs {apiGroups: [""], resources: [pods], verbs: [list]}`)
	})
	t.Run("no logs", func(t *testing.T) {
		s := l.scan(l.user("blind", "", readLogs[0]), "-n", "team-maple")
		require.Zero(t, s.code)
		require.Contains(t, s.err, `not seen: logs of team-maple/maple-0/syncer: forbidden; a role needs {apiGroups: [""], resources: [pods/log], verbs: [get]}`)
	})
	t.Run("nothing", func(t *testing.T) {
		s := l.scan(l.user("nobody", ""))
		require.Equal(t, 1, s.code)
		require.Contains(t, s.err, "cannot be listed: forbidden")
		require.Empty(t, s.out)
	})
	t.Run("token", func(t *testing.T) {
		s := l.scan(l.Kubeconfig("", "expired"))
		require.Equal(t, 1, s.code)
		require.Contains(t, s.err, "the API server refuses the credentials, which may have expired; log in again")
	})
	t.Run("page", func(t *testing.T) {
		cmd := l.command(reader, "-o", "html")
		page, err := cmd.Output()
		require.NoError(t, err)
		require.Contains(t, string(page), "VClusterControllerManagerLeaseLost")
		require.NotContains(t, string(page), "/tmp/")
	})
	t.Run("kubectl", func(t *testing.T) {
		kubectl := servers.Program(t, "kubectl")
		dir := t.TempDir()
		require.NoError(t, os.Symlink(l.bin, filepath.Join(dir, "kubectl-crowsnest")))
		cmd := exec.Command(kubectl, "crowsnest", "--context", "lab", "-n", "team-maple", "-o", "json")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+reader, "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "VClusterControllerManagerLeaseLost")
		require.NotContains(t, string(out), "team-oak/")
	})
	t.Run("previous", func(t *testing.T) {
		now := time.Now()
		c := l.run("capi-system", "manager-0", "manager")
		c.Log(now.Add(-time.Minute), "panic: before the restart")
		c.Exit()
		c = l.kubelet.Start("capi-system", "manager-0", "manager")
		c.Log(now, "after it")
		l.SetStatus("capi-system", "manager-0", kubelab.ContainerStatus{Name: "manager", Restarts: 1, Ended: now.Add(-30 * time.Second)})
		s := l.scan(reader, "-n", "capi-system")
		require.Zero(t, s.code)
		require.Contains(t, s.out, "capi-system/manager-0/manager/0.log")
		require.Contains(t, s.out, "capi-system/manager-0/manager/1.log")
		require.NotContains(t, l.scan(reader, "-n", "capi-system", "--since", "10s").out, "manager-0/manager/0.log", "it had ended before")
	})
}

// inNamespace returns a copy of a kubeconfig whose context has a namespace.
func inNamespace(t *testing.T, kubeconfig, namespace string) string {
	t.Helper()
	data, err := os.ReadFile(kubeconfig)
	require.NoError(t, err)
	path := filepath.Join(filepath.Dir(kubeconfig), namespace)
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(data, []byte("cluster: lab, user"), []byte("cluster: lab, namespace: "+namespace+", user")), 0o600))
	return path
}

// Large clusters, within bounds of time and memory.
func TestE2EClusterSize(t *testing.T) {
	l := newClusterLab(t, kubelab.Options{})
	admin := l.Kubeconfig("", kubelab.Admin)
	const logs, size, objects = 300, 1 << 20, 10_000
	t.Run("300 logs of 1 MiB", func(t *testing.T) {
		const line = `I1120 16:00:00.000000       1 controller.go:114] "Reconciling" controller="machine" namespace="default" name="machine-%06d" reconcileID="4f1c2d3e"`
		began := time.Now().Add(-30 * time.Minute)
		for i := range logs {
			c := l.run("capi-system", fmt.Sprintf("manager-%d", i), "manager")
			for n, written := 0, 0; written < size; n++ {
				text := fmt.Sprintf(line, n)
				c.Log(began.Add(time.Duration(n)*100*time.Millisecond), text)
				written += len(text) + 1
			}
		}
		s := l.scan(admin)
		require.Zero(t, s.code)
		require.Len(t, s.NotSeen, 1, "the journals of nodes")
		require.Len(t, regexp.MustCompile(`"as": "pod log"`).FindAllString(s.out, -1), logs)
		require.Less(t, s.took, time.Minute)
		require.Less(t, s.memory, int64(maxScanMemory))
	})
	t.Run("10,000 pods", func(t *testing.T) {
		for i := range objects {
			if i%500 == 0 {
				l.namespace(fmt.Sprintf("team-%d", i/500))
			}
			l.Pod(kubelab.PodSpec{Namespace: fmt.Sprintf("team-%d", i/500), Name: fmt.Sprintf("syncer-%d", i), Node: "node-1", Containers: []string{"syncer"}})
		}
		s := l.scan(admin, "-o", "json", "-A")
		require.Zero(t, s.code)
		require.Len(t, s.NotSeen, 1, "the journals of nodes")
		require.Less(t, s.took, time.Minute)
		require.Less(t, s.memory, int64(maxScanMemory))
	})
}

// If anything fails while a cluster is read, the scan reports the failure, ends and leaves no file.
func TestE2EClusterFails(t *testing.T) {
	l := newClusterLab(t, kubelab.Options{})
	slow := kubelab.NewProxy(t, l.kubelet.Port())
	l.Node("node-2", slow.Port())
	admin := l.Kubeconfig("", kubelab.Admin)
	l.namespace("capi-system")
	for i := range 40 {
		node := fmt.Sprintf("node-%d", 1+i/39)
		pod := fmt.Sprintf("manager-%02d", i)
		l.Pod(kubelab.PodSpec{Namespace: "capi-system", Name: pod, Node: node, Containers: []string{"manager"}})
		l.kubelet.Start("capi-system", pod, "manager").Log(time.Now(), "a line")
		l.SetStatus("capi-system", pod, kubelab.ContainerStatus{Name: "manager"})
	}
	t.Run("a log hangs", func(t *testing.T) {
		l.run("hung", "syncer-0", "syncer").Hang()
		s := l.scan(admin)
		require.Equal(t, 1, s.code)
		require.Contains(t, s.err, "not seen: logs of hung/syncer-0/syncer: the log broke off: no answer for 20s")
		require.Contains(t, s.err, "a part of the cluster could not be read")
		require.Contains(t, s.out, "capi-system/manager-38/manager")
		l.DeletePod("hung", "syncer-0")
		require.Less(t, s.took, 40*time.Second)
	})
	t.Run("the node is gone", func(t *testing.T) {
		slow.Down(true)
		defer slow.Down(false)
		s := l.scan(admin)
		require.Equal(t, 1, s.code)
		require.Regexp(t, "not seen: logs of capi-system/manager-39/manager: the API server answers 50", s.err)
	})
	// waiting returns a scan that waits for a log.
	waiting := func(t *testing.T) (cmd *exec.Cmd, stderr *bytes.Buffer) {
		slow.Hang(true)
		t.Cleanup(func() { slow.Hang(false) })
		before := len(l.kubelet.Requests())
		cmd, stderr = l.command(admin), &bytes.Buffer{}
		cmd.Stderr = stderr
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { return len(l.kubelet.Requests()) >= before+39 }, time.Minute, 10*time.Millisecond)
		return cmd, stderr
	}
	t.Run("interrupted", func(t *testing.T) {
		cmd, _ := waiting(t)
		began := time.Now()
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.Error(t, cmd.Wait())
		require.Equal(t, syscall.SIGINT, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		require.Less(t, time.Since(began), 5*time.Second)
	})
	t.Run("API server killed", func(t *testing.T) {
		cmd, stderr := waiting(t)
		l.StopAPI()
		began := time.Now()
		require.Equal(t, 1, exitCodeOf(cmd.Wait()))
		require.Less(t, time.Since(began), 20*time.Second)
		t.Log(stderr)
		require.Contains(t, stderr.String(), "not seen: logs of capi-system/manager-39/manager: the download ended before these were read")
		require.Contains(t, stderr.String(), "only a part of the cluster was read: the API server cannot be reached: ")
	})
	t.Run("no API server", func(t *testing.T) {
		s := l.scan(admin)
		require.Equal(t, 1, s.code)
		require.Contains(t, s.err, "crowsnest: the API server cannot be reached: ")
		require.Empty(t, s.out)
		l.StartAPI()
	})
}
