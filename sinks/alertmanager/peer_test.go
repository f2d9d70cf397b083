package alertmanager

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/fault"
)

// By the receiver's clock, an alert is open exactly as long as it really is, however far
// the clocks are apart.
func TestPeerClock(t *testing.T) {
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 10 * time.Second, -10 * time.Second, 20 * time.Hour} {
		inBubble(t, 1, func(b *bench) {
			am := b.ams[0]
			b.stop() // it may have asked for the clock already
			am.SetSkew(skew)
			b.open(Config{}, nil)
			b.notify(fire("B"))
			require.Len(t, am.Accepted("B"), 1, "it was asked before")
			require.True(t, open(am.Accepted("B")[0], skew))
			am.SetSkew(0)
			b.pass(20 * time.Minute)
			am.SetSkew(skew) // unnoticed

			ep := fire("A")
			b.notify(ep)
			b.pass(time.Second) // the first request found out
			from := len(am.Accepted("A"))
			if skew.Abs() >= minClockChange {
				require.Equal(t, 2, from, "told again at once")
				require.True(t, open(am.Accepted("A")[1], skew))
			}
			b.pass(3 * time.Minute)
			b.notify(end(ep))
			b.pass(3 * time.Minute)
			words := am.Accepted("A")[from:]
			require.Len(t, words, 3+4)
			for i, w := range words {
				require.Equal(t, i < 3, open(w, skew), "word %d of a clock that is %v ahead", i, skew)
				require.False(t, w.Alert.StartsAt.After(w.Time))
			}
			require.InDelta(t, skew.Seconds(), b.sink.Status()[0].ClockSkew, 1)
		})
	}
}

// open reports whether a receiver whose clock is ahead by skew considers the alert open.
func open(w fakeam.Accepted, skew time.Duration) bool { return w.Alert.EndsAt.After(w.Time.Add(skew)) }

// A clock that is set while nothing else happens does not end what is open.
func TestPeerClockIsSet(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		am := b.ams[0]
		b.notify(fire("A"))
		for i := range 20 {
			b.pass(time.Minute)
			am.SetSkew(time.Duration(i%3-1) * time.Hour)
			b.pass(time.Minute)
			words := am.Accepted("A")
			last := words[len(words)-1]
			require.True(t, open(last, time.Duration(i%3-1)*time.Hour))
		}
		require.LessOrEqual(t, len(am.Accepted("A")), 62)
	})
}

func TestPeerAt(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f := func(ahead, want time.Duration) {
		t.Helper()
		p := peer{date: now.Add(ahead), readAt: now}
		require.Equal(t, now.Add(want), p.peerTime(now))
		require.Equal(t, now.Add(want+time.Minute), p.peerTime(now.Add(time.Minute)))
	}
	f(0, 0)
	f(time.Second, 0) // a Date has seconds
	f(-time.Second, 0)
	f(-2*time.Second, -2*time.Second)
	f(time.Hour, time.Hour)
	f(-time.Hour, -time.Hour)
	f(49*time.Hour, 49*time.Hour)
	f(1e6*time.Hour, 0) // no clock
	f(-1e6*time.Hour, 0)
	require.Equal(t, now, peer{}.peerTime(now))

	// A slow answer has an old date.
	slow := peer{date: now.Add(-4 * time.Second), readAt: now, took: 3 * time.Second}
	require.Equal(t, now, slow.peerTime(now))
	slow.took = time.Second
	require.Equal(t, now.Add(-4*time.Second), slow.peerTime(now))
	require.Equal(t, now.Add(4*time.Second), peer{date: now.Add(4 * time.Second), readAt: now, took: 3 * time.Second}.peerTime(now))
}

// A slow answer is not mistaken for a clock difference: an alert keeps its start when it is
// sent again.
func TestSlowAnswerIsNoSkew(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		am := b.ams[0]
		b.notify(fire("A"))
		am.Set(fault.Slow(3 * time.Second))
		b.pass(2 * time.Minute)
		am.Set(nil)
		ep := fire("B")
		b.notify(ep)
		b.pass(2 * time.Minute)
		words := am.Accepted("B")
		require.NotEmpty(t, words)
		for _, w := range words {
			require.True(t, w.Alert.StartsAt.Equal(ep.StartsAt), "%v instead of %v", w.Alert.StartsAt, ep.StartsAt)
		}
	})
}

// A name with several addresses is reported: only one Alertmanager is notified.
func TestSeveralAddresses(t *testing.T) {
	const warning = "the name of the alertmanager has several addresses, and only one of them is notified: list every Alertmanager in urls, or use dns_sd_configs"
	f := func(want int, addrs ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := &bench{t: t, ams: []*fakeam.AM{fakeam.New()}}
			b.lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) {
				require.Equal(t, "am-0", host)
				var out []netip.Addr
				for _, a := range addrs {
					out = append(out, netip.MustParseAddr(a))
				}
				return out, nil
			}
			b.open(Config{}, nil)
			defer func() { b.stop() }()
			b.notify(fire("A"))
			b.told("A", "firing")
			require.Equal(t, want, b.logs.byMsg[warning])
		})
	}
	f(0)
	f(0, "10.0.0.1")
	f(0, "10.0.0.1", "fd00::1") // one machine
	f(1, "10.0.0.1", "10.0.0.2", "fd00::1")
	f(1, "fd00::1", "fd00::2")
}
