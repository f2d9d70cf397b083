package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limited has the daemon started by a shell that lowers a limit first.
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

// There are more log files than the process may have open: idle ones are closed,
// every line arrives, and alerts, metrics and state have descriptors too.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	l := load{perSecond: 2, pad: 100, maxSize: 1 << 20, planted: 10, period: 1000, quiet: true}
	s := newScene(t, seed(t), options{writers: 150, load: l, resend: 5 * time.Second})
	s.p.prepare = limited("ulimit -n 64")
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
// is lost, and the log says so once.
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
			s.p.prepare = func(cmd *exec.Cmd) {
				inner(cmd)
				unshare, err := exec.LookPath("unshare")
				require.NoError(t, err)
				cmd.Args = append([]string{"unshare", "-U", "-r"}, cmd.Args...)
				cmd.Path = unshare
			}
			s.p.start()
			s.p.ready()
			pause(6 * time.Second)
			good, bad := s.settle(30*time.Second, nil)
			s.judge(good, bad, nil)
			s.report(good, bad)
			log, err := os.ReadFile(filepath.Join(s.dir, "daemon.log"))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(log), "the kernel has no inotify"), "it is said once:\n%s", log)
		})
	}
}
