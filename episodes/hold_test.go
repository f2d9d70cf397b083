package episodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// A rule on hold accepts lines but concludes nothing from silence. When it is released, it
// concludes up to the current watermarks.
func TestHoldBack(t *testing.T) {
	waits := rule(func(r *rules.Rule) {
		r.Alert, r.For, r.Clear, r.Expire = "Waits", time.Minute, &rules.ClearOrUnless{}, time.Hour
	})
	plain := rule(func(r *rules.Rule) { r.Alert, r.KeepFiringFor = "Plain", time.Minute })
	b := newBench(t, waits, plain)
	upTo := map[string]time.Time{"Waits": at(0), "Plain": at(0)}
	b.e.HoldBack(upTo)
	b.take(0, lineHit(waits, matcher.Part(0), 0, "x"), lineHit(plain, matcher.Part(0), 0, "y"))
	b.advance(10 * time.Minute)
	b.e.HoldBack(upTo)
	firing := b.firing()
	require.Len(t, firing, 1, "a plain match fires at once; its silence ends nothing")
	for _, st := range b.e.Stats(at(10 * time.Minute)).Rules {
		require.True(t, st.OnHold, st.Rule.Alert)
	}
	b.e.HoldBack(map[string]time.Time{"Plain": at(0)})
	b.advance(11 * time.Minute)
	require.Len(t, b.firing(), 2)
	b.e.HoldBack(nil)
	b.advance(12 * time.Minute)
	firing = b.firing()
	require.Len(t, firing, 1)
	for _, ep := range firing {
		require.Equal(t, "Waits", ep.Alert)
	}
}
