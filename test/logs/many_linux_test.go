package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

const (
	many     = 41
	patience = 90 * time.Second // bounds every wait; it measures nothing
)

const pack = `pack: {name: logs, version: 1.0.0}
defaults: {severity: warning}
rules:
- {alert: LeaseLost, from: '{container="app"}', match: lease lost, clear: lease taken, for: 1s, by: [namespace, pod], annotations: {summary: It is lost.}}
- {alert: DiskFailed, from: '{container="app"}', match: disk failed, keep_firing_for: 1s, by: [namespace, pod], annotations: {summary: It failed.}}
`

const readerConfig = `global: {blind_after: 4s}
rules: {shipped: false, paths: [%s]}
sources:
  kubelet: {dir: %s}
sinks:
`

const aggregatorConfig = `global: {blind_after: 8s}
rules: {shipped: false, paths: [%s]}
sources:
  agents: {listen_address: %q}
sinks:
`

const alertmanagerConfig = `  alertmanager: {urls: [%q], resend_delay: 1s, min_firing: 0s}
`

// farm is a daemon that reads many logs, alone or as an agent of another daemon.
type farm struct {
	t      *testing.T
	reader *daemon.Daemon
	all    []*daemon.Daemon
	am     *fakeam.AM
	logs   []*kubesim.Container
	agent  bool
}

func newFarm(t *testing.T, agent bool) *farm {
	t.Helper()
	f := &farm{t: t, am: fakeam.New(), agent: agent}
	server, err := fakeam.Serve(f.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	dir := t.TempDir()
	rules, pods := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "pods")
	require.NoError(t, os.WriteFile(rules, []byte(pack), 0o600))
	require.NoError(t, os.Mkdir(pods, 0o755))
	for i := range many {
		c := kubesim.New(kubesim.Options{Root: pods, Namespace: "shop", Pod: pod(i), Container: "app"})
		t.Cleanup(c.Close)
		c.Write("stdout", "started")
		f.logs = append(f.logs, c)
	}
	cfg := fmt.Sprintf(readerConfig, rules, pods)
	if agent {
		listen, err := daemon.FreeAddr()
		require.NoError(t, err)
		f.daemon(dir, "aggregator", fmt.Sprintf(aggregatorConfig, rules, listen)+fmt.Sprintf(alertmanagerConfig, server.URL))
		f.reader = f.daemon(dir, "agent", cfg+fmt.Sprintf("  upstream: {url: \"http://%s\", node: n1}\n", listen))
	} else {
		f.reader = f.daemon(dir, "alone", cfg+fmt.Sprintf(alertmanagerConfig, server.URL))
	}
	for _, d := range f.all {
		require.NoError(t, d.Start())
	}
	f.eventually("everything is read", func() bool { return f.coverage() == f.full() })
	return f
}

func pod(i int) string { return fmt.Sprintf("pod-%02d", i%many) }

func (f *farm) daemon(dir, name, cfg string) *daemon.Daemon {
	addr, err := daemon.FreeAddr()
	require.NoError(f.t, err)
	d := &daemon.Daemon{Binary: program, Dir: filepath.Join(dir, name), Addr: addr}
	require.NoError(f.t, os.Mkdir(d.Dir, 0o755))
	require.NoError(f.t, d.Configure(cfg))
	f.t.Cleanup(func() { _, _ = d.End(syscall.SIGKILL) })
	f.all = append(f.all, d)
	return d
}

func (f *farm) eventually(what string, ok func() bool) {
	f.t.Helper()
	if wait.Until(patience, ok) {
		return
	}
	for _, d := range f.all {
		f.t.Logf("%s: %s", d.Dir, d.LogEnd())
	}
	for name, words := range f.am.All() {
		f.t.Logf("%s: %s, %v", name, f.am.States(name), words[len(words)-1])
	}
	require.Fail(f.t, what)
}

// coverage returns what the newest heartbeat says, "" if it has ended.
func (f *farm) coverage() string {
	words := f.am.Accepted("CrowsnestHeartbeat")
	if len(words) == 0 || words[len(words)-1].Resolved {
		return ""
	}
	return words[len(words)-1].Alert.Annotations["coverage"]
}

func (f *farm) full() string {
	if f.agent {
		return "full: agents (1 of 1 nodes)"
	}
	return "full: kubelet"
}

// covers reports whether the coverage says that one log is not read. A folder that cannot be
// listed counts as a log, beside those in it that are known.
func (f *farm) covers(w way) bool {
	c := f.coverage()
	return c == "partial: kubelet (40 of 41 logs)" || w.pod && c == "partial: kubelet (41 of 42 logs)" ||
		f.agent && c == "partial: agents (1 of 1 nodes, 1 unread logs on 1 nodes)"
}

