package episodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// A suspended rule concludes nothing from silence.
func TestSuspend(t *testing.T) {
	quiet := rule(func(r *rules.Rule) { r.Alert, r.KeepFiringFor = "Quiet", time.Minute })
	waits := rule(func(r *rules.Rule) {
		r.Alert, r.For, r.Clear = "Waits", 2*time.Minute, &rules.ClearOrUnless{}
	})
	other := rule(func(r *rules.Rule) { r.Alert, r.KeepFiringFor = "Other", time.Minute })
	b := newBench(t, quiet, waits, other)
	for _, r := range []*rules.Rule{quiet, waits, other} {
		b.take(0, lineHit(r, matcher.Part(0), 0, "x"))
	}
	b.advance(30 * time.Second)
	require.Len(t, b.firing(), 2)
	b.e.Suspend(quiet, at(30*time.Second))
	b.e.Suspend(waits, at(30*time.Second))
	b.e.Suspend(waits, at(time.Hour)) // it is already
	b.e.Suspend(rule(func(r *rules.Rule) { r.Alert = "Other" }), at(30*time.Second))
	b.e.Suspend(rule(func(r *rules.Rule) { r.Alert = "Unknown" }), at(30*time.Second))
	b.advance(48 * time.Hour)
	require.Len(t, b.firing(), 1, "open episodes stay open, and none is added")
	for _, st := range b.e.Stats(at(48 * time.Hour)).Rules {
		require.Equal(t, st.Rule != other, st.OnHold, st.Rule.Alert)
	}
	// A new version with the same hash stays suspended, one with another hash does not.
	same, changed := *quiet, *waits
	same.Source, changed.Hash = "other words", "2"
	b.e.Swap(&rules.Set{Rules: []*rules.Rule{&same, &changed}}, at(48*time.Hour))
	b.advance(49 * time.Hour)
	require.Len(t, b.firing(), 1)
	stats := b.e.Stats(at(49 * time.Hour)).Rules
	require.True(t, stats[0].OnHold)
	require.False(t, stats[1].OnHold)
}
