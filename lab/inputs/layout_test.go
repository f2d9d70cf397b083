package inputs

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources/kubelet"
)

const incidents = "../../testdata/incidents"

// podFile is a log of an incident, in the kubelet's layout.
type podFile struct {
	ns, pod, container string
	text               []byte // CRI
}

func podFiles(t *testing.T, dir string) []podFile {
	t.Helper()
	var out []podFile
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		l, ok := kubelet.PathLabels(path)
		if err != nil || e.IsDir() || !ok {
			return err
		}
		text, err := os.ReadFile(path)
		i := slices.IndexFunc(out, func(f podFile) bool { return f.pod == l["pod"] && f.container == l["container"] })
		if i >= 0 { // a restarted container
			out[i].text = append(out[i].text, text...)
			return err
		}
		out = append(out, podFile{l["namespace"], l["pod"], l["container"], text})
		return err
	}))
	return out
}

var (
	criHead = regexp.MustCompile(`(?m)^(\S+) (?:stdout|stderr) F `)
	hexID   = strings.Repeat("0123456789abcdef", 4)
)

// stamped returns the output of `kubectl logs --timestamps` for a CRI log.
func (f podFile) stamped() []byte { return criHead.ReplaceAll(f.text, []byte("$1 ")) }

// shipped compiles the shipped rules, once for all scans.
var shipped = sync.OnceValues(func() (replay.Target, error) {
	set, err := rules.Load(rules.Shipped())
	if err != nil {
		return replay.Target{}, err
	}
	prog, err := matcher.Compile(set)
	return replay.Target{Set: set, Program: prog}, err
})

