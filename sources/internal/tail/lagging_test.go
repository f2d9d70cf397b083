package tail

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/sources/internal/logdir"
	"crowsnest/test/kubesim"
)

// faulty makes operations on some paths fail or hang.
type faulty struct {
	mu    sync.Mutex
	paths map[string]func() error
}

func (f *faulty) set(op, path string, fault func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = map[string]func() error{op + " " + path: fault}
}

func (f *faulty) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = nil
}

func (f *faulty) fault(op, path string) error {
	f.mu.Lock()
	fault := f.paths[op+" "+path]
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault()
}

// unreadableLogs are the ways in which a log cannot be read. Each makes the log of a container
// unreadable and returns a function that makes it readable again.
func unreadableLogs(t *testing.T, f *faulty) map[string]func(c *kubesim.Container) (repair func()) {
	out := map[string]func(c *kubesim.Container) func(){}
	fails := func(op string, errno syscall.Errno) func(path string) func() {
		return func(path string) func() {
			f.set(op, path, func() error { return &os.PathError{Op: op, Path: path, Err: errno} })
			return f.clear
		}
	}
	hangs := func(op string) func(path string) func() {
		return func(path string) func() {
			until := make(chan struct{})
			f.set(op, path, func() error { <-until; return nil })
			return func() { f.clear(); close(until) }
		}
	}
	onLog := func(fault func(path string) func()) func(c *kubesim.Container) func() {
		return func(c *kubesim.Container) func() { return fault(c.Path()) }
	}
	afterRotation := func(fault func(path string) func()) func(c *kubesim.Container) func() {
		return func(c *kubesim.Container) func() {
			repair := fault(c.Path())
			c.Rotate()
			return repair
		}
	}
	out["an I/O error"] = onLog(fails("read", syscall.EIO))
	out["a read that hangs"] = onLog(hangs("read"))
	out["no permission"] = afterRotation(fails("open", syscall.EACCES))
	out["an open that hangs"] = afterRotation(hangs("open"))
	out["a head that cannot be read"] = afterRotation(fails("head", syscall.EIO))
	out["a folder that cannot be listed"] = func(c *kubesim.Container) func() {
		repair := fails("list", syscall.EACCES)(c.Dir())
		c.Rotate()
		return repair
	}
	out["a listing that hangs"] = func(c *kubesim.Container) func() {
		repair := hangs("list")(c.Dir())
		c.Rotate()
		return repair
	}
	aside := func(place func(path, moved string) error) func(c *kubesim.Container) func() {
		return func(c *kubesim.Container) func() {
			moved := filepath.Join(filepath.Dir(filepath.Dir(c.PodDir())), "moved")
			require.NoError(t, os.Rename(c.Path(), moved))
			require.NoError(t, place(c.Path(), moved))
			wait(4 * time.Second) // the open file is read for a while
			return func() {
				require.NoError(t, os.Remove(c.Path()))
				require.NoError(t, os.Rename(moved, c.Path()))
			}
		}
	}
	out["a link in its place"] = aside(func(path, moved string) error { return os.Symlink(moved, path) })
	out["a directory in its place"] = aside(func(path, _ string) error { return os.Mkdir(path, 0o755) })
	return out
}

// requireSame compares long lists in any order.
func requireSame(t *testing.T, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	requireLines(t, want, got)
}

