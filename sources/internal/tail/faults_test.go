package tail

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

// appendTo opens a log like a program that keeps it open.
func appendTo(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func writeLines(t *testing.T, f *os.File, seq *numbered, n int) {
	t.Helper()
	for range n {
		_, err := fmt.Fprintln(f, seq.next())
		require.NoError(t, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o644))
}

// The file is copied and truncated while the tailer runs or is stopped: unread lines are
// read from the copy.
func TestCopyTruncate(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(root string) Finder { return plainFinder(root, "x.log") }, func(t *testing.T, l *lab) {
			r := rand.New(rand.NewPCG(seed, 3))
			path := l.finder.Root + "/x.log"
			f := appendTo(t, path)
			var seq numbered
			l.cfg.FromEnd = false
			l.start(nil)
			for range 10 {
				writeLines(t, f, &seq, r.IntN(50)+1)
				wait(time.Duration(r.IntN(500)) * time.Millisecond)
				down := r.IntN(3) == 0
				var s *snapshot
				if down {
					s = l.stop()
				}
				writeLines(t, f, &seq, r.IntN(50))
				if _, err := os.Stat(path + ".1"); err == nil {
					require.NoError(t, os.Rename(path+".1", path+".2"))
				}
				copyFile(t, path, path+".1")
				require.NoError(t, f.Truncate(0))
				// The file grows beyond its previous size, or not.
				writeLines(t, f, &seq, r.IntN(200))
				if down {
					l.start(s)
				}
				wait(2 * time.Second)
			}
			wait(3 * time.Second)
			requireLines(t, seq.want, l.pipe.taken())
			l.stop()
		})
	}
}

// A file was empty at the last poll. Before the next one it is written, copied, truncated and
// written again: all of the copy is unread.
func TestCopyTruncateOfEmptyFile(t *testing.T) {
	for range 5 {
		bubble(t, func(root string) Finder { return plainFinder(root, "x.log") }, func(t *testing.T, l *lab) {
			path := l.finder.Root + "/x.log"
			f := appendTo(t, path)
			var seq numbered
			l.start(nil)
			wait(30 * time.Millisecond)
			for range 3 {
				writeLines(t, f, &seq, 44)
				copyFile(t, path, path+".1")
				require.NoError(t, f.Truncate(0))
				writeLines(t, f, &seq, 66)
				wait(2 * time.Second)
				requireLines(t, seq.want, l.pipe.taken())

				require.NoError(t, f.Truncate(0))
				require.NoError(t, os.Remove(path+".1"))
				wait(2 * time.Second)
			}
			l.stop()
		})
	}
}

// A file that is truncated without a copy is read from its start, once, whatever its size
// is now.
func TestTruncateWithoutCopy(t *testing.T) {
	f := func(down bool, before, after string) {
		t.Helper()
		bubble(t, func(root string) Finder { return plainFinder(root, "x.log") }, func(t *testing.T, l *lab) {
			path := l.finder.Root + "/x.log"
			require.NoError(t, os.WriteFile(path, []byte(before), 0o644))
			l.start(nil)
			wait(2 * time.Second)
			s := l.stop()
			if !down {
				l.start(s)
				wait(2 * time.Second)
			}
			require.NoError(t, os.WriteFile(path, []byte(after), 0o644)) // truncates
			// Only the modification time shows that a file of the same size has another
			// content, and the kernel's time stamps are coarse.
			require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().AddDate(50, 0, 0)))
			if down {
				l.start(s)
			}
			wait(3 * time.Second)
			want := strings.Fields(strings.ReplaceAll(before+after, "text ", "text-"))
			got := strings.Fields(strings.ReplaceAll(strings.Join(l.pipe.taken(), "\n"), "text ", "text-"))
			require.Equal(t, want, got)
			l.stop()
		})
	}
	for _, down := range []bool{false, true} {
		f(down, "text a\ntext b\n", "text c\n")                         // shorter
		f(down, "text a\ntext b\n", "text c\ntext d\n")                 // the same size
		f(down, "text a\ntext b\n", "text c\ntext d\ntext e\n")         // longer
		f(down, "text a\ntext b\n", "text a\ntext c\ntext e\n")         // longer, starts alike
		f(down, "text a\ntext b\n", "text c\ntext b\ntext something\n") // longer, and alike before the position
		alike := strings.Repeat("-", 2*markSize) + "\n"
		f(down, "text a"+alike+"text b"+alike, "text c"+alike+"text d"+alike)                // the same size and end
		f(down, "text a"+alike+"text b"+alike, "text c"+alike+"text d"+alike+"text e"+alike) // longer, and alike there
	}
}

