package kubernetes

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restarted is the status after the n-th restart.
func restarted(n int) func(c *fakeContainer) {
	return func(c *fakeContainer) {
		now := time.Now()
		c.restarts, c.id, c.phase, c.started, c.before = n, fmt.Sprintf("id-%d", n), running, now, now
	}
}

// TestRestart: the last lines of a terminated instance are read, however late or
// early the status reports the restart.
func TestRestart(t *testing.T) {
	f := func(name string, tell time.Duration, connected bool, wait time.Duration) {
		t.Helper()
		inBubble(t, func(b *bench) {
			log := b.pod("demo", "p")
			b.start()
			b.pass(5 * time.Second)
			var want []string
			write := func(n int, step time.Duration) {
				for range n {
					text := fmt.Sprintf("line %d", len(want))
					log.write(time.Now(), text)
					want = append(want, text)
					b.pass(step)
				}
			}
			write(30, 100*time.Millisecond)
			b.pass(wait)
			for n := 1; n <= 3; n++ {
				write(50, 100*time.Millisecond)
				if !connected {
					b.api.cut("log", false)
				}
				write(20, time.Millisecond)
				log.restart()
				ended := time.Now()
				write(10, time.Millisecond)
				b.pass(tell)
				write(10, time.Millisecond)
				b.api.set("demo", "p", func(c *fakeContainer) { restarted(n)(c); c.started, c.before = ended, ended })
				write(10, 10*time.Millisecond)
				b.pass(20 * time.Second)
			}
			got := b.pipe.texts("demo/p/c")
			require.Len(b, got, len(want), name)
			slices.Sort(got)
			slices.Sort(want)
			require.Equal(b, want, got, name)
			require.Empty(b, b.src.Status().Losses, name)
			require.Equal(b, 3, b.api.count("log demo/p/c previous"), name)
		})
	}
	for _, connected := range []bool{true, false} {
		for _, tell := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second} {
			for _, wait := range []time.Duration{0, 2 * time.Minute} { // young and old connections
				f(fmt.Sprintf("told after %v, connected %v, waited %v", tell, connected, wait), tell, connected, wait)
			}
		}
	}
}

// TestCrashLoop: a container terminates and waits for its restart.
func TestCrashLoop(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		b.start()
		b.pass(time.Second)
		var want []string
		for n := range 5 {
			log.write(time.Now(), fmt.Sprintf("start %d", n), fmt.Sprintf("leaderelection lost %d", n))
			want = append(want, fmt.Sprintf("start %d", n), fmt.Sprintf("leaderelection lost %d", n))
			log.exit()
			b.pass(time.Second)
			b.api.set("demo", "p", func(c *fakeContainer) { c.phase, c.finished = ended, time.Now() })
			b.pass(30 * time.Second)
			require.Zero(b, b.api.open("log"), "the log that ended is read to its end")
			asked := b.api.count("log")
			b.pass(time.Minute)
			require.Equal(b, asked, b.api.count("log"), "and not requested again")
			require.WithinDuration(b, time.Now(), b.pipe.provedAt(), time.Second)
			log.restart()
			b.api.set("demo", "p", restarted(n+1))
			b.pass(time.Second)
		}
		b.want("demo/p/c", want...)
		require.Empty(b, b.src.Status().Losses)
	})
}

// TestMissedInstances: the API keeps one instance; lines of the others are counted
// as lost.
func TestMissedInstances(t *testing.T) {
	f := func(done bool, restarts int, missed int64, want ...string) {
		t.Helper()
		inBubble(t, func(b *bench) {
			log := b.pod("demo", "p")
			log.write(time.Now(), "i0")
			b.start()
			b.pass(time.Second)
			if done {
				log.exit()
				b.api.set("demo", "p", func(c *fakeContainer) { c.phase, c.finished = ended, time.Now() })
				b.pass(10 * time.Second)
			}
			saved := b.positions()
			b.stop()
			for n := 1; n <= restarts; n++ {
				log.restart()
				log.write(time.Now(), fmt.Sprintf("i%d", n))
				b.pass(time.Second)
			}
			b.api.set("demo", "p", restarted(restarts))
			b.start(saved)
			b.pass(10 * time.Second)
			b.want("demo/p/c", want...)
			require.Equal(b, missed, b.src.Status().Losses["restarts"].Count)
		})
	}
	f(false, 1, 0, "i0", "i1")
	f(true, 1, 0, "i0", "i1")
	f(false, 2, 1, "i0", "i1", "i2")
	f(true, 2, 0, "i0", "i1", "i2")
	f(false, 5, 4, "i0", "i4", "i5")
	f(true, 5, 3, "i0", "i4", "i5")
}

// TestPreviousGone: the runtime has removed the terminated instance.
func TestPreviousGone(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		log.write(time.Now(), "i0")
		b.start()
		b.pass(time.Second)
		b.api.breaks(func(r *http.Request) *fakeAnswer {
			if r.URL.Query().Get("previous") == "true" {
				return &fakeAnswer{code: 400, body: `{"code":400,"message":"previous terminated container not found"}`}
			}
			return nil
		})
		log.restart()
		log.write(time.Now(), "i1")
		b.api.set("demo", "p", restarted(1))
		b.pass(10 * time.Second)
		b.want("demo/p/c", "i0", "i1")
		require.EqualValues(b, 1, b.src.Status().Losses["restarts"].Count)
		require.Equal(b, "demo/p/c", b.src.Status().Losses["restarts"].Path)
		require.Equal(b, 1, b.api.count("log demo/p/c previous"))
	})
}

// TestFirstSight: lines from before a container's restart are read if they are
// recent enough.
func TestFirstSight(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		log.write(time.Now(), "the reason")
		b.pass(time.Minute)
		log.restart()
		log.write(time.Now(), "again")
		b.api.set("demo", "p", restarted(1))
		old := b.pod("demo", "old")
		old.write(time.Now(), "long ago")
		old.exit()
		b.api.set("demo", "old", func(c *fakeContainer) {
			c.phase, c.started, c.finished = ended, time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		})
		b.start()
		b.pass(10 * time.Second)
		b.want("demo/p/c", "the reason", "again")
		require.Zero(b, b.api.count("log demo/old"), "a log that ended long ago is not requested")
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), time.Second)
	})
}

// TestEndsInTheMiddle: the last line of a terminated container may be incomplete.
func TestEndsInTheMiddle(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		b.start()
		b.pass(time.Second)
		log.write(time.Now(), "whole")
		unlock := b.api.lock()
		log.newest().open = time.Now().UTC().Format(time.RFC3339Nano) + " fatal error: n"
		unlock()
		log.exit()
		b.pass(10 * time.Second)
		b.want("demo/p/c", "whole") // it may still go on
		b.api.set("demo", "p", func(c *fakeContainer) { c.phase, c.finished = ended, time.Now() })
		b.pass(10 * time.Second)
		b.want("demo/p/c", "whole", "fatal error: n")
		log.restart()
		log.write(time.Now(), "next")
		b.api.set("demo", "p", restarted(1))
		b.pass(10 * time.Second)
		b.want("demo/p/c", "whole", "fatal error: n", "next")
	})
}
