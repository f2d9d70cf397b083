package monitor

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources"
)

// watch is an Alerts in virtual time, over restarts.
type watch struct {
	t     *testing.T
	a     *Alerts
	start time.Time
	now   time.Time

	unanswered time.Time
}

func newWatch(t *testing.T) *watch {
	w := &watch{t: t, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.now = w.start
	w.a = New(w.start, blindAfter)
	return w
}

// restart starts another process in the place of this one, d later.
func (w *watch) restart(d time.Duration) {
	saved, err := w.a.Export()
	require.NoError(w.t, err)
	w.now = w.now.Add(d)
	w.a = New(w.now, blindAfter)
	require.NoError(w.t, w.a.Import(saved))
}

// pass lets time pass with this state of the sources, and returns what was
// notified: "STATE ALERT SOURCE".
func (w *watch) pass(d time.Duration, status ...sources.Status) []string {
	out := []string{}
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(time.Second)
		now := slices.Clone(status)
		for i := range now {
			if now[i].Up {
				now[i].Watermark = w.now
			}
		}
		for _, e := range w.a.Update(w.now, State{Sources: now, Unanswered: w.unanswered}) {
			text := string(e.State) + " " + e.Alert
			if s := e.Labels["source"]; s != "" {
				text += " " + s
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

func (w *watch) coverage() string {
	for _, e := range w.a.All() {
		if e.Alert == alertHeartbeat {
			return e.Annotations["coverage"]
		}
	}
	return ""
}

func up(name string) sources.Status  { return sources.Status{Name: name, Up: true, Opened: true} }
func off(name string) sources.Status { return sources.Status{Name: name, Error: "refused"} }

// The heartbeat reports the coverage, and is not sent when there is none.
func TestHeartbeatCoverage(t *testing.T) {
	w := newWatch(t)
	require.Empty(t, w.pass(time.Minute, off("kubelet"), off("machines")), "nothing was ever seen")
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, up("kubelet"), off("machines")))
	require.Equal(t, "partial: kubelet; not seen: machines since 2026-01-01T00:00:01Z", w.coverage())
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, up("kubelet"), up("machines")))
	require.Equal(t, "full: kubelet, machines", w.coverage())
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(4*time.Minute, off("kubelet"), off("machines")))
	require.Equal(t, "partial: nothing; not seen: kubelet since 2026-01-01T00:03:01Z, machines since 2026-01-01T00:03:01Z", w.coverage())
	require.Equal(t, []string{"firing CrowsnestBlind kubelet", "firing CrowsnestBlind machines", "resolved CrowsnestHeartbeat"},
		w.pass(time.Hour, off("kubelet"), off("machines")))
	require.Empty(t, w.coverage())
}

func TestNotInstalled(t *testing.T) {
	w := newWatch(t)
	idle := up("machines")
	idle.Idle = "the Cluster API is not installed"
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(3*time.Minute, up("kubelet"), idle))
	require.Equal(t, "partial: kubelet; idle: machines", w.coverage())
	w.restart(time.Second)
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "firing CrowsnestIdle machines"}, w.pass(3*time.Minute, up("kubelet"), idle))
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "resolved CrowsnestIdle machines"}, w.pass(time.Minute, up("kubelet"), up("machines")))
	w = newWatch(t)
	require.Empty(t, w.pass(3*time.Minute, idle), "nothing is seen")
}

// Restarts neither set the clock of an absence back nor resolve its alert.
func TestAbsenceOverRestarts(t *testing.T) {
	w := newWatch(t)
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, up("kubelet"), off("machines")))
	w.restart(2 * time.Second)
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(2*time.Minute, up("kubelet"), off("machines")))
	w.restart(2 * time.Second)
	require.Equal(t, []string{"firing CrowsnestBlind machines", "firing CrowsnestHeartbeat"}, w.pass(3*time.Minute, up("kubelet"), off("machines")))
	starts := w.a.All()[1].StartsAt
	for range 3 {
		w.restart(time.Minute)
		require.Equal(t, []string{"firing CrowsnestBlind machines", "firing CrowsnestHeartbeat"}, w.pass(20*time.Second, up("kubelet"), off("machines")), "notified again, not resolved")
		require.Equal(t, starts, w.a.All()[1].StartsAt)
		require.Equal(t, w.start.Add(time.Second), w.a.All()[0].StartsAt.Truncate(time.Second).Add(time.Second), "of the heartbeat")
	}
	w.restart(time.Minute)
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(5*time.Second, up("kubelet"), up("machines")))
	require.Equal(t, []string{"resolved CrowsnestBlind machines"}, w.pass(time.Minute, up("kubelet"), up("machines")))

	// The source was away for long in total, but the next process soon finds it up: no
	// alert.
	w.pass(time.Minute, up("kubelet"), off("machines"))
	w.restart(time.Hour)
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(5*time.Second, up("kubelet"), off("machines")))
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, up("kubelet"), up("machines")))
}