// alertsOf returns the alerts that a scan of a folder finds, without their
// places.
func alertsOf(t *testing.T, dir string) []string {
	t.Helper()
	target, err := shipped()
	require.NoError(t, err)
	logs, _, err := Collect([]string{dir}, Options{PathLabels: kubelet.PathLabels, Unpack: t.TempDir()})
	require.NoError(t, err)
	report, err := replay.Scan(target.Set, target.Program, logs, replay.ScanOptions{Lenient: true, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	var out []string
	for _, a := range report.Alerts {
		delete(a.Episode.Labels, "cluster")
		delete(a.Episode.Labels, "node_name")
		out = append(out, fmt.Sprintf("%s %v %s %s", a.Episode.Alert, a.Episode.Labels, a.Episode.StartsAt, a.Episode.Annotations["remediation"]))
	}
	slices.Sort(out)
	return out
}

func TestLayouts(t *testing.T) {
	testLayouts(t, "vcluster-lease", "vcluster-lease-recovers", "autoscaler-conflict", "harvester-upgrade", "clusterctl-move")
}

// A scan reads its inputs at the same time.
func TestConcurrentReaders(t *testing.T) { testLayouts(t, "capi-aggregate") }

// testLayouts requires that a scan finds the same alerts in an incident however its logs are laid out.
func testLayouts(t *testing.T, names ...string) {
	t.Helper()
	layouts := map[string]func(dir string, f podFile) (path string, text []byte){
		"must-gather": func(dir string, f podFile) (string, []byte) {
			return filepath.Join(dir, "quay-io-sha256/namespaces", f.ns, "pods", f.pod, f.container, f.container, "logs/current.log"), f.stamped()
		},
		"support bundle": func(dir string, f podFile) (string, []byte) {
			return filepath.Join(dir, "logs", f.ns, f.pod, f.container+".log"), f.stamped()
		},
		"support bundle, previous": func(dir string, f podFile) (string, []byte) {
			return filepath.Join(dir, "cluster-resources/pods/logs", f.ns, f.pod, f.container+"-previous.log"), f.stamped()
		},
		"Cluster API": func(dir string, f podFile) (string, []byte) {
			deployment, _, _ := strings.Cut(f.pod, "-")
			return filepath.Join(dir, "clusters/mgmt/logs", f.ns, deployment, f.pod, f.container+".log"), f.stamped()
		},
		"containers": func(dir string, f podFile) (string, []byte) {
			return filepath.Join(dir, "var/log/containers", f.pod+"_"+f.ns+"_"+f.container+"-"+hexID+".log"), f.text
		},
		"kind": func(dir string, f podFile) (string, []byte) {
			write(t, dir+"/node-1/kubelet.log", "I1122 10:00:00.000000 1 kubelet.go:1] started\n")
			return filepath.Join(dir, "node-1/pods", f.ns+"_"+f.pod+"_"+hexID[:8], f.container, "0.log"), f.text
		},
		"node": func(dir string, f podFile) (string, []byte) {
			return filepath.Join(dir, "nodes/n1/var/log/pods", f.ns+"_"+f.pod+"_"+hexID[:8], f.container, "0.log"), f.text
		},
	}
	for _, incident := range names {
		files := podFiles(t, filepath.Join(incidents, incident))
		want := alertsOf(t, filepath.Join(incidents, incident))
		for name, layout := range layouts {
			dir := t.TempDir()
			for _, f := range files {
				path, text := layout(dir, f)
				write(t, path, string(text))
			}
			require.Equal(t, want, alertsOf(t, dir), "%s in the layout %s", incident, name)
			require.Equal(t, want, alertsOf(t, archived(t, dir)), "%s in an archive of the layout %s", incident, name)
		}
		require.Equal(t, want, alertsOf(t, dumped(t, files)), "%s in a dump", incident)
	}
}

// archived returns a zip archive which contains a tar.gz archive of a folder, as the
// bundles of Harvester contain those of nodes.
func archived(t *testing.T, dir string) string {
	t.Helper()
	var inner bytes.Buffer
	gz := gzip.NewWriter(&inner)
	tw := tar.NewWriter(gz)
	require.NoError(t, tw.AddFS(os.DirFS(dir)))
	require.NoError(t, tw.Close())
	require.NoError(t, gz.Close())
	var outer bytes.Buffer
	zw := zip.NewWriter(&outer)
	f, err := zw.Create("bundle/nodes/node-1.tar.gz")
	require.NoError(t, err)
	_, err = inner.WriteTo(f)
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	return write(t, filepath.Join(t.TempDir(), "bundle.zip"), outer.String())
}

// dumped writes pods like `kubectl cluster-info dump`. Each container also
// wrote a line that looks like the start of another section.
func dumped(t *testing.T, files []podFile) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.ns, f.pod, "logs.txt")
		before, _ := os.ReadFile(path)
		write(t, path, fmt.Sprintf("%s==== START logs for container %s of pod %s/%s ====\n%s%s==== END logs for container %[2]s of pod %[3]s/%[4]s ====\n",
			before, f.container, f.ns, f.pod, "==== START logs for container other of pod kube-system/other ====\n", f.stamped()))
	}
	return dir
}

func TestPrefixedLines(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	text := "[pod/a-1/manager] one\n[pod/b-1/manager] two\n[pod/a-1/manager] " + long + "\nno prefix\n[pod/a-1/../x] odd\n[pod/b-1/manager] last"
	dir := t.TempDir()
	path := write(t, dir+"/x.log", text)
	f := func(in []replay.Input, name string) {
		t.Helper()
		got := map[string]string{}
		for _, i := range in {
			rc, err := i.Open()
			require.NoError(t, err)
			var b bytes.Buffer
			_, err = b.ReadFrom(rc)
			require.NoError(t, err)
			require.NoError(t, rc.Close())
			got[i.Name+" "+i.StreamLabels()["pod"]+" "+i.StreamLabels()["container"]] = b.String()
		}
		require.Equal(t, map[string]string{
			name + "  ":                        "no prefix\n[pod/a-1/../x] odd\n",
			name + "[a-1/manager] a-1 manager": "one\n" + long + "\n",
			name + "[b-1/manager] b-1 manager": "two\nlast\n",
		}, got)
	}
	in, _, err := Collect([]string{path}, Options{})
	require.NoError(t, err)
	f(in, path)
	in, _, err = Collect([]string{Stdin}, Options{Stdin: strings.NewReader(text), Unpack: dir})
	require.NoError(t, err)
	f(in, "stdin")
}

