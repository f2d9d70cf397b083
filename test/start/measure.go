package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"crowsnest/test/daemon"
	"crowsnest/test/wait"
)

// settled is when the memory of an agent is read: the garbage of the start was collected.
const settled = 3 * time.Second

const agentConfig = `rules: {shipped: true}
sources: {kubelet: {dir: "%s", look_back: 8760h}}
sinks: {upstream: {url: "http://127.0.0.1:1", node: n}}
`

// writeInputs writes a small log, and the logs of a node with three containers.
func writeInputs(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "small.log"), []byte(lines("")), 0o600); err != nil {
		return err
	}
	for _, pod := range []string{"kube-system_etcd-n_1/etcd", "capi-system_capi-controller-manager-1_2/manager", "default_shop-1_3/app"} {
		folder := filepath.Join(dir, "pods", pod)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "0.log"), []byte(lines("2026-01-02T03:04:05.678901234Z stderr F ")), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// lines returns 200 lines of a controller, each after prefix.
func lines(prefix string) string {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "%sI0102 03:04:%02d.678901       1 controller.go:114] \"Reconciling\" controller=\"machine\" namespace=\"fleet\" name=\"machine-%d\"\n", prefix, i%60, i)
	}
	return b.String()
}

// measure runs every command once, and an agent.
func measure(ctx context.Context, o options, binary string) (all []figure, err error) {
	for _, args := range [][]string{{"version"}, {"rules", "list"}, {"scan", filepath.Join(o.dir, "small.log")}} {
		cmd := exec.CommandContext(ctx, binary, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		name := strings.Join(append(args[:len(args)-1:len(args)-1], filepath.Base(args[len(args)-1])), " ")
		all = append(all, milliseconds("CPU of "+name, used))
	}
	agent, err := measureAgent(ctx, o, binary)
	return append(all, agent...), err
}

func milliseconds(what string, d time.Duration) figure {
	return figure{what, "ms", float64(d) / float64(time.Millisecond)}
}

// measureAgent starts an agent whose aggregator is down.
func measureAgent(ctx context.Context, o options, binary string) ([]figure, error) {
	dir, err := os.MkdirTemp(o.dir, "agent-")
	if err != nil {
		return nil, err
	}
	addr, err := daemon.FreeAddr()
	if err != nil {
		return nil, err
	}
	d := &daemon.Daemon{Binary: binary, Dir: dir, Addr: addr}
	if err := d.Configure(fmt.Sprintf(agentConfig, filepath.Join(o.dir, "pods"))); err != nil {
		return nil, err
	}
	if err := d.Start(); err != nil {
		return nil, err
	}
	defer d.End(syscall.SIGKILL) //nolint:errcheck // it was measured
	if err := d.Ready(ctx, 20*time.Second); err != nil {
		return nil, err
	}
	used, err := cpuTime(d.Process().PID())
	if err != nil {
		return nil, err
	}
	wait.Pause(ctx, settled)
	out := []figure{milliseconds("CPU of an agent until it is ready", used)}
	for _, name := range []string{"VmHWM", "VmRSS", "RssAnon", "RssFile"} {
		out = append(out, figure{name + " of the agent", "MiB", float64(d.Process().Memory(name)) / (1 << 10)})
	}
	return out, ctx.Err()
}

// cpuTime returns the CPU time of the threads of a process, more precisely than the ticks of
// /proc/PID/stat.
func cpuTime(pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			return 0, fmt.Errorf("%s: %w", f, err)
		}
		sum += time.Duration(ns)
	}
	return sum, err
}