// One of 41 logs cannot be read, another one in each turn: the others are read as if it were not there,
// only its own watermark stays, it is reported, and nothing of it is lost or read twice once
// it can be read.
func TestOneOfManyLogs(t *testing.T) {
	const logs = 41
	turns := 18 // twice in each way
	if os.Getenv("TAIL_SEEDS") != "" {
		turns = logs
	}
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		f := &faulty{}
		l.cfg.fault = f.fault
		ways := unreadableLogs(t, f)
		kinds := slices.Sorted(maps.Keys(ways))
		root := filepath.Join(l.finder.Root, "pods")
		require.NoError(t, os.Mkdir(root, 0o755))
		l.finder = podFinder(root)
		var cs []*kubesim.Container
		for i := range logs {
			cs = append(cs, kubesim.New(kubesim.Options{Root: root, Pod: fmt.Sprintf("pod-%02d", i)}))
			t.Cleanup(cs[i].Close)
		}
		var all, bad numbered
		bad.n = 1 << 20
		l.start(nil)
		wait(3 * time.Second)
		for i, c := range cs[:turns] {
			kind := kinds[i%len(kinds)]
			for _, o := range cs {
				several(o, &all, 1)
			}
			wait(time.Second)
			requireSame(t, slices.Concat(all.want, bad.want), l.pipe.taken())
			repair := ways[kind](c)
			before := time.Now()
			wait(2 * time.Second) // until it is known
			several(c, &bad, 3)
			for range 5 {
				for _, o := range cs {
					if o != c {
						several(o, &all, 1)
					}
				}
				wait(2*defaultPoll + pollEvery) // one poll may go by until another worker takes over
				requireSame(t, slices.Concat(all.want, bad.want[:len(bad.want)-3]), l.pipe.taken())
				require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), 2*time.Second, kind)
			}
			lag := l.pipe.lag()
			require.Len(t, lag, 1, kind)
			rel, err := filepath.Rel(root, c.Dir())
			require.NoError(t, err)
			require.Contains(t, lag, rel, kind)
			require.False(t, lag[rel].After(before.Add(2*time.Second)), kind)
			require.WithinDuration(t, before, lag[rel], 5*time.Second, kind)
			st := l.tailer.Status()
			require.True(t, st.Up, kind)
			require.Equal(t, logs, st.Logs, kind)
			require.Len(t, st.Unread, 1, kind)
			require.NotEmpty(t, st.Unread[0].Reason, kind)
			repair()
			wait(3 * time.Second)
			requireSame(t, slices.Concat(all.want, bad.want), l.pipe.taken())
			require.Empty(t, l.pipe.lag(), kind)
			require.Empty(t, l.tailer.Status().Unread, kind)
			require.Empty(t, l.losses(), kind)
		}
		l.stop()
	})
}

// shortLookBack is a limit of age that passes within fewer polls than the default one.
const shortLookBack = 2 * time.Minute

// The folder of a pod that cannot be listed may hold any container. What it holds is read
// from where it was left, and what was created meanwhile from its start, however old it is.
func TestFolderThatCannotBeListed(t *testing.T) {
	fails := func() (fault func() error, why string, repair func()) {
		return func() error { return os.ErrPermission }, "permission denied", func() {}
	}
	hangs := func() (fault func() error, why string, repair func()) {
		until := make(chan struct{})
		return func() error { <-until; return nil }, "listing the directory hangs", func() { close(until) }
	}
	for name, way := range map[string]func() (func() error, string, func()){"fails": fails, "hangs": hangs} {
		t.Run(name, func(t *testing.T) { bubble(t, podFinder, func(t *testing.T, l *lab) { testUnlistable(t, l, way) }) })
	}
}

func testUnlistable(t *testing.T, l *lab, way func() (fault func() error, why string, repair func())) {
	t.Helper()
	f := &faulty{}
	l.cfg.fault, l.cfg.LookBack = f.fault, shortLookBack
	fault, why, repair := way()
	var seq, other numbered
	other.n = 1 << 20
	c := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "bad"})
	good := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "good"})
	t.Cleanup(c.Close)
	t.Cleanup(good.Close)
	several(c, &seq, 1)
	l.start(nil)
	wait(3 * time.Second)
	f.set("list", c.PodDir(), fault)
	second := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "bad", Container: "second"})
	t.Cleanup(second.Close)
	began := time.Now()
	several(second, &seq, 1)
	wait(4 * shortLookBack)
	several(c, &seq, 1)
	several(good, &other, 1)
	wait(time.Second)
	require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
	require.WithinDuration(t, began, l.pipe.lag()[filepath.Base(c.PodDir())], 2*time.Second)
	require.Contains(t, l.pipe.taken(), other.want[0])
	st := l.tailer.Status()
	require.True(t, st.Up)
	require.Len(t, st.Unread, 1)
	require.Contains(t, st.Unread[0].Reason, why)
	require.True(t, st.Unread[0].Holds)

	s := l.stop() // the position of what is hidden survives
	l.start(s)
	wait(3 * time.Second)
	require.Empty(t, l.losses())
	require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
	require.Len(t, l.pipe.lag(), 1)
	f.clear()
	repair()
	wait(6 * time.Second)
	require.ElementsMatch(t, append(seq.want, other.want...), l.pipe.taken())
	require.Empty(t, l.pipe.lag())
	require.Empty(t, l.losses())
	l.stop()
}

