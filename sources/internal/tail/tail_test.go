package tail

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/logname"
	"crowsnest/sources/internal/position"
	"crowsnest/test/kubesim"
)

// Without a position reading starts with the lines that are not older than the
// look-back, in whichever file they are.
func TestLookBack(t *testing.T) {
	f := func(rotate int) {
		t.Helper()
		bubble(t, podFinder, func(t *testing.T, l *lab) {
			at := time.Now().Add(-time.Hour)
			c := kubesim.New(kubesim.Options{Root: l.finder.Root, MaxFiles: 1000, Clock: func() time.Time { return at }})
			var want []string
			start := time.Now().Add(-defaultLookBack)
			n := 0
			for ; at.Before(time.Now()); at = at.Add(time.Second) {
				n++
				text := fmt.Sprintf("seq=%d", n)
				c.Write("stdout", text+strings.Repeat(" pad", n%50))
				if !at.Before(start) {
					want = append(want, text)
				}
				if rotate > 0 && n%rotate == 0 {
					c.Rotate()
				}
			}
			l.start(nil)
			wait(3 * time.Second)
			got := l.pipe.taken()
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], " ")
			}
			extra := len(got) - len(want) // a second of slack, or the start of a .gz
			require.GreaterOrEqual(t, extra, 0)
			if rotate == 0 || rotate > 2000 {
				require.LessOrEqual(t, extra, 2)
			} else {
				require.LessOrEqual(t, extra, rotate)
			}
			requireLines(t, want, got[extra:])
			l.stop()
			c.Close()
		})
	}
	f(0)
	f(100)  // the start is in a compressed file
	f(500)  // in the newest but one
	f(2500) // in the file that is written to
}

// With a state a stream that is not in it is new: it is read from its start.
func TestNewStreamAfterLongPause(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.start(nil)
		wait(3 * time.Second)
		s := l.stop()
		wait(time.Second)
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Write("stdout", seq.next())
		wait(2 * time.Hour)
		c.Write("stdout", seq.next())
		l.start(s)
		wait(3 * time.Second)
		requireLines(t, seq.want, l.pipe.taken())
		l.stop()
		c.Close()
	})
}

// The watermark never passes an unread line, and follows what is written within a second.
func TestWatermark(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		r := rand.New(rand.NewPCG(1, 5))
		var cs []*kubesim.Container
		for i := range 5 {
			cs = append(cs, kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprintf("p%d", i)}))
		}
		l.cfg.Framed = true // as the source kubelet sets it
		l.start(nil)
		written := map[string]time.Time{}
		n := 0
		for range 120 {
			for range r.IntN(20) {
				n++
				text := fmt.Sprintf("seq=%d", n)
				c := cs[r.IntN(len(cs))]
				c.Write("stdout", text)
				written[text] = time.Now()
				if r.IntN(40) == 0 {
					c.Rotate()
				}
			}
			wait(time.Duration(r.IntN(400)) * time.Millisecond)
			l.pipe.mu.Lock()
			watermark := l.pipe.watermark
			for _, got := range l.pipe.lines {
				delete(written, got)
			}
			l.pipe.mu.Unlock()
			for text, at := range written {
				require.False(t, at.Before(watermark), "%s was written at %s, watermark is %s", text, at, watermark)
			}
			require.Less(t, time.Since(watermark), time.Second)
		}
		l.stop()
		for _, c := range cs {
			require.NoError(t, c.Err)
			c.Close()
		}
	})
}

// A root that cannot be listed holds the watermark back.
func TestNoWatermarkWithoutRoot(t *testing.T) {
	bubble(t, func(root string) Finder { return podFinder(filepath.Join(root, "pods")) }, func(t *testing.T, l *lab) {
		l.start(nil)
		wait(10 * time.Second)
		st := l.tailer.Status()
		require.False(t, st.Up)
		require.False(t, st.Opened)
		require.NotEmpty(t, st.Error)
		require.True(t, l.pipe.watermarkAt().IsZero())

		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Write("stdout", seq.next())
		wait(10 * time.Second)
		st = l.tailer.Status()
		require.True(t, st.Up)
		require.Empty(t, st.Error)
		requireLines(t, seq.want, l.pipe.taken())
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		require.Zero(t, st.Lag.Truncate(time.Second))

		// It is renamed and comes back.
		require.NoError(t, os.Rename(l.finder.Root, l.finder.Root+".old"))
		wait(10 * time.Second)
		require.False(t, l.tailer.Status().Up)
		require.True(t, l.tailer.Status().Opened)
		require.Greater(t, time.Since(l.pipe.watermarkAt()), 4*time.Second)
		require.Greater(t, l.tailer.Status().Lag, 4*time.Second)
		require.NoError(t, os.Rename(l.finder.Root+".old", l.finder.Root))
		c.Write("stdout", seq.next())
		wait(10 * time.Second)
		requireLines(t, seq.want, l.pipe.taken())
		l.stop()
		c.Close()
	})
}