// states returns the notified states of the alert of a pod.
func (f *farm) states(alert, pod string) string {
	var out []string
	for _, w := range f.am.Accepted(alert) {
		if w.Alert.Labels["pod"] != pod {
			continue
		}
		state := "firing"
		if w.Resolved {
			state = "resolved"
		}
		if len(out) == 0 || out[len(out)-1] != state {
			out = append(out, state)
		}
	}
	return strings.Join(out, " ")
}

// unread returns what the newest alert says about logs that are not read, "" if it has ended.
func (f *farm) unread() string {
	words := f.am.Accepted("CrowsnestLogsUnread")
	if len(words) == 0 || words[len(words)-1].Resolved {
		return ""
	}
	return words[len(words)-1].Alert.Annotations["description"]
}

// fails plants a failure with its recovery in one log and one without in another, and waits
// until both are notified and resolved.
func (f *farm) fails(lost, failed int) {
	f.t.Helper()
	f.logs[lost].Write("stderr", "lease lost")
	f.logs[failed].Write("stderr", "disk failed")
	f.eventually("the failures are notified", func() bool {
		return strings.HasSuffix(f.states("LeaseLost", pod(lost)), "firing") && strings.HasPrefix(f.states("DiskFailed", pod(failed)), "firing")
	})
	f.logs[lost].Write("stderr", "lease taken")
	f.eventually("the failures are resolved", func() bool {
		return f.states("LeaseLost", pod(lost)) == "firing resolved" && f.states("DiskFailed", pod(failed)) == "firing resolved"
	})
}

// round makes one log unreadable for a while.
func (f *farm) round(w way, bad int, kill bool) {
	f.t.Helper()
	mend := w.breaks(f.t, f.logs[bad])
	name := "shop/" + pod(bad)
	if !w.pod {
		name += "/app"
	}
	f.eventually("the log is named", func() bool { return strings.Contains(f.unread(), name+" (") && f.covers(w) })
	f.logs[bad].Write("stderr", "lease lost")
	if kill {
		_, _ = f.reader.End(syscall.SIGKILL)
		require.NoError(f.t, f.reader.Start())
	}
	near := func(d int) int { return (bad + d) % many }
	f.fails(near(1), near(2))
	require.Contains(f.t, f.unread(), name+" (")
	require.True(f.t, f.covers(w), f.coverage())
	mend()
	f.eventually("it is read", func() bool {
		return f.unread() == "" && f.coverage() == f.full() && f.states("LeaseLost", pod(bad)) == "firing"
	})
	f.logs[bad].Write("stderr", "lease taken")
	f.eventually("all of it is read", func() bool { return f.states("LeaseLost", pod(bad)) == "firing resolved" })
}

// judge checks that no false alert was notified.
func (f *farm) judge() {
	f.t.Helper()
	require.Equal(f.t, "firing", f.am.States("CrowsnestHeartbeat"))
	for name := range f.am.All() {
		require.Contains(f.t, []string{"CrowsnestHeartbeat", "CrowsnestLogsUnread", "LeaseLost", "DiskFailed"}, name, f.am.All()[name])
	}
	for _, d := range f.all {
		_, err := d.End(syscall.SIGTERM)
		require.NoError(f.t, err, d.LogEnd())
	}
}

// One of 41 logs cannot be read: the others are read as if it were not there, an alert and the
// coverage name it, and its lines are read once they can be, also over a kill.
func TestOneOfManyLogs(t *testing.T) {
	for i, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			if w.root && os.Geteuid() != 0 {
				t.Skip("only root can do this")
			}
			f := newFarm(t, i%3 == 2)
			f.round(w, 3*i, false)
			f.round(w, 3*i+3, true)
			f.judge()
		})
	}
}

// An archive that cannot be decompressed is a loss that is named; the log goes on behind it.
func TestDamagedArchive(t *testing.T) {
	t.Parallel()
	f := newFarm(t, false)
	c := f.logs[0]
	archive := c.Path() + ".20260102-150405.gz"
	c.RenameAway()
	require.NoError(t, os.WriteFile(archive, []byte("no archive"), 0o600))
	f.fails(1, 2)
	c.Reopen()
	f.fails(0, 3)
	lost := f.am.Accepted("CrowsnestLinesLost")
	require.NotEmpty(t, lost)
	require.Contains(t, lost[len(lost)-1].Alert.Annotations["description"], archive)
	require.Equal(t, f.full(), f.coverage())
}
