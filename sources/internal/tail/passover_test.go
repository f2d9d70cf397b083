package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

// failures makes operations on some paths fail.
type failures struct {
	mu    sync.Mutex
	paths map[string]error // by operation and path
}

func (f *failures) set(op, path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paths == nil {
		f.paths = map[string]error{}
	}
	f.paths[op+" "+path] = &os.PathError{Op: op, Path: path, Err: err}
}

func (f *failures) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.paths)
}

func (f *failures) fault(op, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths[op+" "+path]
}

// An old file that cannot be read does not hold up the current log. The possible loss is
// counted once, also over a restart.
func TestUnreadableOldFile(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EACCES} {
		for _, op := range []string{"open", "head", "read"} {
			for _, down := range []bool{false, true} {
				t.Run(fmt.Sprint(op, " ", errno, " down ", down), func(t *testing.T) {
					bubble(t, podFinder, func(t *testing.T, l *lab) {
						unreadable(t, l, op, errno, down)
					})
				})
			}
		}
	}
}

func unreadable(t *testing.T, l *lab, op string, errno syscall.Errno, down bool) {
	bad := &failures{}
	l.cfg.fault = bad.fault
	l.cfg.MaxOpen = 1 // waiting files are not kept open
	var seq, lost numbered
	c := kubesim.New(kubesim.Options{Root: l.finder.Root})
	t.Cleanup(c.Close)
	several(c, &seq, 5)
	l.start(nil)
	wait(3 * time.Second)
	s := l.stop()
	lost.n = 1000
	c.Rotate()
	several(c, &lost, 5)
	c.Rotate()
	names, err := filepath.Glob(c.Path() + ".*")
	require.NoError(t, err)
	require.Len(t, names, 2)
	bad.set(op, names[1], errno)
	several(c, &seq, 5)
	l.start(s)
	wait(20 * time.Second)
	if down {
		s = l.stop()
		l.start(s)
	}
	several(c, &seq, 5)
	wait(5 * time.Second)
	requireLines(t, seq.want, l.pipe.taken())
	require.Equal(t, map[string]int64{lossUnreadable: 1}, l.losses())
	require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
	require.Empty(t, l.tailer.Status().Unread)
	l.stop()
}

// The current file cannot be read: its stream has a watermark of its own, the file is
// reported, and no line of it is lost.
func TestUnreadableNewestFile(t *testing.T) {
	for _, op := range []string{"open", "head", "read"} {
		bubble(t, podFinder, func(t *testing.T, l *lab) {
			bad := &failures{}
			l.cfg.fault = bad.fault
			var seq, other numbered
			c := kubesim.New(kubesim.Options{Root: l.finder.Root})
			good := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "good"})
			t.Cleanup(c.Close)
			t.Cleanup(good.Close)
			several(c, &seq, 5)
			bad.set(op, c.Path(), syscall.EIO)
			l.start(nil)
			wait(time.Minute)
			several(good, &other, 5)
			wait(time.Second)
			requireLines(t, other.want, l.pipe.taken())
			require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
			require.Equal(t, map[string]time.Time{filepath.Base(c.PodDir()) + "/c": {}}, l.pipe.lag())
			st := l.tailer.Status()
			require.Len(t, st.Unread, 1)
			require.Contains(t, st.Unread[0].Reason, "input/output error")
			require.True(t, st.Unread[0].Holds)
			require.Equal(t, time.Minute+time.Second, time.Since(st.Unread[0].Since).Round(time.Second))
			several(c, &seq, 5)
			bad.clear()
			wait(3 * time.Second)
			require.ElementsMatch(t, append(other.want, seq.want...), l.pipe.taken())
			require.Empty(t, l.losses())
			require.Empty(t, l.tailer.Status().Unread)
			require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
			l.stop()
		})
	}
}

// A log with a second name is refused and reported. It does not hold the watermark back.
func TestHardLinksAreRefused(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.cfg.OneName = true
		outside := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(outside, []byte("2026-01-01T00:00:00.000000001Z stdout F text secret\n"), 0o644))
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		t.Cleanup(c.Close)
		c.Write("stdout", "text fine")
		dir := filepath.Dir(c.Path())
		require.NoError(t, os.Link(outside, dir+"/1.log"))
		require.NoError(t, os.Mkdir(dir+"/2.log", 0o755))
		alone := filepath.Join(l.finder.Root, "ns_alone_uid", "c", "0.log")
		require.NoError(t, os.MkdirAll(alone, 0o755))
		l.start(nil)
		wait(20 * time.Second)
		require.Equal(t, []string{"text fine"}, l.pipe.taken())
		st := l.tailer.Status()
		require.Equal(t, int64(3), st.Errors["refused"])
		require.Len(t, st.Unread, 3)
		require.Contains(t, st.Unread[0].Reason, "directory")
		require.Contains(t, st.Unread[1].Reason, "2 names (hard links)")
		require.Contains(t, st.Unread[2].Reason, "directory")
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		require.NoError(t, os.Remove(dir+"/1.log"))
		require.NoError(t, os.Remove(dir+"/2.log"))
		require.NoError(t, os.Remove(alone))
		wait(3 * time.Second)
		require.Empty(t, l.tailer.Status().Unread)
		l.stop()
	})
}

// Logs beyond the bound are not read: that is reported and holds the watermark back.
func TestStreamsAreBounded(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.cfg.streams = 5
		var cs []*kubesim.Container
		for i := range 7 {
			cs = append(cs, kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprint("pod-", i)}))
			t.Cleanup(cs[i].Close)
			cs[i].Write("stdout", "text")
		}
		l.start(nil)
		wait(3 * time.Second)
		st := l.tailer.Status()
		require.Len(t, st.Streams, 5)
		require.Contains(t, st.Error, "2 logs in "+l.finder.Root+" are not read: there are more than 5")
		require.False(t, st.Up)
		require.Zero(t, l.pipe.watermarkAt())
		for _, c := range cs {
			if c.Path() == st.Streams[0].Path || c.Path() == st.Streams[1].Path {
				c.Remove()
			}
		}
		wait(20 * time.Second)
		require.Len(t, l.pipe.taken(), 7)
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		l.stop()
	})
}