// The lines of a quiet stream do not wait until the backlog of another one is read.
func TestBacklogAndQuietStream(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		hot := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "hot"})
		pad := strings.Repeat("x", 1000)
		const lines = 5000
		for range lines {
			hot.Write("stdout", "text hot "+pad)
		}
		quiet := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "quiet"})
		quiet.Write("stdout", "text quiet")
		l.start(nil)
		wait(2 * time.Second)
		got := l.pipe.taken()
		require.Len(t, got, lines+1)
		at := 0
		for i, g := range got {
			if g == "text quiet" {
				at = i
			}
		}
		require.Less(t, at, 3000, "lines of the other stream before it")
		l.stop()
		hot.Close()
		quiet.Close()
	})
}

// Logs that logrotate numbers and compresses with a delay, over stops and kills.
func TestRandomPlain(t *testing.T) {
	for seed := range uint64(seeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(root string) Finder { return plainFinder(root, "app.log") }, func(t *testing.T, l *lab) {
				randomPlain(t, l, seed)
			})
		})
	}
}

func randomPlain(t *testing.T, l *lab, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 6))
	path := filepath.Join(l.finder.Root, "app.log")
	f := appendTo(t, path)
	var seq numbered
	writeLines(t, f, &seq, 1)
	l.start(nil)
	wait(time.Second)
	saved := l.pipe.snapshot(l.tailer)
	down, rotations := false, 0
	for range 60 {
		switch n := r.IntN(16); {
		case n < 6:
			writeLines(t, f, &seq, r.IntN(30)+1)
		case n < 9 && rotations < 3:
			if r.IntN(4) > 0 {
				writeLines(t, f, &seq, 1)
			}
			rotateNumbered(t, path)
			if r.IntN(2) == 0 { // the program still has the old file open
				writeLines(t, f, &seq, r.IntN(3))
			}
			f = appendTo(t, path)
			rotations++
		case n == 9 && !down:
			saved = *l.stop()
			down = true
		case n == 10 && !down:
			l.kill()
			down = true
		case down:
			l.start(&saved)
			down = false
			wait(2 * time.Second)
			saved = l.pipe.snapshot(l.tailer)
		default:
			wait(time.Duration(r.IntN(2000)) * time.Millisecond)
			saved = l.pipe.snapshot(l.tailer)
		}
		if len(saved.lines) == seq.n {
			rotations = 0
		}
	}
	if down {
		l.start(&saved)
	}
	wait(10 * time.Second)
	requireLines(t, seq.want, l.pipe.taken())
	l.stop()
}

// rotateNumbered moves app.log to .1, .1 to .2 compressed, .2.gz to .3.gz.
func rotateNumbered(t *testing.T, path string) {
	t.Helper()
	for n := 6; n >= 2; n-- {
		_ = os.Rename(fmt.Sprintf("%s.%d.gz", path, n), fmt.Sprintf("%s.%d.gz", path, n+1))
	}
	if _, err := os.Stat(path + ".1"); err == nil {
		require.NoError(t, os.Rename(path+".1", path+".2"))
		require.NoError(t, exec.Command("gzip", path+".2").Run())
	}
	require.NoError(t, os.Rename(path, path+".1"))
}

// A first start reads plain files from their end, and files that come later
// from their start.
func TestFromEnd(t *testing.T) {
	bubble(t, func(root string) Finder { return plainFinder(root, "app.log") }, func(t *testing.T, l *lab) {
		l.cfg.FromEnd = true
		f := appendTo(t, filepath.Join(l.finder.Root, "app.log"))
		_, err := f.WriteString("text old\ntext old2\ntext ha")
		require.NoError(t, err)
		l.start(nil)
		wait(500 * time.Millisecond)
		_, err = f.WriteString("lf\ntext new\n")
		require.NoError(t, err)
		wait(2 * time.Second)
		require.Equal(t, []string{"text half", "text new"}, l.pipe.taken())
		s := l.stop()
		_, err = f.WriteString("text down\n")
		require.NoError(t, err)
		l.start(s)
		wait(2 * time.Second)
		require.Equal(t, "text down", last(l.pipe.taken()))
		require.NoError(t, os.Remove(f.Name()))
		wait(20 * time.Second)
		f = appendTo(t, f.Name())
		_, err = f.WriteString("text again\n")
		require.NoError(t, err)
		wait(5 * time.Second)
		require.Equal(t, []string{"text half", "text new", "text down", "text again"}, l.pipe.taken())
		l.stop()
	})
}

// inotify reports new containers: they do not wait for the next poll.
func TestWatch(t *testing.T) {
	root := t.TempDir()
	l := &lab{t: t, cfg: Config{Source: "test", Poll: time.Hour}, finder: podFinder(root)}
	l.start(nil)
	require.Eventually(t, func() bool { return l.tailer.Status().Up }, 20*time.Second, 5*time.Millisecond)
	elsewhere := t.TempDir()
	c := kubesim.New(kubesim.Options{Root: elsewhere})
	c.Write("stdout", "text 1")
	require.NoError(t, os.Rename(c.PodDir(), filepath.Join(root, filepath.Base(c.PodDir()))))
	require.Eventually(t, func() bool { return len(l.pipe.taken()) == 1 }, 20*time.Second, 5*time.Millisecond)
	l.stop()
	c.Close()
}

