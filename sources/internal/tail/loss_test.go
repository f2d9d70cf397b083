package tail

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/position"
	"crowsnest/test/kubesim"
)

// losses returns how often each reason was counted.
func (l *lab) losses() map[string]int64 {
	out := map[string]int64{}
	for reason, x := range l.tailer.Status().Losses {
		out[reason] = x.Count
	}
	return out
}

// requireBalance checks the counters of lines; it may be called while nothing is read.
func (l *lab) requireBalance() {
	l.t.Helper()
	s := l.tailer.Status()
	require.Equal(l.t, s.Lines, s.Evaluated+s.Dropped, "lines read = evaluated + dropped")
}

func several(c *kubesim.Container, seq *numbered, n int) {
	for range n {
		c.Write("stdout", seq.next())
	}
}

// compressInPlace compresses a file as the kubelet does with older ones.
func compressInPlace(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	f, err := os.Create(name + ".gz")
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write(b)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	require.NoError(t, os.Remove(name))
	return name + ".gz"
}

// A loss is counted once, under its reason, and a restart keeps the count.
func TestLossesAreCounted(t *testing.T) {
	rotated := func(t *testing.T, c *kubesim.Container) string {
		names, err := filepath.Glob(c.Path() + ".*")
		require.NoError(t, err)
		require.NotEmpty(t, names)
		return names[0]
	}
	f := func(want map[string]int64, down bool, damage func(t *testing.T, c *kubesim.Container, seq *numbered)) {
		t.Helper()
		bubble(t, podFinder, func(t *testing.T, l *lab) {
			var seq numbered
			c := kubesim.New(kubesim.Options{Root: l.finder.Root})
			t.Cleanup(c.Close)
			several(c, &seq, 20)
			l.start(nil)
			wait(3 * time.Second)
			require.Empty(t, l.losses())
			var s *snapshot
			if down {
				s = l.stop()
			}
			damage(t, c, &seq)
			if down {
				l.start(s)
			}
			wait(40 * time.Second)
			require.Equal(t, want, l.losses())
			l.requireBalance()
			s = l.stop()
			l.start(s)
			wait(40 * time.Second)
			require.Equal(t, want, l.losses(), "over a restart")
			l.requireBalance()
			l.stop()
		})
	}
	nothing := map[string]int64{}
	const up, down = false, true

	f(nothing, down, func(_ *testing.T, c *kubesim.Container, seq *numbered) {
		several(c, seq, 5)
		c.Rotate()
		several(c, seq, 5)
	})
	f(map[string]int64{lossGap: 1}, down, func(t *testing.T, c *kubesim.Container, seq *numbered) {
		several(c, seq, 5)
		c.Rotate()
		require.NoError(t, os.Remove(rotated(t, c)))
		several(c, seq, 5)
	})
	f(map[string]int64{lossGap: 1}, down, func(t *testing.T, c *kubesim.Container, seq *numbered) {
		several(c, seq, 5)
		c.Rotate()
		require.NoError(t, os.Remove(rotated(t, c)))
		require.NoError(t, os.Remove(c.Path())) // and nothing newer
		require.NoError(t, os.WriteFile(c.Path()+".20250101-000000", []byte("2025-01-01T00:00:00Z stdout F text\n"), 0o600))
	})
	f(map[string]int64{lossTruncated: 1}, up, func(t *testing.T, c *kubesim.Container, seq *numbered) {
		require.NoError(t, os.Truncate(c.Path(), 0))
		several(c, seq, 2)
	})
	f(map[string]int64{lossGap: 1}, down, func(t *testing.T, c *kubesim.Container, seq *numbered) {
		several(c, seq, 5)
		require.NoError(t, os.Truncate(c.Path(), 0))
		several(c, seq, 2)
	})
	f(nothing, up, func(t *testing.T, c *kubesim.Container, _ *numbered) { // read to its end
		require.NoError(t, os.RemoveAll(c.PodDir()))
	})
	f(map[string]int64{lossRemoved: 1}, down, func(t *testing.T, c *kubesim.Container, seq *numbered) {
		several(c, seq, 5)
		require.NoError(t, os.RemoveAll(c.PodDir()))
	})
	f(map[string]int64{lossRemoved: 1}, down, func(t *testing.T, c *kubesim.Container, _ *numbered) {
		require.NoError(t, os.Remove(c.Path())) // the directory stays
	})
	f(map[string]int64{lossGzip: 1}, down, func(t *testing.T, c *kubesim.Container, seq *numbered) {
		several(c, seq, 400)
		c.Rotate()
		gz := compressInPlace(t, rotated(t, c))
		fi, err := os.Stat(gz)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(gz, fi.Size()*3/4))
		several(c, seq, 5)
	})
	f(map[string]int64{lossGap: 1}, down, func(t *testing.T, c *kubesim.Container, seq *numbered) {
		several(c, seq, 5) // nothing can be decompressed
		c.Rotate()
		require.NoError(t, os.WriteFile(compressInPlace(t, rotated(t, c)), []byte("no gzip"), 0o600))
		several(c, seq, 5)
	})
}

