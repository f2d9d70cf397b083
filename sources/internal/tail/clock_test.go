package tail

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
	"crowsnest/test/setclock"
)

// The clock is set ahead and back repeatedly: every line is read once, and the watermark
// follows the clock.
func TestClockIsSet(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var clock setclock.Clock
		l.cfg.Clock = clock.Now
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root, Clock: clock.Now})
		c.Write("stdout", seq.next())
		l.start(nil)
		wait(2 * time.Second)
		for i, by := range []time.Duration{-time.Hour, time.Hour, time.Hour, -2 * time.Hour, 3 * time.Hour} {
			c.Write("stdout", seq.next()) // by the old clock, read by the new one
			clock.Set(by)
			c.Write("stdout", seq.next())
			fresh := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprint("pod-", i), Clock: clock.Now})
			fresh.Write("stdout", seq.next())
			fresh.Close()
			wait(2 * time.Second)
			require.WithinDuration(t, clock.Now(), l.pipe.watermarkAt(), time.Second)
			require.WithinDuration(t, clock.Now(), l.tailer.Status().Watermark, time.Second)
			c.Rotate()
			c.Write("stdout", seq.next())
			if i == 2 {
				l.start(l.stop())
			}
			wait(8 * time.Second)
			require.WithinDuration(t, clock.Now(), l.pipe.watermarkAt(), time.Second)
			require.LessOrEqual(t, l.tailer.Status().Lag, time.Second)
		}
		require.ElementsMatch(t, seq.want, l.pipe.taken())
		require.NoError(t, c.Err)
		l.stop()
		c.Close()
	})
}

// The root cannot be listed for longer than the look-back: a log that appeared meanwhile
// is read from its start, also without a saved position.
func TestRootWasAway(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.start(nil)
		wait(3 * time.Second)
		root := l.finder.Root
		require.NoError(t, os.Rename(root, root+".away"))
		wait(10 * time.Second)
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: root + ".away"})
		c.Write("stdout", seq.next())
		wait(defaultLookBack + 5*time.Minute)
		c.Write("stdout", seq.next())
		require.NoError(t, os.Rename(root+".away", root))
		wait(10 * time.Second)
		requireLines(t, seq.want, l.pipe.taken())
		require.NoError(t, c.Err)
		l.stop()
		c.Close()
	})
}

// The clock is set back: files that were read are not read again after a restart, though
// their times are later, and several rotations between two polls lose no file.
func TestOrderAfterTheClockWasSetBack(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var clock setclock.Clock
		l.cfg.Clock = clock.Now
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root, Clock: clock.Now, MaxFiles: 8})
		write := func(n int) {
			for range n {
				c.Write("stdout", seq.next())
			}
		}
		write(2)
		c.Rotate() // before it starts
		write(2)
		l.start(nil)
		wait(2 * time.Second)
		c.Rotate()
		write(2)
		wait(8 * time.Second)
		clock.Set(-time.Hour)
		write(2)
		wait(2 * time.Second)
		for i := range 3 {
			c.Rotate()
			write(2)
			wait(8 * time.Second)
			if i < 2 {
				l.start(l.stop())
				wait(2 * time.Second)
			}
		}
		requireLines(t, seq.want, l.pipe.taken())
		clock.Set(-time.Hour)
		for range 2 { // between two polls
			c.Rotate()
			write(2)
		}
		wait(8 * time.Second)
		l.start(l.stop())
		wait(8 * time.Second)
		requireLines(t, seq.want, l.pipe.taken())
		require.Empty(t, l.tailer.Status().Losses)
		require.NoError(t, c.Err)
		l.stop()
		c.Close()
	})
}
