package hostile

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
)

// patience bounds every wait; nothing is measured.
const patience = 60 * time.Second

// daemon is a running `crowsnest run` with the logs it reads and the receiver it
// tells.
type daemon struct {
	t    *testing.T
	dir  string
	pods string
	am   *fakeam.AM
	addr string

	cmd *exec.Cmd
	out lockedBuffer // stdout and stderr
}

// config is what every daemon here runs with; what differs is filled in.
const config = `global: {external_url: "https://crowsnest.example.org/base"}
rules:
  shipped: %v
  paths: [%s]
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

// password is that of the receiver: it is in the configuration and must not be
// in anything that is shown.
const password = "Tr0ub4dor-and-3-horses"

// newDaemon prepares everything and starts nothing. packs are by file name.
func newDaemon(t *testing.T, shipped bool, packs map[string]string) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{t: t, dir: dir, pods: filepath.Join(dir, "pods"), am: fakeam.New(), addr: freeAddr(t)}
	require.NoError(t, os.Mkdir(d.pods, 0o755))
	server, err := fakeam.Serve(d.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	var paths []string
	for name, text := range packs {
		paths = append(paths, filepath.Join(dir, name))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	text := fmt.Sprintf(config, shipped, strings.Join(paths, ", "), d.pods, server.URL, password)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crowsnest.yml"), []byte(text), 0o600))
	return d
}

// freeAddr returns a loopback address below the ports of passing connections.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.N(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	require.Fail(t, "no free port")
	return ""
}

// start starts the daemon and waits until it is ready.
func (d *daemon) start() {
	d.t.Helper()
	d.cmd = exec.Command(binary, "run", "--config.file", filepath.Join(d.dir, "crowsnest.yml"), "--storage.path", d.statePath(),
		"--web.listen-address", d.addr, "--log.format=json", "--log.level=debug")
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(d.t, d.cmd.Start())
	d.t.Cleanup(d.stop)
	d.eventually("the daemon is ready", func() bool {
		code, _, _, err := d.get("/-/ready")
		return err == nil && code == http.StatusOK
	})
}

// stop ends the daemon as the kubelet does. Its state is on the disk then.
func (d *daemon) stop() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	guard := time.AfterFunc(20*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer guard.Stop()
	err := d.cmd.Wait()
	d.cmd = nil
	if err != nil {
		d.t.Errorf("after SIGTERM: %v\n%s", err, d.out.tail())
	}
}

func (d *daemon) statePath() string { return filepath.Join(d.dir, "state") }

// container makes a container whose lines are all as old as age.
func (d *daemon) container(ns, pod, container string, age time.Duration) *kubesim.Container {
	d.t.Helper()
	uid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", rand.Uint32())
	c := kubesim.New(kubesim.Options{
		Root: d.pods, Namespace: ns, Pod: pod, Container: container, UID: uid,
		Clock: func() time.Time { return time.Now().Add(-age) },
	})
	d.t.Cleanup(c.Close)
	return c
}

// get returns an answer of the daemon.
func (d *daemon) get(path string) (code int, head http.Header, body string, err error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + d.addr + path)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

// page is get that has to work.
func (d *daemon) page(path string) string {
	d.t.Helper()
	code, _, body, err := d.get(path)
	require.NoError(d.t, err)
	require.Equal(d.t, http.StatusOK, code, "%s: %s", path, body)
	return body
}

// metric returns one series, 0 where it is not there.
func (d *daemon) metric(series string) float64 {
	_, _, body, err := d.get("/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return v
		}
	}
	return 0
}

// hasRead waits until so many physical lines were read.
func (d *daemon) hasRead(lines int) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("%d lines are read", lines), func() bool {
		return d.metric(`crowsnest_source_lines_total{source="kubelet"}`) >= float64(lines)
	})
}

// command runs another command of the program and returns all that it prints.
func (d *daemon) command(stdin string, args ...string) string {
	d.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(d.t, cmd.Run(), "%s: %s", args, out.String())
	return out.String()
}

// eventually waits for a condition.
func (d *daemon) eventually(what string, ok func() bool) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			require.Fail(d.t, what, "%s", d.out.tail())
		}
		<-tick.C
	}
}

// lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) tail() string {
	s := l.String()
	return s[max(0, len(s)-3000):]
}
