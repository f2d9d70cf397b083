package loki

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeloki"
)

// many stores n lines of one time in several streams, and returns their texts.
func (b *bench) many(n, streams int, at time.Time) []string {
	var texts []string
	var all []fakeloki.Entry
	for i := range n {
		text := fmt.Sprintf("bad %s %d", at.Format("15:04:05.000"), i)
		texts = append(texts, text)
		labels := map[string]string{"app": "a", "pod": fmt.Sprint("p", i%streams)}
		if i%streams == 1 {
			delete(labels, "pod")
		}
		all = append(all, fakeloki.Entry{Labels: labels, Time: at, Line: text})
	}
	b.loki.Push(all...)
	return texts
}

// Pages end between lines of equal time, and lines of equal time fill many pages.
func TestTies(t *testing.T) {
	f := func(most, n, streams int, lost int64) {
		t.Helper()
		inLoki(t, func(l *fakeloki.Loki) { l.MaxEntries = most }, func(c *Config) { c.Limit = 20 }, func(b *bench) {
			b.wait(10 * time.Second)
			now := time.Now()
			before := b.many(30, 3, now.Add(-2*time.Second))
			texts := b.many(n, streams, now.Add(-time.Second))
			after := b.many(30, 3, now)
			b.wait(20 * time.Second)
			b.once(before...)
			b.once(after...)
			if lost == 0 {
				b.once(texts...)
				require.Empty(t, b.src.Status().Losses)
			} else {
				missing := len(b.sink.Wrong(texts))
				require.Positive(t, missing)
				require.Less(t, missing, n)
				l := b.src.Status().Losses["ties"]
				require.Positive(t, l.Count)
				require.Contains(t, l.Path, `app="a", pod="`)
				require.LessOrEqual(t, l.Count, int64(streams))
			}
			b.wait(time.Minute)
			require.LessOrEqual(t, b.sink.Total(), n+60)
		})
	}
	f(5000, 19, 1, 0)
	f(5000, 20, 1, 0)
	f(5000, 21, 1, 0)
	f(5000, 300, 1, 0)  // the limit is raised
	f(20, 300, 30, 0)   // Loki does not allow it: stream by stream
	f(50, 300, 30, 0)   // raised a little
	f(20, 300, 16, 0)   // 19 of each
	f(20, 300, 3, 1)    // 100 of one stream at one time cannot be read
	f(5000, 1000, 1, 1) // above all that is tried
}

// Loki allows fewer entries than requested, from the start or later.
func TestServerLimits(t *testing.T) {
	f := func(limit func(l *fakeloki.Loki), reason string) {
		t.Helper()
		inLoki(t, limit, nil, func(b *bench) {
			b.wait(10 * time.Second)
			b.loki.Set(fakeloki.Reset)
			var texts []string
			for i := range 600 {
				b.push(fmt.Sprint("bad ", i), -time.Duration(i)*5*time.Second)
				texts = append(texts, fmt.Sprint("bad ", i))
			}
			b.wait(time.Hour)
			b.loki.Set(nil)
			b.wait(30 * time.Second)
			b.once(texts...)
			st := b.src.Status()
			require.True(t, st.Up)
			require.Positive(t, st.Errors[reason])
			require.Less(t, st.Errors[reason], int64(60))
			require.WithinDuration(t, time.Now(), st.Watermark, 10*time.Second)
		})
	}
	f(func(l *fakeloki.Loki) { l.MaxEntries = 100 }, "limit")
	f(func(l *fakeloki.Loki) { l.MaxEntries = 3 }, "limit")
	f(func(l *fakeloki.Loki) { l.MaxRange = 30 * time.Minute }, "range")
	f(func(l *fakeloki.Loki) { l.MaxRange = time.Minute }, "range")
}

// A page above the limit is read in smaller ones; a single line above it is lost and
// reported.
func TestLargeLines(t *testing.T) {
	const most = 3 << 20 // above what is kept of a buffer
	inBubble(t, func(c *Config) { c.Limit, c.MaxBody = 8, most }, func(b *bench) {
		b.wait(10 * time.Second)
		var texts []string
		for i := range 5 {
			texts = append(texts, fmt.Sprint("bad ", i, " ", strings.Repeat("x", most/4)))
			b.push(texts[i], time.Duration(i)*time.Millisecond)
		}
		b.push("bad, too large "+strings.Repeat("x", most/8*9), 3500*time.Microsecond)
		b.push("bad, too", 8*time.Millisecond)
		b.wait(2 * time.Second)
		b.once(texts...)
		b.once("bad, too")
		st := b.src.Status()
		require.Positive(t, st.Losses["too_large"].Count)
		require.EqualValues(t, 5, st.Truncated)
		require.True(t, st.Up)
		require.Equal(t, 6, b.sink.Total())
		b.push("bad, at last", 0)
		b.wait(2 * time.Second)
		b.once("bad, at last")
	})
}