// The kubelet renames back if the runtime cannot reopen. Nothing is read twice.
func TestRenameBackAndLongHole(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Write("stdout", seq.next())
		l.start(nil)
		for range 5 {
			c.RenameAway()
			c.Write("stdout", seq.next()) // the runtime still has the file
			wait(7 * time.Second)
			c.RenameBack()
			c.Write("stdout", seq.next())
			wait(2 * time.Second)
		}
		c.RenameAway()
		c.Write("stdout", seq.next())
		wait(40 * time.Second) // the path is absent for long
		s := l.stop()
		l.start(s)
		wait(10 * time.Second)
		c.Write("stdout", seq.next())
		wait(time.Second)
		c.Reopen()
		c.Write("stdout", seq.next())
		wait(10 * time.Second)
		requireLines(t, seq.want, l.pipe.taken())
		require.NoError(t, c.Err)
		l.stop()
		c.Close()
	})
}

// The runtime writes to the old file after the new one has lines.
func TestLateBytesInTheRotatedFile(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Write("stdout", seq.next())
		l.start(nil)
		wait(time.Second)
		rotated := func() *os.File {
			names, err := filepath.Glob(c.Path() + ".*")
			require.NoError(t, err)
			return appendTo(t, names[len(names)-1])
		}
		c.Rotate()
		old := rotated()
		for _, pause := range []time.Duration{0, 100 * time.Millisecond, time.Second, 4 * time.Second} {
			c.Write("stdout", seq.next())
			wait(pause)
			_, err := fmt.Fprintf(old, "%s stdout F %s\n", c.Stamp(), seq.next())
			require.NoError(t, err)
		}
		// A kill before the late bytes were read loses none of them.
		wait(time.Second)
		s := l.pipe.snapshot(l.tailer)
		l.kill()
		_, err := fmt.Fprintf(old, "%s stdout F %s\n", c.Stamp(), seq.next())
		require.NoError(t, err)
		c.Write("stdout", seq.next())
		l.start(&s)
		wait(10 * time.Second)
		require.ElementsMatch(t, seq.want, l.pipe.taken())
		l.stop()
		c.Close()
	})
}

// A deleted file is read to its end and closed; its position is kept for a while.
func TestDeletedPod(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Write("stdout", seq.next())
		l.start(nil)
		wait(time.Second)
		c.Write("stdout", seq.next())
		c.Rotate()
		c.Write("stdout", seq.next())
		wait(300 * time.Millisecond) // until the tailer has opened it
		c.Remove()
		c.Write("stdout", seq.next())
		wait(5 * time.Second)
		require.Zero(t, l.tailer.files.Load(), "descriptors")
		wait(5 * time.Second)
		require.Empty(t, l.tailer.Status().Streams)
		requireLines(t, seq.want, l.pipe.taken())
		require.Contains(t, string(l.tailer.Positions()), "ns_pod")
		wait(forgetAfter + 10*time.Second)
		require.NotContains(t, string(l.tailer.Positions()), "ns_pod")
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		l.stop()
		c.Close()
	})
}

// A runtime that still writes to a deleted file: its lines are read for a bounded time,
// then the file is closed.
func TestDeletedFileThatGrowsIsClosed(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Write("stdout", seq.next())
		l.start(nil)
		wait(time.Second)
		c.Remove()
		for range 350 {
			c.Write("stdout", seq.next())
			wait(100 * time.Millisecond)
		}
		require.Zero(t, l.tailer.files.Load(), "descriptors")
		got := l.pipe.taken()
		requireLines(t, seq.want[:len(got)], got)
		require.Greater(t, len(got), 280)
		l.stop()
		c.Close()
	})
}

// A line that does not end takes a bounded amount of memory. Its start and the lines
// after it are matched.
func TestEndlessLine(t *testing.T) {
	bubble(t, func(root string) Finder { return plainFinder(root, "x.log") }, func(t *testing.T, l *lab) {
		f := appendTo(t, l.finder.Root+"/x.log")
		write := func(s string) { _, err := f.WriteString(s); require.NoError(t, err) }
		write("text 1\n")
		l.start(nil)
		long := "text long " + strings.Repeat("x", 1<<20)
		write(long)
		for range 31 {
			write(long)
		}
		wait(3 * time.Second)
		require.Len(t, l.pipe.taken(), 2)
		s := l.stop() // in the middle of it
		l.start(s)
		wait(3 * time.Second)
		write("end\ntext 2\n")
		write(strings.Repeat("y", keepSize+1) + "\n" + strings.Repeat("z", blockSize) + "\ntext 3\n")
		wait(3 * time.Second)
		got := l.pipe.taken()
		require.Equal(t, "text 1", got[0])
		require.Equal(t, []string{"text 2", "text 3"}, got[len(got)-2:])
		for _, g := range got[1 : len(got)-2] {
			require.Equal(t, long[:len(g)], g)
		}
		lost := l.tailer.Status().LostBytes["long_line"]
		require.Equal(t, int64(32*len(long)+len("end\n")-keepSize)+int64(blockSize+1-keepSize), lost)
		l.stop()
		require.LessOrEqual(t, l.pipe.longest, blockSize)
	})
}