func TestLayoutLabels(t *testing.T) {
	f := func(path string, want matcher.Labels) {
		t.Helper()
		got := layoutLabels(path)
		delete(got, "filename")
		require.Equal(t, want, got)
	}
	pod := matcher.Labels{"namespace": "ns", "pod": "p-1", "container": "c"}
	f("x/namespaces/ns/pods/p-1/c/c/logs/previous.insecure.log", pod)
	f("x/namespaces/ns/pods/p-1/c/c/logs/rotated/0.log.20260102-030405.gz", pod)
	f("b/logs/ns/p-1/c.log", pod)
	f("b/logs/ns/p-1/c.log.1", pod)
	f("b/logs/ns/p-1/c.log.2026-01-02T03:04:05.gz", pod)
	f("b/logs/ns/p-1/c-previous.log", pod)
	f("ns/p-1/logs.txt", matcher.Labels{"namespace": "ns", "pod": "p-1"})
	f("clusters/east/logs/ns/p/p-1/c.log", matcher.Labels{"namespace": "ns", "pod": "p-1", "container": "c", "cluster": "east"})
	f("bundle/nodes/n1/logs/rke2-server.log", matcher.Labels{"node_name": "n1"})
	f("logs/app.log", matcher.Labels{})
	f("pods/ns_p-1_uid/c/0.log", matcher.Labels{}) // the kubelet's layout
	f("b/logs/$(id)/p-1/c.log", matcher.Labels{"pod": "p-1", "container": "c"})
}

// Files of unknown pods may come from different clusters: a line in one does
// not end a failure of another. Rotated files of one log belong together.
func TestUnknownPodsAreKeptApart(t *testing.T) {
	lost := "E0101 10:00:00.000000       1 leaderelection.go:308] Failed to release lock: context deadline exceeded\nE0101 10:00:01.000000       1 leaderelection.go:332] error retrieving resource lock kube-system/kube-controller-manager: timed out\nI0101 10:00:02.000000       1 leaderelection.go:285] failed to renew lease kube-system/kube-controller-manager: timed out waiting for the condition\nF0101 10:00:02.100000       1 controllermanager.go:302] leaderelection lost\n"
	won := "I0101 10:00:20.000000       1 leaderelection.go:258] successfully acquired lease kube-system/kube-controller-manager\n"
	alerts := func(files map[string]string) []string {
		dir := t.TempDir()
		for name, text := range files {
			write(t, filepath.Join(dir, name), text)
		}
		return alertsOf(t, dir)
	}
	require.NotEmpty(t, alerts(map[string]string{"east.log": lost}))
	require.NotEmpty(t, alerts(map[string]string{"east.log": lost, "west.log": won}))
	require.Empty(t, alerts(map[string]string{"east.log.1": lost, "east.log": won}))
	require.Empty(t, alerts(map[string]string{"kcm-previous.log": lost, "kcm.log": won}))
	require.Empty(t, alerts(map[string]string{"east.log": lost + won}))
}

func TestUnrotated(t *testing.T) {
	for path, want := range map[string]string{
		"a/x.log": "a/x.log", "x.log.1": "x.log", "x.log.2.gz": "x.log", "x.log-20260102.gz": "x.log", "x-previous.log": "x.log",
		"x.previous.log": "x.log", "x.log.20260102-030405": "x.log", "x": "x", "node-1": "node-1", "node-1.log": "node-1.log", "x.gz": "x",
		"x-2026-01-02T03-04-05.678.log.gz": "x.log", "x-20260102.log": "x.log", "x.log.old": "x.log", "x_prev.txt": "x.txt", "a/previous.log": "a/current.log",
		"a/current.log": "a/current.log", "x.log-20260102.zst": "x.log", "cp-1.log.3.xz": "cp-1.log", "node-10.0.0.1.log": "node-10.0.0.1.log", "threshold.log": "threshold.log",
		"x-20260102": "x", "10.0.0.1": "10.0.0.1", "kubelet-10.0.0.1": "kubelet-10.0.0.1", "10.0.0.1.log.1": "10.0.0.1.log", "node-2026.log": "node-2026.log",
	} {
		require.Equal(t, want, unrotated(path))
	}
}