// A compressed file that cannot be read at all is counted once and skipped, also if no
// file follows.
func TestNothingButDamage(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Close()
		require.NoError(t, os.Remove(c.Path()))
		gz := c.Path() + ".20260102-000000.gz"
		require.NoError(t, os.WriteFile(gz, []byte("no gzip"), 0o600))
		l.start(nil)
		wait(20 * time.Second)
		require.Equal(t, map[string]int64{lossGzip: 1}, l.losses())
		require.NoError(t, os.WriteFile(c.Path(), []byte(c.Stamp()+" stdout F text\n"), 0o600))
		wait(3 * time.Second)
		require.Equal(t, []string{"text"}, l.pipe.taken())
		l.stop()
	})
}

// A directory that was removed before it could be listed is a loss; one that was empty is
// not.
func TestRemovedBeforeItWasListed(t *testing.T) {
	f := func(want map[string]int64, empty bool) {
		t.Helper()
		bubble(t, func(root string) Finder {
			real := podFinder(root)
			return Finder{Root: root, Find: func(list func(string) ([]logdir.Entry, error)) ([]Stream, error) {
				found, err := real.Find(list)
				if !empty {
					for _, s := range found {
						_ = os.RemoveAll(filepath.Join(root, filepath.Dir(s.Dir)))
					}
				}
				return found, err
			}}
		}, func(t *testing.T, l *lab) {
			l.start(nil)
			wait(time.Second)
			dir := filepath.Join(l.finder.Root, "ns_pod_uid", "c")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			wait(10 * time.Second)
			require.NoError(t, os.RemoveAll(filepath.Dir(dir)))
			wait(10 * time.Second)
			require.Equal(t, want, l.losses())
			l.stop()
		})
	}
	f(map[string]int64{}, true)
	f(map[string]int64{lossRemoved: 1}, false)
}

// Unfinished parts are counted when they are matched.
func TestBalanceWithUnfinishedParts(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		t.Cleanup(c.Close)
		c.Write("stdout", "text whole")
		c.Part("stdout", "text without an end")
		l.start(nil)
		wait(5 * time.Second)
		l.requireBalance()
		require.EqualValues(t, 2, l.tailer.Status().Lines)
		l.stop()
	})
}

// Of very many removed streams, the newest positions are kept.
func TestPositionsOfRemovedStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := New(Config{Source: "test", NoWatch: true}, podFinder(t.TempDir()))
		for i := range 3 * maxMissing {
			tl.restored[fmt.Sprint(i)] = &restored{pos: &position.Stream{Ended: true}, at: time.Now().Add(time.Duration(i) * time.Millisecond)}
		}
		tl.opened = true
		tl.dropRemoved(time.Now())
		require.Len(t, tl.restored, maxMissing)
		require.NotNil(t, tl.restored[fmt.Sprint(3*maxMissing-1)])
		tl.dropRemoved(time.Now().Add(time.Hour))
		require.Empty(t, tl.restored)
	})
}