// Bad entries affect only themselves, unless there are no others.
func TestBadEntries(t *testing.T) {
	inBubble(t, func(c *Config) { c.Limit = 10 }, func(b *bench) {
		b.loki.Mangle(func(body []byte) []byte {
			return []byte(strings.ReplaceAll(string(body), `"bad 5"`, `{"no":"text"}`))
		})
		var texts []string
		for i := range 60 {
			b.push(fmt.Sprint("bad ", i), 0)
			texts = append(texts, fmt.Sprint("bad ", i))
			b.wait(300 * time.Millisecond)
		}
		b.wait(5 * time.Second)
		require.Equal(t, []string{"bad 5: 0 times"}, b.sink.Wrong(texts))
		require.Positive(t, b.src.Status().Errors["bad_entry"])
		require.Empty(t, b.src.Status().Losses)
		b.loki.Mangle(func(body []byte) []byte { return []byte(strings.ReplaceAll(string(body), `"bad`, `5,"bad`)) })
		for i := range 30 {
			b.push(fmt.Sprint("bad and lost ", i), 0)
		}
		b.wait(20 * time.Second)
		b.loki.Mangle(nil)
		b.push("bad again", 0)
		b.wait(5 * time.Second)
		b.once("bad again")
	})
}

// The memory is bounded. A flood beyond it reduces how late a line may be; nothing is
// passed on twice, and lines in time are not lost.
func TestFullMemory(t *testing.T) {
	inBubble(t, func(c *Config) { c.MaxKeys = 1000 }, func(b *bench) {
		var texts []string
		for i := range 150 {
			for range 20 {
				texts = append(texts, fmt.Sprint("bad ", len(texts)))
				b.push(texts[len(texts)-1], 0)
			}
			if i == 100 {
				b.push("bad late", 30*time.Second)
				b.push("bad, too late", 10*time.Minute)
			}
			b.wait(500 * time.Millisecond)
			require.LessOrEqual(t, b.remembered(), 1100)
		}
		b.wait(5 * time.Minute)
		b.once(texts...)
		require.LessOrEqual(t, b.sink.Total(), len(texts)+1)
		require.Zero(t, b.sink.Count["bad, too late"])
		require.Positive(t, b.src.Status().Errors["memory_full"])
		b.wait(70 * time.Minute)
		b.push("bad late again", 30*time.Minute)
		b.wait(time.Minute)
		b.once("bad late again")
	})
}

// Lines of the future do not displace those of the present.
func TestFloodOfTheFuture(t *testing.T) {
	inBubble(t, func(c *Config) { c.MaxKeys = 1000 }, func(b *bench) {
		b.wait(10 * time.Second)
		for i := range 2500 {
			b.push(fmt.Sprint("bad ahead ", i), -8*time.Minute-time.Duration(i)*time.Millisecond)
		}
		var texts []string
		for i := range 100 {
			texts = append(texts, fmt.Sprint("bad ", i))
			b.push(texts[i], 0)
			b.wait(500 * time.Millisecond)
			require.LessOrEqual(t, b.remembered(), 6000)
		}
		b.wait(5 * time.Minute)
		b.once(texts...)
		for i := range 2500 {
			require.Positive(t, b.sink.Count[fmt.Sprint("bad ahead ", i)])
		}
	})
}

// The clock is set by an hour, in both directions.
func TestClockSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 50 * time.Hour, -50 * time.Hour, 5 * time.Minute, -5 * time.Minute} {
		var skew atomic.Int64
		inBubble(t, func(c *Config) {
			c.Clock = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
		}, func(b *bench) {
			var texts []string
			push := func(n int) {
				for range n {
					texts = append(texts, fmt.Sprint("bad ", len(texts)))
					b.push(texts[len(texts)-1], 0)
					b.wait(time.Second)
				}
			}
			b.wait(20 * time.Minute)
			push(20)
			skew.Store(int64(step))
			// The lines have the timestamps of the machines that write them.
			for range 30 {
				texts = append(texts, fmt.Sprint("bad ", len(texts)))
				b.loki.Push(fakeloki.Entry{Labels: labelsA, Time: time.Now().Add(step), Line: texts[len(texts)-1]})
				b.wait(time.Second)
			}
			skew.Store(0)
			push(30)
			b.wait(time.Minute)
			lost := b.sink.Wrong(texts)
			require.Empty(t, lost, "step %s", step)
		})
	}
}
