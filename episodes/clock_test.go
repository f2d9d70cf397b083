package episodes

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// TestASetClockChangesNothing sets the clock before a random line. Lines that were written
// before carry the old time, even if they are read later.
func TestASetClockChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		events := logHistory(t, 60, partsOf(r)...)
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.t, b.t) })
		first := rapid.IntRange(0, len(events)-1).Draw(t, "first line that is read after")
		inFlight := rapid.IntRange(0, 3).Draw(t, "lines in flight")
		by := rapid.SampledFrom([]time.Duration{time.Hour, -time.Hour, 25 * time.Hour, -25 * time.Hour}).Draw(t, "by")
		again := rapid.Bool().Draw(t, "a restart follows")

		play := func(by time.Duration) []string {
			b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
			b.e = b.engine(Config{})
			set := time.Duration(events[min(first+inFlight, len(events)-1)].t)*time.Second + 1
			shift := time.Duration(0)
			var stamps times.Stamps
			for i, ev := range events {
				h := ev.hit(r)
				now := time.Duration(ev.t) * time.Second
				if i == first {
					b.advance(set - 1)
					shift = by
					if by != 0 {
						b.e.ClockSet(by, at(set+by))
						stamps.Set(by, at(set+by))
					}
					if again {
						b.restart(set + shift)
					}
				}
				if now > set {
					h.Time = h.Time.Add(shift)
				}
				if i >= first {
					now = max(now, set) + shift
				}
				b.advance(now - 1)
				h.Time, h.ClockShift = stamps.OwnTime(h.Time, at(now))
				b.take(now, h)
				b.reported = append(b.reported, b.e.Evaluate(at(now))...)
			}
			b.advance(10*time.Minute + shift)
			return spoken(b.reported, by)
		}
		require.Equal(t, play(0), play(by))
	})
}

// spoken returns the reports without repeats, with times as if the clock had not been set
// by by.
func spoken(reported []Episode, by time.Duration) []string {
	plain := func(x time.Time) time.Duration {
		d := x.Sub(start)
		if d.Abs() > 30*time.Minute {
			d -= by
		}
		return d
	}
	var out []string
	last := map[Fingerprint]string{}
	for _, x := range reported {
		if x.State == StatePending || x.State == StateDropped {
			continue
		}
		s := fmt.Sprint(x.State, x.Reason, x.Labels, x.Count, plain(x.StartsAt))
		if last[x.Fingerprint] != s {
			last[x.Fingerprint] = s
			out = append(out, s)
		}
	}
	return out
}

func TestClockSet(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By, r.Limit = []string{"k"}, 1 })
	b := newBench(t, r)
	b.take(time.Second, lineHit(r, 0, time.Second, "line", "a"))
	b.take(2*time.Second, lineHit(r, 0, 2*time.Second, "line", "beyond the limit"))
	b.advance(3 * time.Second)
	require.Len(t, b.firing(), 2)

	// Set back: reported episodes keep their start, and new lines are not late.
	b.e.ClockSet(-time.Hour, at(4*time.Second-time.Hour))
	require.Equal(t, at(4*time.Second-time.Hour-rules.Lateness).Add(-time.Second), b.e.Stats(at(-time.Hour)).Rules[0].Watermark)
	for _, ep := range b.e.Episodes(at(4*time.Second - time.Hour)) {
		require.Contains(t, []time.Time{at(time.Second), at(2 * time.Second)}, ep.StartsAt)
		require.False(t, ep.OnHold)
	}
	late := b.e.Stats(start).Late
	b.take(5*time.Second-time.Hour, lineHit(r, 0, 5*time.Second-time.Hour, "line", "a"))
	require.Equal(t, late, b.e.Stats(start).Late)
	b.advance(rules.DefaultKeepFiringFor - time.Hour)
	require.Len(t, b.firing(), 2, "nothing ended")
	b.advance(rules.DefaultKeepFiringFor + rules.Lateness + 5*time.Second - time.Hour)
	require.Empty(t, b.firing(), "both ended in time")
	for _, ep := range b.reported {
		require.False(t, !ep.EndsAt.IsZero() && ep.EndsAt.Before(ep.StartsAt))
	}

	// Set ahead: progress by the old clock proves no more than before.
	b.e.ClockSet(time.Hour, at(time.Hour))
	b.e.AdvanceWatermark("s", at(-time.Second))
	require.Equal(t, at(rules.DefaultKeepFiringFor+5*time.Second), b.e.Stats(at(time.Hour)).Rules[0].Watermark)
}

// The clock was set back while the program was down after a kill. A line that was read
// after the last save is read again: it opens the alert with the start that was notified,
// and its clear line ends the alert.
func TestClockSetBackWhileKilled(t *testing.T) {
	f := func(back time.Duration) {
		r := rule(func(r *rules.Rule) { r.By, r.Clear = []string{"k"}, &rules.ClearOrUnless{Same: []string{"k"}} })
		b := newBench(t, r)
		saved := 2 * time.Hour
		b.take(saved-time.Second, lineHit(r, 0, saved-time.Second, "before", "a"))
		b.advance(saved)
		data, err := b.e.Snapshot()
		require.NoError(t, err)
		after := lineHit(r, 0, saved+500*time.Millisecond, "after", "b")
		b.take(saved+time.Second, after)
		b.advance(saved + time.Second)
		before := b.firing()
		require.Len(t, before, 2)

		now := saved + 2*time.Second - back
		b.e = b.engine(Config{})
		require.NoError(t, b.e.Restore(data, at(now)))
		b.e.ClockSet(now-saved, at(now))
		var stamps times.Stamps
		stamps.Set(now-saved, at(now))
		after.Time, after.ClockShift = stamps.OwnTime(after.Time, at(now))
		b.take(now, after)
		b.advance(now)
		for print, x := range b.firing() {
			require.Equal(t, before[print].StartsAt, x.StartsAt)
		}
		now += time.Second
		b.take(now, lineHit(r, matcher.PartClear, now, "over", "a"), lineHit(r, matcher.PartClear, now, "over", "b"))
		b.advance(now)
		require.Empty(t, b.firing(), "set back by %s", back)
	}
	f(10 * time.Second)
	f(time.Minute)
	f(8 * time.Minute)
	f(10 * time.Minute)
	f(time.Hour)
}
