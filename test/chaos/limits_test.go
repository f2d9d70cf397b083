package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limited starts the daemon through a shell that first lowers a limit.
func limited(commands string) func(cmd *exec.Cmd) {
	return func(cmd *exec.Cmd) {
		args := append([]string{"sh", "-c", commands + "\nexec \"$0\" \"$@\"", cmd.Path}, cmd.Args[1:]...)
		sh, err := exec.LookPath("sh")
		if err != nil {
			sh = "/bin/sh"
		}
		cmd.Path, cmd.Args = sh, args
	}
}

// There are more log files than the process may open: idle ones are closed,
// every line arrives, and descriptors remain for alerts, metrics and state.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	l := load{perSecond: 2, pad: 100, maxSize: 1 << 20, planted: 10, period: 1000, quiet: true}
	s := newScene(t, seed(t), options{writers: 150, load: l, resend: 5 * time.Second})
	s.p.Prepare = limited("ulimit -n 64")
	s.p.start()
	s.p.ready()
	pause(3 * time.Second)
	s.p.kill()
	s.p.start()
	s.p.ready()
	for i := range 10 {
		w := s.writers[i*7]
		w.ask(w.rotate)
	}
	pause(4 * time.Second)
	all, deleted := s.p.descriptors()
	good, bad := s.settle(40*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("%d descriptors of 64, %d of deleted files, for 150 logs", all, deleted)
	require.Greater(t, s.p.newest()[lastSave], 0.0)
	require.Zero(t, s.p.newest()[saveErrors])
	for name, n := range s.p.newest() {
		if strings.HasPrefix(name, "crowsnest_notifications_failed_total") {
			require.Zero(t, n, name)
		}
	}
}

// There are no inotify instances, or too few watches: files are polled, nothing
// is lost, and this is logged once.
func TestNoNotifications(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]string{
		"instances": "max_inotify_instances=0",
		"watches":   "max_inotify_watches=3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Geteuid() != 0 {
				t.Skip("only root can limit this")
			}
			limit, value, _ := strings.Cut(limits, "=")
			l := load{perSecond: 20, pad: 100, maxSize: 20 << 10, planted: 20, period: 100_000}
			s := newScene(t, seed(t), options{writers: 10, load: l, resend: 5 * time.Second})
			inner := limited(fmt.Sprintf("echo %s > /proc/sys/user/%s", value, limit))
			s.p.Prepare = func(cmd *exec.Cmd) {
				inner(cmd)
				unshare, err := exec.LookPath("unshare")
				require.NoError(t, err)
				cmd.Args = append([]string{"unshare", "-U", "-r"}, cmd.Args...)
				cmd.Path = unshare
			}
			s.p.start()
			s.p.ready()
			pause(3 * time.Second)
			good, bad := s.settle(30*time.Second, nil)
			s.judge(good, bad, nil)
			s.report(good, bad)
			log, err := os.ReadFile(filepath.Join(s.dir, "daemon.log"))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(log), "the limit of inotify instances or watches is reached"), "it is said once:\n%s", log)
		})
	}
}

// A thousand connections that send nothing, or a little at a time, do not block
// the metrics, and cost neither memory nor latency of alerts.
func TestCrowdedPort(t *testing.T) {
	t.Parallel()
	l := load{perSecond: 100, pad: 100, maxSize: 1 << 20, planted: 50, period: 100_000}
	s := newScene(t, seed(t), options{writers: 1, load: l, resend: 5 * time.Second})
	s.p.start()
	s.p.ready()
	before := s.p.newest()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	kinds := []string{"", "GET /metrics HTTP/1.1\r\nHost: a\r\nX-", "GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n", "POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n"}
	began := time.Now()
	var slowest time.Duration
	for i := range promisedConns {
		c, err := net.DialTimeout("tcp", s.p.Addr, 10*time.Second)
		require.NoError(t, err)
		conns = append(conns, c)
		_, _ = io.WriteString(c, kinds[i%len(kinds)]) // it may already be closed
		if i%100 == 99 {
			for _, c := range conns {
				_, _ = io.WriteString(c, "a") // slowly
			}
			asked := time.Now()
			_, err := s.p.Metrics(t.Context())
			require.NoError(t, err)
			slowest = max(slowest, time.Since(asked))
		}
	}
	all, _ := s.p.descriptors()
	good, bad := s.settle(20*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("%d connections in %v: the slowest answer took %v; %d descriptors, %v before", promisedConns, time.Since(began).Round(time.Millisecond), slowest.Round(time.Millisecond), all, before["process_open_fds"])
	require.LessOrEqual(t, all, 256+100)
	require.LessOrEqual(t, slowest, 5*time.Second)
}

// The reader of standard output, or of the log, exits: the daemon continues,
// and stops as usual.
func TestReadersGoAway(t *testing.T) {
	t.Parallel()
	l := load{perSecond: 100, pad: 100, maxSize: 1 << 20, planted: 20, period: 100_000}
	s := newScene(t, seed(t), options{writers: 1, load: l, resend: 5 * time.Second})
	name := filepath.Join(s.dir, "crowsnest.yml")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, []byte(strings.Replace(string(text), "sinks:\n", "sinks:\n  stdout: {}\n", 1)), 0o600))
	out, outW, err := os.Pipe()
	require.NoError(t, err)
	log, logW, err := os.Pipe()
	require.NoError(t, err)
	s.p.Prepare = func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = outW, logW }
	s.p.start()
	require.NoError(t, outW.Close())
	require.NoError(t, logW.Close())
	s.p.ready()
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.True(t, json.Valid([]byte(first)), "%s", first)
	require.NoError(t, out.Close())
	pause(time.Second)
	require.NoError(t, log.Close())
	s.p.Signal(syscall.SIGHUP) // makes it write to its log
	failed := `crowsnest_notifications_failed_total{endpoint="stdout",reason="write",sink="stdout"}`
	eventually(t, 10*time.Second, "it is counted", func() bool { return s.p.newest()[failed] > 0 })
	pause(2 * time.Second)
	good, bad := s.settle(20*time.Second, nil)
	s.judge(good, bad, nil)
	s.p.term()
}

// A command whose reader exits ends like any other tool in a pipe.
func TestScanIntoHead(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	var lines strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&lines, "2026-01-02T15:04:05.%09dZ stdout F planted detection id=a%d;\n", i, i)
	}
	input := filepath.Join(dir, "0.log")
	require.NoError(t, os.WriteFile(input, []byte(lines.String()), 0o600))
	for _, form := range []string{"text", "jsonl", "json"} {
		cmd := exec.Command(binary, "scan", "--rules", "testdata/chaos.yaml", "--hits", "-o", form, input)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReaderSize(out, 16).ReadByte()
		require.NoError(t, err)
		require.NoError(t, out.Close())
		err = cmd.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		status, ok := exit.Sys().(syscall.WaitStatus)
		require.True(t, ok)
		require.True(t, status.Signaled() && status.Signal() == syscall.SIGPIPE, "%v: %s", err, said.String())
		require.Empty(t, said.String())
	}
}
