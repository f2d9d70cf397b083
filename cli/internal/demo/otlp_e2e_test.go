//go:build e2e

package demo

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest"
	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// A real OpenTelemetry collector reads the logs of all stories and sends them to the real program. Exactly the alerts of
// the stories arrive, and each names the cluster and the container whose log it comes from.
func TestE2EStoriesOverOTLP(t *testing.T) {
	stories, err := Load(crowsnest.Incidents())
	require.NoError(t, err)
	am := fakeam.New()
	address := serveAlertmanager(t, am)
	d, otlp := newOTLPDaemon(t, address)
	pods := filepath.Join(d.Dir, "pods")
	play := NewPlay(pods, stories, time.Now())
	require.NoError(t, play.WritePast())
	servers.Collector(t, servers.CollectorOptions{Pods: pods, Endpoint: otlp, Node: "n1"})
	ctx, cancel := context.WithCancel(t.Context())
	played := make(chan error, 2)
	go func() { played <- play.Live(ctx) }()
	go func() { played <- writeRegularly(ctx, pods) }()
	defer func() {
		cancel()
		require.NoError(t, <-played)
		require.NoError(t, <-played)
	}()

	var fires, resolves []Expected
	for _, s := range stories {
		fires, resolves = append(fires, s.Fires...), append(resolves, s.Resolves...)
	}
	missing := func() (out []string) {
		for _, e := range fires {
			if a := find(am, e); a == nil || slices.ContainsFunc(resolves, func(r Expected) bool { return e.coversLabels(r) }) && !a.Resolved {
				out = append(out, fmt.Sprint(e))
			}
		}
		return out
	}
	wait.Until(6*time.Minute, func() bool { return len(missing()) == 0 })
	require.Empty(t, missing())
	for name, all := range am.All() {
		for _, a := range all {
			labels := a.Alert.Labels
			if name == "CrowsnestHeartbeat" {
				continue
			}
			require.True(t, slices.ContainsFunc(fires, func(e Expected) bool { return e.coversLabels(labels) }), "unexpected: %v", labels)
			require.Equal(t, "lab", labels["cluster"])
			from := origin.FindStringSubmatch(a.Alert.Annotations["origin"])
			require.Len(t, from, 4, a.Alert.Annotations["origin"])
			logs, err := filepath.Glob(filepath.Join(pods, from[1]+"_"+from[2]+"_*", from[3], "*.log"))
			require.NoError(t, err)
			require.NotEmpty(t, logs, a.Alert.Annotations["origin"])
		}
	}
}

var origin = regexp.MustCompile(`^cluster lab, namespace (\S+), pod (\S+), container (\S+), node n1$`)

func serveAlertmanager(t *testing.T, am *fakeam.AM) string {
	s := httptest.NewServer(am)
	t.Cleanup(s.Close)
	return s.URL
}

// newOTLPDaemon starts the real program with the shipped rules, and returns the address to which a collector sends.
func newOTLPDaemon(t *testing.T, alertmanager string) (d *daemon.Daemon, endpoint string) {
	dir := t.TempDir()
	d = &daemon.Daemon{Dir: dir, Binary: filepath.Join(dir, "crowsnest")}
	require.NoError(t, daemon.Build(d.Binary))
	var err error
	d.Addr, err = daemon.FreeAddr()
	require.NoError(t, err)
	listen, err := daemon.FreeAddr()
	require.NoError(t, err)
	require.NoError(t, d.Configure(fmt.Sprintf(`
sources: {otlp: {listen_address: %q, lateness: 5s}}
sinks: {alertmanager: {urls: [%q], min_firing: 0s}}
`, listen, alertmanager)))
	t.Cleanup(func() {
		_, _ = d.End(syscall.SIGKILL)
		if t.Failed() {
			t.Log(d.LogEnd())
		}
	})
	require.NoError(t, d.Start())
	require.NoError(t, d.Ready(t.Context(), time.Minute))
	return d, "http://" + listen
}

// writeRegularly writes a line every second until ctx ends, because OTLP has no other sign that a sender is alive.
func writeRegularly(ctx context.Context, pods string) error {
	c := kubesim.New(kubesim.Options{Root: pods, Namespace: "team-a", Pod: "app-0", Container: "app"})
	defer c.Close()
	for ctx.Err() == nil {
		c.Write("stdout", "a line")
		wait.Pause(ctx, time.Second)
	}
	return c.Err
}

// find returns the newest state of the alert with these labels; nil if there is none.
func find(am *fakeam.AM, e Expected) *fakeam.Accepted {
	all := am.Accepted(e["alertname"])
	for _, a := range slices.Backward(all) {
		if e.coversLabels(a.Alert.Labels) {
			return &a
		}
	}
	return nil
}
