package hostile

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
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

// patience bounds every wait; it measures nothing.
const patience = 60 * time.Second

// victim is the daemon under attack, with the logs it reads and the receiver it
// notifies.
type victim struct {
	*daemon.Daemon
	t     *testing.T
	pods  string
	links []string // planted among the logs
	am    *fakeam.AM
}

// config is the common configuration; tests fill in the rest.
const config = `global: {external_url: "https://crowsnest.example.org/base"}
rules:
  shipped: %v
  paths: [%s]
  infrastructure_namespaces: [%s]
sources:
  kubelet: {dir: %s}
sinks:
  alertmanager:
    urls: [%q]
    resend_delay: 5s
    min_firing: 1s
    http_config: {basic_auth: {username: u, password: %s}}
  stdout: {}
limits: {active_alerts: 5000, alerts_per_namespace: 5000}
`

// password is that of the receiver: it is in the configuration and must not
// appear in any output.
const password = "Tr0ub4dor-and-3-horses"

// newVictim prepares everything and starts nothing. packs are by file name.
// trusted are additional trusted namespaces.
func newVictim(t *testing.T, shipped bool, packs map[string]string, trusted ...string) *victim {
	t.Helper()
	dir := t.TempDir()
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	d := &victim{
		t: t, pods: filepath.Join(dir, "pods"), am: fakeam.New(),
		Daemon: &daemon.Daemon{Binary: binary, Dir: dir, Addr: addr, Flags: []string{"--log.level=debug"}},
	}
	require.NoError(t, os.Mkdir(d.pods, 0o755))
	server, err := fakeam.Serve(d.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	var paths []string
	for name, text := range packs {
		paths = append(paths, filepath.Join(dir, name))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, d.Configure(fmt.Sprintf(config, shipped, strings.Join(paths, ", "), strings.Join(append(trusted, "+kube-system"), ", "), d.pods, server.URL, password)))
	return d
}

// start starts the daemon and waits until it is ready.
func (d *victim) start() {
	d.t.Helper()
	require.NoError(d.t, d.Start())
	d.t.Cleanup(d.stop)
	require.NoError(d.t, d.Ready(d.t.Context(), patience))
}

// stop ends the daemon as the kubelet does. Afterwards its state is on disk.
func (d *victim) stop() {
	if _, err := d.End(syscall.SIGTERM); err != nil {
		d.t.Errorf("after SIGTERM: %v\n%s", err, d.LogEnd())
	}
}

// container returns a container whose lines all have the given age.
func (d *victim) container(ns, pod, container string, age time.Duration) *kubesim.Container {
	d.t.Helper()
	uid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", rand.Uint32())
	c := kubesim.New(kubesim.Options{
		Root: d.pods, Namespace: ns, Pod: pod, Container: container, UID: uid,
		Clock: func() time.Time { return time.Now().Add(-age) },
	})
	d.t.Cleanup(c.Close)
	return c
}

// get returns a response of the daemon with any status.
func (d *victim) get(path string) (code int, head http.Header, body string, err error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + d.Addr + path)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

// page returns the body of a response that must succeed.
func (d *victim) page(path string) string {
	d.t.Helper()
	body, err := d.Get(d.t.Context(), path)
	require.NoError(d.t, err)
	return body
}

// metric returns one series, 0 if it does not exist.
func (d *victim) metric(series string) float64 {
	all, _ := d.Metrics(d.t.Context())
	return all[series]
}

// hasRead waits until the given number of physical lines was read.
func (d *victim) hasRead(lines int) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("%d lines are read", lines), func() bool {
		return d.metric(daemon.LinesRead) >= float64(lines)
	})
}

// command runs another command of crowsnest and returns its whole output.
func (d *victim) command(stdin string, args ...string) string {
	d.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(d.t, cmd.Run(), "%s: %s", args, out.String())
	return out.String()
}

// eventually waits for a condition.
func (d *victim) eventually(what string, ok func() bool) {
	d.t.Helper()
	if !wait.Until(patience, ok) {
		require.Fail(d.t, what, "%s", d.LogEnd())
	}
}