// The times in the files correct the order of names whose clock went back by an hour.
func TestOrderByTimeInFile(t *testing.T) {
	m := func(name string, first int64) member {
		o, _ := logname.ParseKubeletName(name)
		return member{name: name, order: o, head: &head{first: first}}
	}
	got := inOrder([]member{
		m("0.log", 40), m("0.log.20261025-020500.gz", 30), m("0.log.20261025-025900.gz", 10),
		m("0.log.20261025-024000", 20), m("0.log.20261025-024000.gz", 20), m("1.log", 5),
	})
	var names []string
	for _, g := range got {
		names = append(names, g.name)
	}
	require.Equal(t, []string{
		"0.log.20261025-025900.gz", "0.log.20261025-024000", "0.log.20261025-020500.gz", "0.log", "1.log",
	}, names)
}

// Any saved state is accepted or refused, and reading continues.
func FuzzRestore(f *testing.F) {
	t := New(Config{}, Finder{})
	f.Add([]byte(t.Positions()))
	p := &position.Stream{Point: position.Point{Name: "0.log", ID: content.ID{N: 5}, Offset: 3, End: 9, MarkN: 9}, Ended: true, RotatedPoint: &position.Point{Name: "x"}}
	b, err := json.Marshal(position.Set{Version: 1, ReadUpTo: time.Now(), Streams: map[string]*position.Stream{"ns_pod_uid/c": p, "x": {}}})
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"v":1,"streams":{"ns_pod_uid/c":null}}`))
	f.Add([]byte(`{"v":1,"streams":{"ns_pod_uid/c":{"o":-1,"e":9223372036854775807,"l":300}}}`))
	f.Add([]byte(`null`))
	root := f.TempDir()
	c := kubesim.New(kubesim.Options{Root: root, UID: "uid"})
	c.Write("stdout", "text 1")
	c.Rotate()
	c.Write("stdout", "text 2")
	c.Rotate()
	c.Close()
	require.NoError(f, c.Err)
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newPipe(t)
		tl := New(Config{NoWatch: true, LookBack: -1}, podFinder(root))
		_ = tl.Restore(b)
		tl.p = p
		tl.pipeline.open(tl.p)
		w := &worker{}
		for range 3 {
			tl.findAll(nil, true)
			tl.queueAll(false)
			for range len(tl.followers) {
				c := tl.queue.take(t.Context())
				tl.queue.done(c, c.runTurn(w))
			}
		}
		require.NoError(t, New(Config{}).Restore(tl.Positions()))
		for _, c := range tl.followers {
			c.closeAll()
		}
		tl.trees[0].root.Close()
		require.Zero(t, tl.files.Load())
	})
}

// The lines do not depend on the pieces in which bytes are written.
func FuzzPieces(f *testing.F) {
	f.Add([]byte("text 1\ntext 2\r\n\ntext 3"), uint64(1))
	f.Add([]byte("text\x00\x00 1\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00text 2\n"), uint64(2))
	f.Add([]byte(strings.Repeat("text ", 100)+"\n"), uint64(3))
	f.Fuzz(func(t *testing.T, content []byte, seed uint64) {
		if hasHole(content) {
			return // half of a hole may be too short to be one
		}
		dir := t.TempDir()
		file := appendTo(t, filepath.Join(dir, "x.log"))
		p := newPipe(t)
		tl := New(Config{NoWatch: true, LookBack: -1}, plainFinder(dir, "x.log"))
		tl.p = p
		tl.pipeline.open(tl.p)
		w := &worker{}
		r := rand.New(rand.NewPCG(seed, 7))
		turn := func() {
			tl.findAll(nil, true)
			for _, c := range tl.followers {
				for c.runTurn(w) {
				}
			}
		}
		for rest := content; len(rest) > 0; {
			n := min(len(rest), r.IntN(64)+1)
			_, err := file.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
			turn()
		}
		turn()
		var want []string
		for line := range strings.SplitSeq(string(content), "\n") {
			line = strings.TrimSuffix(strings.ReplaceAll(line, "\x00", ""), "\r")
			want = append(want, line)
		}
		want = want[:len(want)-1] // has no end
		kept := want[:0]
		for _, line := range want {
			if strings.Contains(line, "text") || strings.Contains(line, "seq=") {
				kept = append(kept, line)
			}
		}
		requireLines(t, kept, p.taken())
		for _, c := range tl.followers {
			c.closeAll()
		}
		tl.trees[0].root.Close()
	})
}

func hasHole(b []byte) bool { return strings.Contains(string(b), strings.Repeat("\x00", minNUL)) }
