package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crowsnest/daemon/state"
)

// storageFault breaks the state folder and heals it again.
type storageFault struct {
	name   string
	root   bool // requires root
	long   bool // only in the long form
	silent bool // writes hang instead of failing
	gone   bool // the saved state is lost
	mount  func(t *testing.T, dir string)
	begin  func(s *scene)
	heal   func(s *scene)
}

// storageFaults are the failures of a folder that this machine can produce.
func storageFaults() []storageFault {
	return []storageFault{
		{
			name: "full", root: true, mount: mountTmpfs,
			begin: func(s *scene) { fill(s.t, filepath.Join(s.p.StatePath(), "filler")) },
			heal:  func(s *scene) { require.NoError(s.t, os.Remove(filepath.Join(s.p.StatePath(), "filler"))) },
		},
		{
			name: "read-only", root: true, long: true, mount: mountDisk,
			begin: func(s *scene) { breakDisk(s.t, s.p.StatePath()) },
			heal:  func(s *scene) { repairDisk(s.t, s.p.StatePath()) },
		},
		{
			name: "rename fails", root: true, long: true,
			begin: func(s *scene) { run1(s.t, "chattr", "+i", filepath.Join(s.p.StatePath(), "state")) },
			heal:  func(s *scene) { run1(s.t, "chattr", "-i", filepath.Join(s.p.StatePath(), "state")) },
		},
		{
			name: "removed", gone: true,
			begin: func(s *scene) {
				require.NoError(s.t, os.RemoveAll(s.p.StatePath()))
				require.NoError(s.t, os.WriteFile(s.p.StatePath(), nil, 0o600)) // otherwise it is recreated immediately
			},
			heal: func(s *scene) { require.NoError(s.t, os.Remove(s.p.StatePath())) },
		},
		{
			name: "files are limited", long: true,
			begin: func(s *scene) { limitFiles(s, 4096) },
			heal:  func(s *scene) { limitFiles(s, unix.RLIM_INFINITY) },
		},
		{
			name: "hangs", root: true, silent: true, mount: mountDisk,
			begin: func(s *scene) { run1(s.t, "fsfreeze", "-f", s.p.StatePath()) },
			heal:  func(s *scene) { run1(s.t, "fsfreeze", "-u", s.p.StatePath()) },
		},
	}
}

// The state folder fails while the daemon runs: alerts continue, the saved
// state stays intact, the metrics show the failure, and saving resumes by
// itself. A kill meanwhile costs only reading again.
func TestStorage(t *testing.T) {
	t.Parallel()
	for _, f := range storageFaults() {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if f.long {
				onlyLong(t)
			}
			if f.root && os.Geteuid() != 0 {
				t.Skip("only root can do this")
			}
			f.play(t, 3*time.Second)
		})
	}
}

// After five minutes an alert reports it, which ends with the failure.
func TestStateNotSaved(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	for _, f := range storageFaults() {
		if f.name == "files are limited" || f.name == "hangs" && os.Geteuid() == 0 {
			t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				f.play(t, 5*time.Minute+10*time.Second)
			})
		}
	}
}

const (
	lastSave   = "crowsnest_state_last_save_timestamp_seconds"
	saveErrors = "crowsnest_state_save_errors_total"
	notSaved   = "CrowsnestStateNotSaved "
)

func (f storageFault) play(t *testing.T, lasts time.Duration) {
	t.Helper()
	l := load{perSecond: 100, pad: 180, maxSize: 1 << 20, planted: 50, period: 100_000} // without recoveries, which would take long
	s := newScene(t, seed(t), options{writers: 1, load: l, resend: 5 * time.Second})
	if f.mount != nil {
		s.p.Storage = filepath.Join(s.dir, "mounted")
		require.NoError(t, os.Mkdir(s.p.Storage, 0o700))
		f.mount(t, s.p.Storage)
	}
	s.p.start()
	s.p.ready()
	eventually(t, 10*time.Second, "the state is saved", func() bool { return s.p.newest()[lastSave] > 0 })
	pause(time.Second)
	f.begin(s)
	healed := false
	heal := func() {
		if !healed {
			healed = true
			f.heal(s)
		}
	}
	t.Cleanup(heal)
	began := time.Now()
	if !f.silent {
		eventually(t, 10*time.Second, "failures are counted", func() bool { return s.p.newest()[saveErrors] > 0 })
	}
	pause(lasts)
	require.Less(t, s.p.newest()[lastSave], float64(began.Add(2*time.Second).UnixNano())/1e9, "the last save ages")
	require.Greater(t, len(s.led.latencies(hear(s.good.AM), began, time.Now())), 3, "alerts go on")
	if lasts > 5*time.Minute {
		eventually(t, 10*time.Second, "an alert says so", func() bool { return hear(s.good.AM)[notSaved] != nil })
	}
	if !f.silent && !f.gone {
		requireWhole(t, s.p.StatePath())
	}
	// A process that waits for a frozen disk cannot be killed, and a new
	// process has to observe for five minutes that nothing is saved.
	if !f.silent && lasts < time.Minute {
		s.p.kill()
		s.p.start()
		s.p.ready()
		if f.name == "files are limited" {
			f.begin(s) // it is a different process
		}
		pause(2 * time.Second)
	}
	during := s.led.latencies(hear(s.good.AM), began, time.Now().Add(-2*time.Second))
	heal()
	at := float64(time.Now().UnixNano()) / 1e9
	eventually(t, 10*time.Second, "it is saved again", func() bool { return s.p.newest()[lastSave] > at })
	if lasts > 5*time.Minute {
		eventually(t, 10*time.Second, "the alert ends", func() bool { return hear(s.good.AM)[notSaved].resolved })
	}
	s.p.kill() // once more, with what was saved since
	s.p.start()
	good, bad := s.settle(30*time.Second, nil)
	delete(good, notSaved)
	delete(bad, notSaved)
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("while it failed: %s", percentiles(during))
}