// A log that could not be read for longer than look_back is read from where it began, also
// if the process is killed meanwhile.
func TestLookBackOfAnUnreadableLog(t *testing.T) {
	for _, known := range []bool{false, true} { // whether there was a watermark before it
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(known, killed), func(t *testing.T) {
				bubble(t, podFinder, func(t *testing.T, l *lab) {
					f := &faulty{}
					l.cfg.fault, l.cfg.LookBack = f.fault, shortLookBack
					good := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "good"})
					t.Cleanup(good.Close)
					if known {
						l.start(nil)
						wait(3 * time.Second)
					}
					c := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "bad"})
					t.Cleanup(c.Close)
					f.set("open", c.Path(), func() error { return &os.PathError{Op: "open", Path: c.Path(), Err: syscall.EACCES} })
					if !known {
						l.start(nil)
					}
					var seq numbered
					several(c, &seq, 1)
					wait(4 * shortLookBack)
					several(c, &seq, 1)
					if killed {
						wait(time.Second)
						s := l.pipe.snapshot(l.tailer)
						l.kill()
						wait(4 * shortLookBack)
						l.start(&s)
						wait(4 * shortLookBack)
					}
					f.clear()
					wait(6 * time.Second)
					requireLines(t, seq.want, l.pipe.taken())
					require.Empty(t, l.losses())
					l.stop()
				})
			})
		}
	}
}

// If no log can be read, the source as a whole is not read, and its watermark stays. Lagging
// streams of more namespaces than can be named delay everything.
func TestNoLogCanBeRead(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		f := &failures{}
		l.cfg.fault = f.fault
		var cs []*kubesim.Container
		for i := range matcher.MaxLagging + 3 {
			cs = append(cs, kubesim.New(kubesim.Options{Root: l.finder.Root, Namespace: fmt.Sprintf("ns-%02d", i)}))
			t.Cleanup(cs[i].Close)
			cs[i].Write("stdout", "text")
		}
		l.start(nil)
		wait(3*time.Second + pollEvery) // between two polls
		at := time.Now()
		for _, c := range cs {
			c.Write("stdout", "text")
			f.set("read", c.Path(), syscall.EIO)
		}
		wait(10 * time.Second)
		require.WithinDuration(t, at, l.pipe.watermarkAt(), 2*time.Second)
		require.Contains(t, l.tailer.Status().Error, "none of the logs (67) is read, such as "+cs[0].Path()+": ")
		f.clear()
		for _, c := range cs[:matcher.MaxLagging+1] {
			f.set("read", c.Path(), syscall.EIO)
		}
		wait(10 * time.Second)
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		require.Len(t, l.pipe.lag(), 1)
		require.WithinDuration(t, at, l.pipe.lag()[""], 2*time.Second, "any stream lags")
		st := l.tailer.Status()
		require.WithinDuration(t, at, st.Watermark, 2*time.Second)
		require.Contains(t, st.Error, "65 logs of more than 64 namespaces are not read")
		f.clear()
		wait(3 * time.Second)
		require.Empty(t, l.pipe.lag())
		require.WithinDuration(t, time.Now(), l.tailer.Status().Watermark, time.Second)
		require.Len(t, l.pipe.taken(), 2*len(cs))
		l.stop()
	})
}

// Any number of logs of a namespace that cannot be read, or are refused, delays that namespace
// alone.
func TestManyUnreadableLogs(t *testing.T) {
	const links = 3 * 100
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		good := kubesim.New(kubesim.Options{Root: l.finder.Root, Namespace: "good"})
		t.Cleanup(good.Close)
		other := kubesim.New(kubesim.Options{Root: l.finder.Root, Namespace: "other"})
		t.Cleanup(other.Close)
		find := l.finder.Find
		l.finder.Find = func(list func(string) ([]logdir.Entry, error)) ([]Stream, error) {
			found, err := find(list)
			for i, s := range found {
				found[i].Labels = func() matcher.Labels {
					namespace, _, _ := strings.Cut(s.Dir, "_")
					return matcher.Labels{"namespace": namespace, "container": s.Dir}
				}
			}
			return found, err
		}
		require.NoError(t, os.Rename(other.Path(), other.Path()+".moved"))
		require.NoError(t, os.Mkdir(other.Path(), 0o755))
		for i := range links {
			dir := filepath.Join(l.finder.Root, fmt.Sprintf("bad_pod-%03d_1", i), "c")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.Symlink("elsewhere", filepath.Join(dir, "0.log")))
		}
		var seq numbered
		l.start(nil)
		for range 10 {
			several(good, &seq, 1)
			wait(2 * time.Second)
		}
		requireLines(t, seq.want, l.pipe.taken())
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), 2*time.Second)
		require.Equal(t, []string{"bad", "other"}, slices.Sorted(maps.Keys(l.pipe.lag())))
		st := l.tailer.Status()
		require.WithinDuration(t, time.Now(), st.Watermark, 2*time.Second)
		require.Empty(t, st.Error)
		require.Equal(t, links+2, st.Logs)
		require.Len(t, st.Unread, 100)
		require.Equal(t, links+1-100, st.UnreadMore)
		l.stop()
	})
}
