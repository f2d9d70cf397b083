package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crowsnest/test/fakeam"
)

// daemon is the binary under measurement and what is around it.
type daemon struct {
	dir  string // of this run
	pods string
	cmd  *exec.Cmd
	addr string
	am   *fakeam.Server
}

const config = `rules:
  shipped: false
  paths: ["%s", "%s"]
sources:
  kubelet: {dir: "%s", look_back: 876000h}
sinks:
  alertmanager: {urls: ["%s"], resend_delay: 1m, min_firing: 2s}
limits: {active_alerts: 10000}
`

// probePack tells how long it takes from a line to its alert.
const probePack = `pack: {name: load-probe, version: "1.0.0"}
rules:
- alert: LoadProbe
  from: '{container="probe"}'
  match: {regex: 'probe of the load (?P<probe>[0-9]+)'}
  by: [probe]
  limit: 10000
  keep_firing_for: 1h
  severity: info
  annotations: {summary: s}
  remediation: {summary: s, steps: ["x"]}
`

// newDaemon prepares a run and starts nothing but the fake Alertmanager.
func newDaemon(o options) (*daemon, error) {
	dir, err := os.MkdirTemp(o.dir, "run-")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, pods: filepath.Join(dir, "pods")}
	probe, rules := filepath.Join(dir, "probe.yaml"), filepath.Join(dir, "rules")
	if err := errors.Join(os.MkdirAll(d.pods, 0o755), os.WriteFile(probe, []byte(probePack), 0o600), linkRules(rules, o.rules)); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	if d.am, err = fakeam.Serve(fakeam.New()); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(config, rules, probe, d.pods, d.am.URL)
	return d, os.WriteFile(filepath.Join(dir, "crowsnest.yml"), []byte(text), 0o600)
}

// linkRules makes a folder of rules whose packs are those at path.
func linkRules(dir, path string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := []string{path}
	if fi, err := os.Stat(path); err != nil {
		return err
	} else if fi.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return err
		}
	}
	for i, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// start starts the daemon and waits until it is ready.
func (d *daemon) start(ctx context.Context, o options) error {
	log, err := os.Create(filepath.Join(d.dir, "daemon.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command(o.binary, "run", "--config.file", filepath.Join(d.dir, "crowsnest.yml"), "--storage.path", filepath.Join(d.dir, "state"),
		"--web.listen-address", d.addr, "--web.enable-lifecycle", "--web.enable-pprof", "--log.format=json")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Env = append(os.Environ(), o.env...)
	if err := d.cmd.Start(); err != nil {
		return err
	}
	return await(ctx, time.Minute, func() error {
		_, err := d.request(ctx, http.MethodGet, "/-/ready")
		return err
	})
}

// stop ends the daemon and returns what the whole process took.
func (d *daemon) stop() (*syscall.Rusage, error) {
	if d.cmd == nil || d.cmd.Process == nil {
		return nil, errors.New("the daemon was not started")
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	guard := time.AfterFunc(20*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer guard.Stop()
	err := d.cmd.Wait()
	d.am.Stop()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(d.dir, "daemon.log"))
		return nil, fmt.Errorf("the daemon: %w: %s", err, log[max(0, len(log)-2000):])
	}
	usage, ok := d.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, errors.New("this system does not say what a process took")
	}
	return usage, os.RemoveAll(d.dir)
}

func (d *daemon) request(ctx context.Context, method, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.addr+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// metric returns one series.
func (d *daemon) metric(ctx context.Context, series string) (float64, error) {
	body, err := d.request(ctx, http.MethodGet, "/metrics")
	if err != nil {
		return 0, err
	}
	for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); {
		if value, ok := strings.CutPrefix(sc.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("there is no series %s", series)
}

const linesRead = `crowsnest_source_lines_total{source="kubelet"}`

// cpu is what the running daemon has taken, user and system.
func (d *daemon) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2) // USER_HZ is 100 for every process
}

// status returns a size of /proc/PID/status in MiB, such as VmHWM.
func (d *daemon) status(name string) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(b), name+":")
	n, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), " kB"), 64)
	return n / 1024
}

// io returns how many bytes the daemon has read so far.
func (d *daemon) io() int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", d.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(b), "rchar: ")
	n, _ := strconv.ParseInt(strings.SplitN(rest, "\n", 2)[0], 10, 64)
	return n
}

// await waits until f has no error any more.
func await(ctx context.Context, patience time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
