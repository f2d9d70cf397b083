package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/inforce"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/test/rulefolder"
	"crowsnest/test/setclock"
)

// The clock is set by an hour, back and ahead, while alerts are open: none ends because
// of it, new ones fire, recoveries end theirs, and an Alertmanager with the right clock
// sees the right state of each.
func TestDaemonClockIsSet(t *testing.T) {
	s := newShip(t)
	s.rules.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	s.start()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "A is notified")
	for _, by := range []time.Duration{-time.Hour, 2 * time.Hour, -time.Hour} {
		s.clock.Set(by)
		if by == 2*time.Hour { // B has no clear: only silence ends it, and there was none
			require.False(t, s.am.resolved("B"))
		}
		s.log("vc-0", "text of b")
		s.eventually(func() bool { return len(s.am.firing("B")) >= 1 }, "B is notified")
	}
	s.clock.Set(-time.Hour)
	require.False(t, s.am.resolved("A"))
	s.log("vc-0", "recovered")
	s.eventually(func() bool { return s.am.resolved("A") }, "the recovery arrives")
	require.False(t, s.am.resolved("B"), "it is still open")
	_, metrics := s.get("/metrics")
	require.Contains(t, metrics, "crowsnest_detection_seconds_count 2", "each was detected once")
	require.Contains(t, metrics, `crowsnest_rule_matches_total{pack="b",rule="B",severity="warning"} 3`)
}

// The clock is set back by an hour while the daemon is down, and ahead again when it is up:
// open alerts stay open.
func TestClockSetBackWhileDown(t *testing.T) {
	s := newShip(t)
	s.rules.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	s.start()
	s.log("vc-0", "text of a")
	s.log("vc-0", "text of b")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 && len(s.am.firing("B")) == 1 }, "both are notified")
	s.stop()
	s.clock.Set(-time.Hour)
	s.start()
	s.clock.Set(time.Hour)
	s.log("vc-0", "recovered")
	s.eventually(func() bool { return s.am.resolved("A") }, "the recovery arrives")
	require.False(t, s.am.resolved("B"), "it ends after 15 minutes, and these have not passed")
}

// recordingSink is a sink that records the states and keys of its notifications.
type recordingSink struct {
	sinks.Sink
	notified []string
}

func (s *recordingSink) Notify(eps []episodes.Episode) {
	for _, ep := range eps {
		s.notified = append(s.notified, string(ep.State)+" "+ep.Labels["key"])
	}
}

// An alert of an earlier process is not sent before the sources have caught up, even if the clock was set meanwhile,
// because the line that ended it may be unread. An alert of this process is sent at once.
func TestRestoredAlertsWait(t *testing.T) {
	folder := rulefolder.New(t)
	folder.Write("clocks.yaml", clockPack)
	for _, by := range []time.Duration{0, time.Minute, -time.Minute, 24 * time.Hour, -24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			w := &clockWorld{t: t, rules: folder.Dir}
			n := &clockNode{name: "n"}
			dir := t.TempDir()
			life := func(do func(d *Daemon, read func(lines ...string) []string)) {
				d, sink := w.daemon(n.clock.Now, dir), &recordingSink{}
				d.sinks = []sinks.Sink{sink}
				src := newClockSource(n, n.clock.Now)
				d.serve(src)
				d.saver.tryLock()
				d.restore()
				do(d, func(lines ...string) []string {
					for _, line := range lines {
						n.log(line, line)
					}
					for i, stream := range src.streams {
						d.pipe.inletFor(src).Scan(stream, n.pods[i], func() { n.pods[i] = nil })
					}
					sink.notified = nil
					d.pipe.evaluate(d.sendConclusions)
					return sink.notified
				})
				d.saver.save()
				d.saver.unlock()
			}
			life(func(d *Daemon, read func(...string) []string) {
				d.restoredUntil = time.Time{} // there was nothing to restore
				require.ElementsMatch(t, []string{"firing once0", "firing once2"}, read("begins once0", "begins once2"))
				require.Equal(t, []string{"resolved once2"}, read("ends once2"))
				n.clock.Set(by)
				n.stamp.Set(by)
				require.Empty(t, read())
			})
			life(func(_ *Daemon, read func(...string) []string) {
				require.Empty(t, read())
				require.Equal(t, []string{"resolved once0", "firing once4"}, read("ends once0", "begins once4"))
			})
		})
	}
}

