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

// A rule whose clear line no source reads concludes nothing from its absence, although the
// unless line and the failure itself are read. Unread names the rule while it has an
// episode.
func TestAPartThatNoSourceReads(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.Alert, r.For, r.Expire = "Waits", time.Minute, time.Hour
		r.Steps[0].From = sourceSelector(t, 0)
		r.Unless = &rules.ClearOrUnless{From: sourceSelector(t, 1), Within: time.Minute}
		r.Clear = &rules.ClearOrUnless{From: sourceSelector(t, 2)}
	})
	b := newBench(t, r)
	b.e.AddSource("s", rules.Lateness, func(from rules.Selector) bool { return servesSource(0)(from) || servesSource(1)(from) })
	require.Empty(t, b.e.UnreadRules(), "nothing is open")
	b.take(0, lineHit(r, matcher.Part(0), 0, "x"))
	b.advance(10 * time.Minute)
	require.Empty(t, b.firing())
	require.Equal(t, []UnreadRule{{Rule: "Waits", Selectors: []string{`{source="2"}`}, Episodes: 1}}, b.e.UnreadRules())
	require.True(t, b.e.Stats(at(10 * time.Minute)).Rules[0].OnHold)

	b.e.AddSource("other", rules.Lateness, servesSource(2))
	require.Empty(t, b.e.UnreadRules())
	b.advance(11 * time.Minute)
	require.Empty(t, b.firing(), "the new source has made no progress")
	b.e.AdvanceWatermark("other", at(12*time.Minute))
	b.advance(12 * time.Minute)
	require.Len(t, b.firing(), 1)
}