// A hole that a crash left in the file ends a line and is skipped.
func TestHoles(t *testing.T) {
	f := func(want []string, lost int64, parts ...any) {
		t.Helper()
		bubble(t, func(root string) Finder { return plainFinder(root, "x.log") }, func(t *testing.T, l *lab) {
			f := appendTo(t, l.finder.Root+"/x.log")
			l.start(nil)
			wait(time.Second)
			for _, p := range parts {
				var err error
				switch p := p.(type) {
				case string:
					_, err = f.WriteString(p)
				case int:
					fi, serr := f.Stat()
					require.NoError(t, serr)
					err = f.Truncate(fi.Size() + int64(p)) // grows: sparse
				}
				require.NoError(t, err)
				wait(300 * time.Millisecond)
			}
			wait(3 * time.Second)
			require.Equal(t, want, l.pipe.taken())
			require.Equal(t, lost, l.tailer.Status().LostBytes["nul"])
			l.stop()
		})
	}
	f([]string{"text a", "text b"}, 8<<20, "text a\n", 8<<20, "text b\n")
	f([]string{"text a", "text b"}, 4096, "text a", 4096, "text b\n")
	f([]string{"text a", "text b"}, blockSize+1, "text a", blockSize+1, "text b\n")
	f([]string{"text b"}, 100, 100, "text b\n")
	f([]string{"text a", "text b", "text c"}, 200, "text a", 100, "text b", 100, "text c\n")
	f([]string{"text ab"}, 0, "text a\x00\x00b\n") // not a hole
}

// A hole within a line of a runtime does not start a new line: the author of the hole could
// forge the time and stream of that line.
func TestHolesOfRuntimes(t *testing.T) {
	bubble(t, func(root string) Finder { return plainFinder(root, "x.log") }, func(t *testing.T, l *lab) {
		l.cfg.Framed = true
		f := appendTo(t, l.finder.Root+"/x.log")
		l.start(nil)
		wait(time.Second)
		_, err := f.WriteString("text a" + strings.Repeat("\x00", minNUL) + "text forged\ntext b\n")
		require.NoError(t, err)
		wait(3 * time.Second)
		require.Equal(t, []string{"text a", "text b"}, l.pipe.taken())
		l.stop()
	})
}

// With fewer descriptors than files every line is read, and the bound is respected.
func TestFewDescriptors(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.cfg.MaxOpen = 5
		var cs []*kubesim.Container
		var seq numbered
		for i := range 30 {
			cs = append(cs, kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprintf("pod-%d", i)}))
			cs[i].Write("stdout", seq.next())
		}
		l.start(nil)
		wait(10 * time.Second)
		require.LessOrEqual(t, l.tailer.files.Load(), int64(5))
		r := rand.New(rand.NewPCG(1, 4))
		for range 100 {
			c := cs[r.IntN(len(cs))]
			c.Write("stdout", seq.next())
			if r.IntN(3) == 0 {
				c.Rotate()
			}
			wait(time.Duration(r.IntN(400)) * time.Millisecond)
		}
		wait(10 * time.Second)
		require.LessOrEqual(t, l.tailer.files.Load(), int64(5))
		require.ElementsMatch(t, seq.want, l.pipe.taken())
		require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
		l.stop()
		for _, c := range cs {
			require.NoError(t, c.Err)
			c.Close()
		}
	})
}

// Nothing remains in memory of containers that come and go.
func TestChurn(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.start(nil)
		wait(time.Second)
		var seq numbered
		const pods = 300
		for i := range pods {
			c := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprintf("pod-%d", i)})
			c.Write("stdout", seq.next())
			wait(300 * time.Millisecond)
			c.Close()
			c.Remove()
			require.NoError(t, c.Err)
		}
		wait(10 * time.Second)
		require.ElementsMatch(t, seq.want, l.pipe.taken())
		require.Zero(t, l.tailer.files.Load(), "descriptors")
		require.Empty(t, l.tailer.Status().Streams)
		require.Equal(t, int64(pods), l.tailer.Status().Lines)
		wait(forgetAfter + 10*time.Second)
		require.Less(t, len(l.tailer.Positions()), 200)
		l.stop()
		require.Empty(t, l.tailer.restored)
		require.Empty(t, l.tailer.followers)
		require.Equal(t, workers+2, l.tailer.gunzips.Free())
		require.LessOrEqual(t, l.tailer.trees[0].dirs.Len(), 2)
	})
}
