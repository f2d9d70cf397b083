package episodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// TestPanicIsQuarantined lets one rule panic while it accepts a line: its episodes stay
// open, nothing is concluded from its silence, other rules continue, and another version of
// the rule is evaluated.
func TestPanicIsQuarantined(t *testing.T) {
	bad := rule(func(r *rules.Rule) { r.Alert, r.By = "Bad", []string{"pod"} })
	good := rule(func(r *rules.Rule) { r.Alert = "Good" })
	b := newBench(t, bad, good)
	b.take(0, lineHit(bad, 0, 0, "bad", "p"))
	b.advance(time.Minute)
	require.Len(t, b.firing(), 1)

	broken := lineHit(bad, 0, 2*time.Minute, "bad again", "p")
	bad.Count, bad.Within = 2, time.Minute
	bad.Sequence, broken.Part = true, matcher.Part(7) // a step that the rule does not have
	b.take(2*time.Minute, broken, lineHit(good, 0, 2*time.Minute, "good"))
	require.Equal(t, []*rules.Rule{bad}, b.e.Quarantined())
	b.take(3*time.Minute, broken)
	b.advance(5 * time.Minute)
	require.Len(t, b.firing(), 2, "the other rule continues")
	b.advance(24 * time.Hour)
	require.Len(t, b.firing(), 1, "nothing is concluded from the silence of a quarantined rule")
	require.Len(t, b.e.Episodes(at(24 * time.Hour))[:1], 1)
	_, err := b.e.Snapshot()
	require.NoError(t, err)

	fixed := rule(func(r *rules.Rule) { r.Alert, r.By, r.Hash = "Bad", []string{"pod"}, "2" })
	b.e.Swap(&rules.Set{Rules: []*rules.Rule{fixed, good}}, at(25*time.Hour))
	require.Empty(t, b.e.Quarantined())
	b.take(25*time.Hour, lineHit(fixed, 0, 25*time.Hour, "bad", "q"))
	b.advance(26 * time.Hour)
}

// TestPanicOfConclusion lets a rule panic where its deadline is due.
func TestPanicOfConclusion(t *testing.T) {
	bad := rule(func(r *rules.Rule) {
		r.Alert, r.For, r.Clear = "Bad", time.Minute, &rules.ClearOrUnless{}
		r.Annotations = []rules.NamedTemplate{{Name: "x"}} // without a template
	})
	good := rule(func(r *rules.Rule) { r.Alert, r.For, r.Clear = "Good", time.Minute, &rules.ClearOrUnless{} })
	b := newBench(t, bad, good)
	b.take(0, lineHit(bad, 0, 0, "bad"), lineHit(good, 0, 0, "good"))
	b.advance(10 * time.Minute)
	require.Equal(t, []*rules.Rule{bad}, b.e.Quarantined())
	firing := b.firing()
	require.Len(t, firing, 1)
	for _, x := range firing {
		require.Equal(t, "Good", x.Alert)
	}
	b.advance(20 * time.Minute)
	listed := b.e.Episodes(at(20 * time.Minute))
	require.Len(t, listed, 2)
	require.Contains(t, listed[0].Annotations["summary"], "because of a bug")
}