// A process that is restarted all the time and sees nothing does not keep feeding a dead
// man's switch.
func TestHeartbeatOfACrashLoop(t *testing.T) {
	w := newWatch(t)
	w.pass(time.Minute, up("kubelet"))
	var all []string
	for range 10 {
		w.restart(5 * time.Second)
		all = append(all, w.pass(time.Minute, off("kubelet"))...)
	}
	require.Contains(t, all, "resolved CrowsnestHeartbeat")
	w.restart(5 * time.Second)
	require.Equal(t, []string{"firing CrowsnestBlind kubelet"}, w.pass(time.Minute, off("kubelet")))
}

// An alert whose cause ended while the process was away is resolved.
func TestRestoredAlertsEnd(t *testing.T) {
	w := newWatch(t)
	lost := up("kubelet")
	lost.Losses = map[string]sources.Loss{"gap": {Count: 1, Time: w.now, Path: "a"}}
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "firing CrowsnestLinesLost kubelet"}, w.pass(time.Minute, lost))
	w.restart(time.Second)
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(5*time.Minute, up("kubelet")))
	require.Equal(t, []string{"resolved CrowsnestLinesLost kubelet"}, w.pass(2*time.Minute, up("kubelet")))
	require.Error(t, w.a.Import([]byte("[]")))
}

// While the aggregator is down, nothing is concluded from the hits of its agent.
func TestCoverageOfAnAgent(t *testing.T) {
	w := newWatch(t)
	w.unanswered = w.start
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(4*time.Minute, up("kubelet")))
	require.Equal(t, "partial: kubelet; not seen: the aggregator since 2026-01-01T00:00:00Z", w.coverage())
	require.Equal(t, []string{"resolved CrowsnestHeartbeat"}, w.pass(6*time.Minute, up("kubelet")))
	w.unanswered = time.Time{}
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, up("kubelet")))
}

// An aggregator counts its nodes; without agents it has no coverage.
func TestCoverageOfAnAggregator(t *testing.T) {
	w := newWatch(t)
	agents := up("agents")
	agents.Members = map[string]sources.MemberStatus{}
	require.Equal(t, []string{"firing CrowsnestBlind agents"}, w.pass(6*time.Minute, agents))
	w = newWatch(t)
	agents.Members = map[string]sources.MemberStatus{"agents/a": {Up: true, Watermark: w.start.Add(time.Minute)}, "agents/b": {Error: "away"}}
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, agents))
	require.Equal(t, "partial: agents (1 of 2 nodes); not seen: agents/b since 2026-01-01T00:00:01Z", w.coverage())
}

// After a restart the heartbeat of the previous process stays until it is known what this one
// can read: agents come back within seconds, and sources open.
func TestHeartbeatWaitsForCoverage(t *testing.T) {
	w := newWatch(t)
	agents := up("agents")
	agents.Members = map[string]sources.MemberStatus{"agents/a": {Up: true, Watermark: w.start.Add(time.Hour)}}
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, agents))
	w.restart(time.Second)
	agents.Members = map[string]sources.MemberStatus{"agents/a": {Error: "its agent has not been heard from since the start of the aggregator"}}
	require.Empty(t, w.pass(10*time.Second, agents, sources.Status{Name: "loki"}))
	require.Equal(t, "starting", w.a.Coverage())
	agents.Members = map[string]sources.MemberStatus{"agents/a": {Up: true, Watermark: w.start.Add(time.Hour)}}
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Second, agents, up("loki")))
	require.Equal(t, "full: agents (1 of 1 nodes), loki", w.coverage())

	w.restart(time.Second)
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, agents, sources.Status{Name: "loki"}))
	require.Equal(t, "partial: agents (1 of 1 nodes); not seen: loki since 2026-01-01T00:01:14Z", w.coverage(), "it does not wait for ever")
}
