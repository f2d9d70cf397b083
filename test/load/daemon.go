package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
)

// run is the daemon under measurement with its environment.
type run struct {
	*daemon.Daemon
	pods string
	am   *fakeam.Server
}

const config = `rules:
  shipped: %t
  paths: ["%s"]
sources:
  kubelet: {dir: "%s", look_back: 8760h}
sinks:
  alertmanager: {urls: ["%s"], resend_delay: 1m, min_firing: 2s}
limits: {active_alerts: 10000}
`

// probePack measures the time from a line to its alert.
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

// newRun prepares a run and starts only the fake Alertmanager.
func newRun(o options) (*run, error) {
	dir, err := os.MkdirTemp(o.dir, "run-")
	if err != nil {
		return nil, err
	}
	addr, err := daemon.FreeAddr()
	if err != nil {
		return nil, err
	}
	d := &run{pods: filepath.Join(dir, "pods"), Daemon: &daemon.Daemon{
		Binary: o.binary, Dir: dir, Addr: addr, Flags: []string{"--web.enable-lifecycle", "--web.enable-pprof"},
	}}
	probe, rules := filepath.Join(dir, "probe.yaml"), filepath.Join(dir, "rules")
	if err := errors.Join(os.MkdirAll(d.pods, 0o755), os.WriteFile(probe, []byte(probePack), 0o600)); err != nil {
		return nil, err
	}
	paths, shipped := []string{probe}, o.rules == shippedRules
	if !shipped {
		if err := linkRules(rules, o.rules); err != nil {
			return nil, err
		}
		paths = append(paths, rules)
	}
	if d.am, err = fakeam.Serve(fakeam.New()); err != nil {
		return nil, err
	}
	return d, d.Configure(fmt.Sprintf(config, shipped, strings.Join(paths, `", "`), d.pods, d.am.URL))
}

// linkRules creates a rules folder with the packs at path.
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
func (d *run) start(ctx context.Context) error {
	if err := d.Start(); err != nil {
		return err
	}
	return d.Ready(ctx, time.Minute)
}

// stop ends the daemon and returns the CPU time of the whole process.
func (d *run) stop() (time.Duration, error) {
	proc := d.Process()
	if proc == nil {
		return 0, errors.New("the daemon was not started")
	}
	_, err := d.End(syscall.SIGTERM)
	d.am.Stop()
	if err != nil {
		return 0, fmt.Errorf("the daemon: %w: %s", err, d.LogEnd())
	}
	return proc.Used(), os.RemoveAll(d.Dir)
}

// mib returns a size from /proc/PID/status, such as VmHWM.
func (d *run) mib(name string) float64 { return float64(d.Process().Memory(name)) / 1024 }

// lines returns the number of lines that the daemon has read.
func (d *run) lines(ctx context.Context) (float64, error) {
	all, err := d.Metrics(ctx)
	return all[daemon.LinesRead], err
}
