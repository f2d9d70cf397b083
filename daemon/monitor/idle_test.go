package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/sources"
)

// A restart neither forgets that a source is idle, while it is not known yet what it can
// read, nor claims it at once.
func TestIdleOverRestarts(t *testing.T) {
	idle := up("kubelet")
	idle.Idle, idle.IdleReason = "no log of a pod", sources.IdleNoLogs
	opening := sources.Status{Name: "kubelet", Up: true}
	w := newWatch(t)
	require.Equal(t, []string{"firing CrowsnestIdle kubelet"}, w.pass(time.Hour, idle))
	starts := w.a.All()[0].StartsAt
	for _, first := range []sources.Status{off("kubelet"), opening} {
		w.restart(time.Second)
		require.Empty(t, w.pass(3*time.Second, first))
		require.NotContains(t, w.a.Coverage(), "full")
		require.Equal(t, []string{"firing CrowsnestIdle kubelet"}, w.pass(time.Minute, idle), "again, not resolved")
		require.Equal(t, starts, w.a.All()[0].StartsAt)
	}
	w.restart(time.Second)
	require.Empty(t, w.pass(3*time.Second, opening))
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "resolved CrowsnestIdle kubelet"}, w.pass(time.Minute, up("kubelet")))
	require.Equal(t, "full: kubelet", w.coverage())

	w = newWatch(t)
	require.Empty(t, w.pass(time.Minute, idle), "not for long")
	w.restart(time.Hour)
	require.Empty(t, w.pass(10*time.Second, idle), "it may have something to read now")
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, w.pass(time.Minute, up("kubelet")))
}

// Logs without labels, because none of their files was opened yet, say nothing about the rules
// that select them.
func TestRulesOfLogsThatAreOpened(t *testing.T) {
	from, err := selector.Parse(`{container="sincer"}`)
	require.NoError(t, err)
	set := &rules.Set{Rules: []*rules.Rule{{Alert: "A", From: from, Mode: rules.ModeOn}}}
	st := func(labels map[string]string) State {
		s := up("kubelet")
		s.Streams, s.Lines = []sources.StreamStatus{{Path: "/logs/a", Labels: labels, Offset: 1}}, 1
		return State{Sources: []sources.Status{s}, Rules: set, Readings: map[string]Reading{"kubelet": {Logs: true, Serves: func(rules.Selector) bool { return true }}}}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(now, blindAfter)
	pass := func(d time.Duration, labels map[string]string) {
		t.Helper()
		for end := now.Add(d); now.Before(end); {
			now = now.Add(time.Second)
			state := st(labels)
			state.Sources[0].Watermark = now
			a.Update(now, state)
			require.NotContains(t, a.Coverage(), "full")
		}
	}
	opened := map[string]string{"container": "syncer"}
	pass(3*time.Second, nil)
	pass(blindAfter+time.Second, opened)
	why, reason := a.WhyIdle("kubelet")
	require.Equal(t, sources.IdleNoRules, reason, why)
	saved, err := a.Export()
	require.NoError(t, err)
	a = New(now, blindAfter)
	require.NoError(t, a.Import(saved))
	pass(3*time.Second, nil)
	pass(20*time.Second, opened)
	require.Equal(t, 1, int(a.Counts()[alertIdle]))
}