// requireWhole requires that the newest state in the folder can be loaded.
func requireWhole(t *testing.T, dir string) {
	t.Helper()
	copied := folder(t) // loading quarantines damaged files
	for _, name := range []string{"state", "state.prev"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(copied, name), b, 0o600))
	}
	payload, note, err := state.Load(copied)
	require.NoError(t, err)
	require.Empty(t, note)
	require.NotEmpty(t, payload)
}

// mountTmpfs mounts 2 MiB. It requires root.
func mountTmpfs(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"))
	unmountAtEnd(t, dir)
}

// mountDisk mounts an image of a disk with ext4. It requires root.
func mountDisk(t *testing.T, dir string) {
	t.Helper()
	image := dir + ".img"
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 16<<20))
	run1(t, "mkfs.ext4", "-q", image)
	run1(t, "mount", "-o", "loop,errors=remount-ro", image, dir)
	unmountAtEnd(t, dir)
}

// breakDisk makes the file system detect an error: it becomes read-only while
// files are open.
func breakDisk(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command("findmnt", "-n", "-o", "SOURCE", dir).Output()
	require.NoError(t, err)
	device := filepath.Base(strings.TrimSpace(string(out)))
	require.NoError(t, os.WriteFile("/sys/fs/ext4/"+device+"/trigger_fs_error", []byte("a test"), 0))
}

// repairDisk checks the file system and mounts it again, as an operator would.
func repairDisk(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	image := filepath.Join(filepath.Dir(dir), "repaired.img")
	run1(t, "cp", dir+".img", image)               // the old one is in use as long as files are open
	_ = exec.Command("e2fsck", "-fy", image).Run() // exit code 1 means corrected
	run1(t, "mount", "-o", "loop", image, dir)
}

func unmountAtEnd(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// fill writes until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for size := 64 << 10; size > 0; { // down to the last bytes
		if _, err := f.Write(make([]byte, size)); err == nil {
			continue
		} else if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			require.NoError(t, err)
		}
		size /= 2
	}
}

// limitFiles limits the size of the files that the running daemon may write.
func limitFiles(s *scene, bytes uint64) {
	s.t.Helper()
	if proc := s.p.Process(); proc != nil {
		require.NoError(s.t, unix.Prlimit(proc.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil))
	}
}

// run1 runs a command.
func run1(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, fmt.Sprint(name, " ", args, ": ", string(out)))
}

// second returns another instance for the same folder.
func (s *scene) second() *process {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.p.Dir, "crowsnest.yml"))
	require.NoError(s.t, err)
	dir := filepath.Join(s.dir, "second")
	require.NoError(s.t, os.Mkdir(dir, 0o755))
	p := newProcess(s.t, dir, string(text))
	p.Storage = s.p.StatePath()
	return p
}

// A second instance starts while the first one runs, as in a rolling update: it
// waits, and takes over when the first stopped or was killed.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *process){"stopped": (*process).term, "killed": (*process).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "stopped" {
				onlyLong(t)
			}
			l := load{perSecond: 200, pad: 180, maxSize: 1 << 20, planted: 50, period: 100_000}
			s := newScene(t, seed(t), options{writers: 2, load: l, resend: 5 * time.Second})
			s.p.start()
			s.p.ready()
			next := s.second()
			next.start()
			pause(4 * time.Second)
			_, err := next.Get(t.Context(), "/-/ready")
			require.ErrorContains(t, err, "not restored yet")
			end(s.p)
			stopped := time.Now()
			next.ready()
			t.Logf("ready %v after the first one had %s", time.Since(stopped).Round(time.Millisecond), name)
			s.p = next
			pause(2 * time.Second)
			good, bad := s.settle(20*time.Second, nil)
			s.judge(good, bad, nil)
			s.report(good, bad)
			eventually(t, 5*time.Second, "it saves", func() bool { return next.newest()[lastSave] > 0 })
		})
	}
}

// The first instance does not end: the second one runs without state, sends the
// same alerts, and saves when the folder is free.
func TestTwoInstances(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	l := load{perSecond: 50, pad: 180, maxSize: 1 << 20, planted: 50, period: 100_000}
	s := newScene(t, seed(t), options{writers: 2, load: l, resend: 5 * time.Second, pager: true})
	s.p.start()
	s.p.ready()
	next := s.second()
	next.start()
	eventually(t, 40*time.Second, "it does without", func() bool {
		_, err := next.Get(t.Context(), "/-/ready")
		return err == nil
	})
	pause(5 * time.Second)
	require.Zero(t, next.newest()[lastSave])
	s.p.kill()
	s.p = next
	eventually(t, 10*time.Second, "it saves", func() bool { return next.newest()[lastSave] > 0 })
	pause(2 * time.Second)
	next.kill()
	next.start()
	good, bad := s.settle(20*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
}