func TestClockSet(t *testing.T) {
	var clock setclock.Clock
	from := clock.Now()
	f := func(by, want time.Duration) {
		t.Helper()
		from = clock.Now()
		clock.Set(by)
		require.InDelta(t, want.Seconds(), clockSet(from, clock.Now()).Seconds(), 0.5)
	}
	f(0, 0)
	f(time.Second, time.Second) // a leap second, too
	f(-time.Second, -time.Second)
	f(time.Hour, time.Hour)
	f(-100*24*time.Hour, -100*24*time.Hour)
	// Without a monotonic reading the change is unknown.
	require.Zero(t, clockSet(from.Round(0), clock.Now()))
	require.Zero(t, clockSet(from, clock.Now().Round(0)))
}

// The clock is set while several goroutines scan, report watermarks and evaluate: the
// pipeline follows each change once.
func TestPipelineFollowsTheClock(t *testing.T) {
	var clock setclock.Clock
	p := localPipeline(episodes.Config{}, clock.Now)
	rs, err := inforce.New(&rules.Set{})
	require.NoError(t, err)
	p.swapRules(rs)
	var followed []time.Duration
	p.onSet = func(d time.Duration, _ time.Time) { followed = append(followed, d.Round(time.Second)) }
	done := make(chan struct{})
	stop := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			stream := matcher.NewStream(matcher.Labels{}, matcher.StreamOptions{})
			for {
				select {
				case <-stop:
					return
				default:
				}
				(&sourcePipeline{pipeline: p}).Scan(stream, []byte("a line\n"), func() {})
				p.AdvanceWatermark("s", clock.Now())
				p.evaluate(func([]episodes.Episode) {})
			}
		}()
	}
	want := []time.Duration{time.Hour, -2 * time.Hour, time.Hour, -time.Minute}
	for i, d := range want {
		clock.Set(d)
		require.Eventually(t, func() bool {
			p.lock.RLock()
			defer p.lock.RUnlock()
			return len(followed) == i+1
		}, patience, time.Millisecond)
	}
	close(stop)
	for range 4 {
		<-done
	}
	require.Equal(t, want, followed)
	require.True(t, p.readUpTo([]string{"s"}, clock.Now().Add(-p.set).Add(-time.Minute)))
}

// Where the timestamps of a log of this machine contradict what was read before, the order in which lines were read counts.
func TestLinesOfAWrongClockStayInOrder(t *testing.T) {
	var clock setclock.Clock
	p := localPipeline(episodes.Config{}, clock.Now)
	in := &sourcePipeline{pipeline: p, source: "logs", own: true}
	now := p.known
	p.watermarks["logs"] = now.Add(-time.Minute)
	f := func(in *sourcePipeline, want []time.Duration, stamps ...time.Duration) {
		t.Helper()
		s := matcher.NewStream(matcher.Labels{}, matcher.StreamOptions{})
		var found []matcher.Hit
		for _, stamp := range stamps {
			found = append(found, matcher.Hit{Time: now.Round(0).Add(stamp)})
		}
		var got []time.Duration
		for _, h := range in.adjustTimes(s, found, now) {
			got = append(got, h.Time.Sub(now.Round(0)))
		}
		require.Equal(t, want, got)
	}
	const s, ms, m, h = time.Second, time.Millisecond, time.Minute, time.Hour
	f(in, []time.Duration{-30 * s, -20 * s, -20*s - 900*ms}, -30*s, -20*s, -20*s-900*ms)
	f(in, []time.Duration{-20 * s, -20*s + 1, -10 * s}, -20*s, -22*s, -10*s) // older than the line before
	f(in, []time.Duration{-m - 10*s, -m}, -m-10*s, -m-10*s-1)                // older than what was read
	f(in, []time.Duration{-m, -m + 1, -m + 2, -5 * s}, -24*h, -23*h, -25*h, -5*s)
	f(in, []time.Duration{0, 1, 2}, 24*h, 24*h+s, 5*s) // later than now
	require.Equal(t, int64(2), p.engine.Stats(now).Future, "more than ten minutes")
	other := &sourcePipeline{pipeline: p, source: "logs"}
	f(other, []time.Duration{-24 * h, -25 * h, 5 * s}, -24*h, -25*h, 5*s) // sources of other machines may be late

	// The clock of this machine was set back by an hour, but not that of the others.
	p.stamps.Set(-h, now)
	f(in, []time.Duration{-m, -s}, h-m, h-s)
	f(other, []time.Duration{-s, -s}, h-s, -s)
}
