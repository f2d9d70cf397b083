package tail

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

// No line is lost or read twice, over any order of writes, rotations with compression,
// restarts of the container, stops, and kills that go back to the last snapshot.
func TestRandomLife(t *testing.T) {
	for seed := range uint64(seeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, podFinder, func(t *testing.T, l *lab) { randomLife(t, l, seed) })
		})
	}
}

func randomLife(t *testing.T, l *lab, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var seq numbered
	c := kubesim.New(kubesim.Options{Root: l.finder.Root})
	c.Write("stdout", seq.next())
	l.start(nil)
	saved := l.pipe.snapshot(l.tailer)
	down := false
	unread := 0 // rotations since the snapshot: more than 3 remove unread files
	for range 80 {
		if len(saved.lines) == seq.n {
			unread = 0
		}
		switch n := r.IntN(20); {
		case n < 8:
			for range r.IntN(40) + 1 {
				c.Write([]string{"stdout", "stderr"}[r.IntN(2)], seq.next()+strings.Repeat("x", r.IntN(100)))
			}
		case n < 12 && unread < 3:
			c.Rotate()
			unread++
		case n == 12 && !down:
			wait(3 * time.Second) // the file of a dead container is removed, read or not
			saved = l.pipe.snapshot(l.tailer)
			c.Restart()
		case n == 13 && !down:
			saved = *l.stop()
			down = true
		case n == 14 && !down:
			l.kill()
			down = true
		case n == 15 && !down:
			saved = l.pipe.snapshot(l.tailer) // whether everything was read or not
		case down:
			l.start(&saved)
			down = false
		default:
			wait(time.Duration(r.IntN(1500)) * time.Millisecond)
			if !down {
				wait(time.Second)
				saved = l.pipe.snapshot(l.tailer)
			}
		}
	}
	if down {
		l.start(&saved)
	}
	wait(20 * time.Second)
	got := l.pipe.taken()
	for i := range got {
		got[i] = strings.TrimRight(got[i], "x")
	}
	requireLines(t, seq.want, got)
	require.NoError(t, c.Err)
	l.stop()
	c.Close()
}

// seeds is the number of random cases. TAIL_SEEDS sets another one.
func seeds() int {
	if n, err := strconv.Atoi(os.Getenv("TAIL_SEEDS")); err == nil {
		return n
	}
	return 8
}
