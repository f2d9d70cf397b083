package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/logdir"
	"crowsnest/test/kubesim"
)

// awayAndBack are the ways in which a tree is replaced by something else.
var awayAndBack = map[string]func(t *testing.T, root string){
	"nothing": func(t *testing.T, root string) {},
	"an empty folder": func(t *testing.T, root string) {
		require.NoError(t, os.Mkdir(root, 0o755))
	},
	"a folder of another node": func(t *testing.T, root string) {
		c := kubesim.New(kubesim.Options{Root: root, Pod: "stranger"})
		c.Write("stdout", "strange")
		c.Close()
		require.NoError(t, c.Err)
	},
	"a file": func(t *testing.T, root string) {
		require.NoError(t, os.WriteFile(root, nil, 0o600))
	},
}

// A tree disappears while the tailer runs or is stopped: it does not count as a tree
// without logs. The watermark stays, nothing is lost, and reading continues when the tree
// is back.
func TestTreeAwayAndBack(t *testing.T) {
	for name, replace := range awayAndBack {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " down ", down), func(t *testing.T) {
				bubble(t, podFinder, func(t *testing.T, l *lab) {
					away := filepath.Join(t.TempDir(), "away")
					l.finder.Root = filepath.Join(l.finder.Root, "pods")
					var seq numbered
					var cs []*kubesim.Container
					for i := range 3 {
						cs = append(cs, kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprint("pod-", i)}))
						t.Cleanup(cs[i].Close)
						several(cs[i], &seq, 5)
					}
					l.start(nil)
					wait(3 * time.Second)
					var s *snapshot
					if down {
						s = l.stop()
					}
					require.NoError(t, os.Rename(l.finder.Root, away))
					replace(t, l.finder.Root)
					gone := time.Now()
					if down {
						l.start(s)
					}
					for _, c := range cs { // their files are open and still grow
						several(c, &seq, 3)
					}
					wait(time.Second)
					before := l.pipe.watermarkAt()
					require.False(t, before.After(gone.Add(time.Second)))
					wait(3 * time.Minute)
					require.Equal(t, before, l.pipe.watermarkAt(), "the watermark stays meanwhile")
					st := l.tailer.Status()
					require.False(t, st.Up)
					require.NotEmpty(t, st.Error)
					require.Equal(t, !down, st.Opened)

					require.NoError(t, os.RemoveAll(l.finder.Root))
					require.NoError(t, os.Rename(away, l.finder.Root))
					back := time.Now()
					for _, c := range cs {
						several(c, &seq, 3)
					}
					wait(4 * time.Second)
					require.ElementsMatch(t, seq.want, l.pipe.taken())
					require.True(t, l.pipe.watermarkAt().After(back))
					require.Empty(t, l.losses())
					require.True(t, l.tailer.Status().Up)
					l.stop()
				})
			})
		}
	}
}

// After a tree was away, the watermark stays until each log was polled again.
func TestWatermarkWaitsForEachLogAfterTheReturn(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		away := filepath.Join(t.TempDir(), "away")
		l.finder.Root = filepath.Join(l.finder.Root, "pods")
		blocked := make(chan struct{})
		var hang string
		l.cfg.fault = func(op, path string) error {
			if op == "open" && hang != "" && path == hang {
				<-blocked
			}
			return nil
		}
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		t.Cleanup(c.Close)
		several(c, &seq, 5)
		l.start(nil)
		wait(3 * time.Second)
		s := l.stop()
		hang = c.Path()
		require.NoError(t, os.Rename(l.finder.Root, away))
		l.start(s)
		wait(time.Minute)
		require.NoError(t, os.Rename(away, l.finder.Root))
		back := time.Now()
		wait(10 * time.Second)
		require.True(t, l.tailer.Status().Up)
		require.True(t, l.pipe.watermarkAt().Before(back), "the log was not polled")
		close(blocked)
		wait(3 * time.Second)
		require.True(t, l.pipe.watermarkAt().After(back))
		l.stop()
	})
}

// An empty tree is trusted if nothing contradicts it: at a first start, if it is the same
// directory as before, and after ten minutes in any case.
func TestEmptyTreesAreTrusted(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.start(nil)
		wait(3 * time.Second)
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		t.Cleanup(c.Close)
		several(c, &seq, 5)
		wait(3 * time.Second)
		s := l.stop()
		several(c, &seq, 5)
		c.Remove()
		l.start(s)
		wait(15 * time.Second)
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		require.Equal(t, map[string]int64{lossRemoved: 1}, l.losses())
		l.stop()
	})
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.finder.Root = filepath.Join(l.finder.Root, "pods")
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		t.Cleanup(c.Close)
		several(c, &seq, 5)
		l.start(nil)
		wait(3 * time.Second)
		require.NoError(t, os.Rename(l.finder.Root, filepath.Join(t.TempDir(), "away")))
		require.NoError(t, os.Mkdir(l.finder.Root, 0o755))
		wait(9 * time.Minute)
		require.False(t, l.tailer.Status().Up)
		wait(2 * time.Minute)
		require.True(t, l.tailer.Status().Up)
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		require.Empty(t, l.tailer.Status().Streams)
		l.stop()
	})
}

// A finder that knows its directory decides alone, also at the first start.
func TestFinderThatKnowsItsTree(t *testing.T) {
	bubble(t, func(root string) Finder {
		f := podFinder(root)
		find := f.Find
		f.ChecksRoot = true
		f.Find = func(list func(string) ([]logdir.Entry, error)) ([]Stream, error) {
			found, err := find(list)
			if _, missing := os.Stat(root + "/own"); missing != nil && err == nil {
				err = ErrDoubt
			}
			return found, err
		}
		return f
	}, func(t *testing.T, l *lab) {
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		t.Cleanup(c.Close)
		c.Write("stdout", "text 1")
		l.start(nil)
		wait(forgetAfter + 2*time.Minute)
		require.False(t, l.tailer.Status().Opened)
		require.Zero(t, l.pipe.watermarkAt())
		require.Empty(t, l.losses())
		require.NoError(t, os.WriteFile(l.finder.Root+"/own", nil, 0o600))
		wait(3 * time.Second)
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		require.NoError(t, os.Remove(l.finder.Root+"/own"))
		wait(time.Second)
		at := l.pipe.watermarkAt()
		c.Write("stdout", "text 2")
		wait(forgetAfter + 2*time.Minute)
		require.Equal(t, at, l.pipe.watermarkAt())
		require.Contains(t, l.pipe.taken(), "text 2", "open files are still read")
		l.stop()
	})
}
