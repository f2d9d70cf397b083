package tail

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

// Parts of stdout and stderr in any mixture, over rotations and kills: every line is
// joined. Lines between the parts of another one may be read twice, with the same ID.
func TestRandomParts(t *testing.T) {
	for seed := range uint64(seeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, podFinder, func(t *testing.T, l *lab) { randomParts(t, l, seed) })
		})
	}
}

func randomParts(t *testing.T, l *lab, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	c := kubesim.New(kubesim.Options{Root: l.finder.Root})
	var seq numbered
	open := map[string]string{}
	l.start(nil)
	saved := l.pipe.snapshot(l.tailer)
	rotations := 0
	for range 120 {
		stream := []string{"stdout", "stderr"}[r.IntN(2)]
		switch n := r.IntN(24); {
		case n < 8:
			if open[stream] == "" {
				seq.n++
				open[stream] = fmt.Sprintf("seq=%d:", seq.n)
				c.Part(stream, open[stream])
			}
			text := strings.Repeat("x", r.IntN(50))
			open[stream] += text
			c.Part(stream, text)
		case n < 16:
			if open[stream] != "" {
				seq.want = append(seq.want, open[stream]+"end")
				c.Write(stream, "end")
				open[stream] = ""
			} else {
				c.Write(stream, seq.next())
			}
		case n < 18 && rotations < 3:
			c.Rotate()
			rotations++
		case n == 18:
			l.kill()
			l.start(&saved)
		case n == 19:
			saved = *l.stop()
			l.start(&saved)
		default:
			// Less than the time after which unfinished parts are matched.
			wait(time.Duration(r.IntN(90)) * time.Millisecond)
			saved = l.pipe.snapshot(l.tailer)
			lost := slices.ContainsFunc(seq.want, func(w string) bool { return !slices.Contains(saved.lines, w) })
			if !lost && open["stdout"] == "" && open["stderr"] == "" {
				rotations = 0 // the next ones remove no unread file
			}
		}
	}
	for stream, text := range open {
		if text != "" {
			seq.want = append(seq.want, text+"end")
			c.Write(stream, "end")
		}
	}
	wait(10 * time.Second)
	requireWhole(t, seq.want, l.pipe.taken())
	require.NoError(t, c.Err)
	l.stop()
	c.Close()
}

// requireWhole checks that every line was matched whole, and that every match is a line,
// or the start or end of one.
func requireWhole(t *testing.T, want, got []string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			id, _, _ := strings.Cut(w, ":")
			near := slices.DeleteFunc(slices.Clone(got), func(g string) bool { return !strings.HasPrefix(g, id) && strings.HasPrefix(g, "seq") })
			require.Failf(t, "lost", "%s; near %q", w, near)
		}
	}
	// Any other match is the start of a line that was matched early.
	for _, g := range got {
		ok := slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(w, g) || strings.HasSuffix(w, g) })
		require.True(t, ok, "made up: %.100q", g)
	}
}

// A line without its end is matched after a second, and again as a whole once it ends.
func TestUnterminatedLine(t *testing.T) {
	bubble(t, func(root string) Finder { return plainFinder(root, "x.log") }, func(t *testing.T, l *lab) {
		path := l.finder.Root + "/x.log"
		f, err := os.Create(path)
		require.NoError(t, err)
		write := func(s string) { _, err := f.WriteString(s); require.NoError(t, err) }
		write("text 1\ntext lost")
		l.start(nil)
		wait(500 * time.Millisecond)
		require.Equal(t, []string{"text 1"}, l.pipe.taken())
		wait(1500 * time.Millisecond)
		require.Equal(t, []string{"text 1", "text lost"}, l.pipe.taken())
		wait(10 * time.Second)
		require.Len(t, l.pipe.taken(), 2, "once")

		s := l.stop() // the position is before the line
		s.lines = nil
		l.start(s)
		wait(2 * time.Second)
		require.Equal(t, []string{"text lost"}, l.pipe.taken())
		write(" and found")
		wait(2 * time.Second)
		write("\ntext 3\n")
		wait(2 * time.Second)
		require.Equal(t, []string{"text lost", "text lost and found", "text lost and found", "text 3"}, l.pipe.taken())
		s = l.stop()
		s.lines = nil
		l.start(s)
		wait(2 * time.Second)
		require.Empty(t, l.pipe.taken())
		l.stop()
		require.NoError(t, f.Close())
	})
}

// The runtime writes a part, and its end later or never.
func TestPartWithoutEnd(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Part("stdout", "text lease lost")
		l.start(nil)
		wait(3 * time.Second)
		require.Equal(t, []string{"text lease lost"}, l.pipe.taken())

		// The position is before the part, so that its end completes the line.
		s := l.stop()
		l.start(s)
		c.Write("stdout", " for good")
		wait(3 * time.Second)
		require.Equal(t, []string{"text lease lost", "text lease lost for good"}, l.pipe.taken())

		c.Part("stdout", "text half")
		wait(3 * time.Second)
		c.Write("stdout", " and half") // without a restart as well
		wait(3 * time.Second)
		require.Equal(t, []string{"text half", "text half and half"}, l.pipe.taken()[2:])

		// The parts of a dead container do not become one line with the next.
		c.Part("stdout", "text dead")
		c.Restart()
		c.Write("stdout", "text alive")
		wait(3 * time.Second)
		require.Equal(t, []string{"text dead", "text alive"}, l.pipe.taken()[4:])
		l.stop()
		c.Close()
	})
}

// One stream never ends its line while the other one goes on: the position advances, and
// rereading is bounded.
func TestPartStuckBesideBusyStream(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Part("stdout", "text prompt> ")
		l.start(nil)
		var seq numbered
		for range 200 {
			c.Write("stderr", seq.next())
			wait(100 * time.Millisecond)
		}
		wait(3 * time.Second)
		got := l.pipe.taken()
		for _, w := range seq.want {
			require.Contains(t, got, w)
		}
		s := l.stop()
		for id, n := range l.pipe.byID {
			require.LessOrEqual(t, n, maxRewinds+1, "line %d", id)
		}
		s.lines = nil
		l.start(s)
		wait(3 * time.Second)
		require.LessOrEqual(t, len(l.pipe.taken()), 1)
		l.stop()
		c.Close()
	})
}

// A part in the rotated file, its end in the next one, and a kill between.
func TestPartOverRotationAndKill(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		c.Write("stdout", "text 1")
		c.Part("stdout", "text 2 first ")
		l.start(nil)
		wait(300 * time.Millisecond)
		c.Rotate()
		c.Part("stdout", "second ")
		wait(600 * time.Millisecond)
		s := l.pipe.snapshot(l.tailer)
		l.kill()
		c.Rotate() // and compressed
		c.Write("stdout", "third")
		l.start(&s)
		wait(4 * time.Second)
		require.Equal(t, []string{"text 1", "text 2 first second third"}, l.pipe.taken())
		l.stop()
		c.Close()
	})
}
