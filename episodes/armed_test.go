package episodes

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

func heartbeat(change func(*rules.Rule)) *rules.Rule {
	return rule(func(r *rules.Rule) {
		r.By, r.KeepFiringFor, r.Silent, r.Expire = []string{"k"}, 0, 10*time.Minute, time.Hour
		change(r)
	})
}

// A namespace that arms many keys takes no memory beyond its share, and its dropped keys are
// counted. The keys of other namespaces stay armed, also over a restart.
func TestArmedKeysAreShared(t *testing.T) {
	r := heartbeat(func(r *rules.Rule) { r.Limit = 20 })
	b := tenants{newBench(t, r)}
	b.advance(0)
	for i := range 30 {
		b.say(0, r, "shop", fmt.Sprint("s", i))
	}
	for i := range 20_000 {
		b.say(time.Duration(i)*time.Millisecond, r, "evil", fmt.Sprint("e", i))
	}
	st := b.e.Stats(at(time.Minute))
	require.Equal(t, maxOverflowKeys(r), st.Rules[0].Armed)
	require.Equal(t, []Eviction{{Namespace: "evil", Rule: "Demo", Kind: EvictedArmed, Count: 20_000 - 170, LastAt: at(0)}}, st.Evictions)
	require.Zero(t, st.Rules[0].Evicted)
	b.restart(time.Minute)
	require.Equal(t, maxOverflowKeys(r), b.e.Stats(at(time.Minute)).Rules[0].Armed)

	b.advance(10*time.Minute + 10*time.Second)
	require.Len(t, b.firing(), 21, "of shop, and the overflow alert")
	for _, x := range b.firing() {
		if x.Overflow {
			require.EqualValues(t, 10, x.Count)
			require.Equal(t, at(10*time.Minute), x.StartsAt)
			continue
		}
		require.Equal(t, "shop", x.Tenant)
		require.Equal(t, at(0), x.ActiveAt())
		require.Equal(t, redact.Text("shop"), x.Line)
	}
	// The keys of evil displace the alerts of shop only until both have as many.
	b.advance(11 * time.Minute)
	shop := 0
	for _, x := range b.firing() {
		if x.Tenant == "shop" {
			shop++
		}
	}
	require.Equal(t, 10, shop)

	// A line that is older than the newest one of a displaced key does not arm it.
	b.e.AdvanceWatermark("s", at(11*time.Minute))
	for i := range 30 {
		h := lineHit(r, 0, -time.Second, "shop", fmt.Sprint("s", i))
		h.Labels = matcher.Labels{"namespace": "shop"}
		b.take(11*time.Minute, h)
	}
	require.Zero(t, b.e.Stats(at(0)).Rules[0].Armed)
}

// The lines of a deleted pod arm nothing after the clock was set either.
func TestDeletedPodsMoveWithTheClock(t *testing.T) {
	r := heartbeat(func(r *rules.Rule) { r.By = []string{"pod"} })
	b := tenants{newBench(t, r)}
	b.say(0, r, "ns", "p")
	b.e.PodDeleted(matcher.Labels{"namespace": "ns", "pod": "p"}, at(10*time.Second))
	b.e.ClockSet(2*time.Hour, at(2*time.Hour+20*time.Second))
	late := lineHit(r, 0, 5*time.Second, "ns", "p")
	late.Labels = matcher.Labels{"namespace": "ns"}
	b.take(2*time.Hour+20*time.Second, late)
	b.advance(2*time.Hour + 11*time.Minute)
	require.Empty(t, b.reported)
}

// A refused silence makes the overflow alert longer, even if its end is due with it.
func TestOverflowOfSilence(t *testing.T) {
	r := heartbeat(func(r *rules.Rule) { r.Limit, r.Expire = 1, 24*time.Hour })
	b := newBench(t, r)
	for i, key := range []string{"a", "b"} {
		d := time.Duration(i) * time.Second
		b.take(d, lineHit(r, 0, d, "alive", key))
	}
	b.take(15*time.Minute, lineHit(r, 0, 15*time.Minute, "alive", "c"))
	b.advance(24 * time.Minute)
	require.Len(t, b.firing(), 2)
	b.advance(26 * time.Minute) // the end of the overflow alert and the silence of c are due
	require.Len(t, b.firing(), 2)
	b.advance(40*time.Minute + rules.Lateness - 1)
	require.Len(t, b.firing(), 2)
	b.advance(40*time.Minute + rules.Lateness)
	require.Len(t, b.firing(), 1)
}

// A silence may take the place of an alert whose own end is due at the same time.
func TestSilenceDisplacesWhatEnds(t *testing.T) {
	silent := heartbeat(func(r *rules.Rule) { r.Alert = "Silent" })
	lines := keyed("Lines", rules.SeverityWarning, func(r *rules.Rule) { r.KeepFiringFor = 15 * time.Minute })
	b := tenants{newBench(t, silent, lines)}
	b.e = b.engine(Config{MaxActive: 2, MaxPerNamespace: 2})
	b.say(0, silent, "shop", "s")
	b.say(0, lines, "evil", "e0")
	b.say(0, lines, "evil", "e1")
	b.advance(time.Minute)
	require.Len(t, b.firing(), 2)
	b.advance(16 * time.Minute)
	require.Empty(t, b.e.Quarantined())
	require.Equal(t, []string{"Silent s"}, b.open(16*time.Minute))
}

// A muted key, and one that was refused, is not counted if it is dropped.
func TestDisarmedKeysAreNotLost(t *testing.T) {
	r := heartbeat(func(r *rules.Rule) {
		r.Limit, r.Unless = 1, &rules.ClearOrUnless{Same: []string{"k"}, Within: time.Hour}
	})
	b := newBench(t, r)
	for i := range 10 {
		b.take(0, lineHit(r, 0, 0, "alive", fmt.Sprint("a", i)), lineHit(r, matcher.PartUnless, 0, "planned", fmt.Sprint("a", i)))
	}
	require.Zero(t, b.e.Stats(at(0)).Rules[0].Armed)
	for i := range 10 {
		b.take(time.Second, lineHit(r, 0, time.Second, "alive", fmt.Sprint("b", i)))
	}
	require.Empty(t, b.e.Stats(at(0)).Evictions)
	require.Equal(t, 10, b.e.Stats(at(0)).Rules[0].Armed)
	b.take(time.Second, lineHit(r, 0, time.Second, "alive", "c"))
	require.Len(t, b.e.Stats(at(0)).Evictions, 1)
}

// A key from a snapshot without the labels of the identity belongs to the first identity
// that writes a line of it; a muting line of any identity reaches it until then.
func TestArmedKeysGetTheirIdentity(t *testing.T) {
	r := heartbeat(func(r *rules.Rule) { r.Unless = &rules.ClearOrUnless{Same: []string{"k"}, Within: time.Minute} })
	b := newBench(t, r)
	b.e = b.engine(Config{Identity: []string{}})
	say := func(t time.Duration, part matcher.Part, key, cluster string) {
		h := lineHit(r, part, t, "alive", key)
		h.Labels = matcher.Labels{"cluster": cluster}
		b.take(t, h)
	}
	for _, key := range []string{"a", "b", "c"} {
		say(0, 0, key, "east")
	}
	b.restart(time.Minute) // with the default identity
	say(2*time.Minute, 0, "a", "east")
	say(2*time.Minute, matcher.PartUnless, "b", "west")
	say(3*time.Minute, 0, "a", "west")
	b.advance(time.Second)
	require.Equal(t, 3, b.e.Stats(at(0)).Rules[0].Armed)
	b.advance(14 * time.Minute)
	got := map[string]time.Time{}
	for _, x := range b.firing() {
		got[x.Labels["k"]+" of "+x.Labels["cluster"]] = x.StartsAt
	}
	require.Equal(t, map[string]time.Time{"a of east": at(12 * time.Minute), "a of west": at(13 * time.Minute), "c of ": at(10 * time.Minute)}, got)
}

// The timeline of an alert says when the last line was.
func TestTimelineOfSilence(t *testing.T) {
	r := heartbeat(func(*rules.Rule) {})
	b := newBench(t, r)
	b.take(time.Minute, lineHit(r, 0, time.Minute, "alive", "a"))
	kinds := func() (out []string) {
		for _, x := range b.firing() {
			tl, ok := b.e.Timeline(x.Fingerprint, at(time.Hour))
			require.True(t, ok)
			for _, ev := range tl.Events {
				out = append(out, fmt.Sprint(ev.Kind, " ", ev.Time.Sub(start), " ", ev.Line))
			}
		}
		return out
	}
	b.advance(12 * time.Minute)
	require.Equal(t, []string{"last 1m0s alive", "opened 11m0s ", "fired 12m0s "}, kinds())
	b.restart(13 * time.Minute)
	require.Equal(t, []string{"last 1m0s alive", "opened 11m0s ", "fired 12m0s ", "restored 13m0s "}, kinds())
}

// A rule with another hash starts with no armed key, one with the same hash keeps them.
func TestSwapOfARuleWithSilent(t *testing.T) {
	kept, changed := heartbeat(func(r *rules.Rule) { r.Alert = "Kept" }), heartbeat(func(r *rules.Rule) { r.Alert = "Changed" })
	b := newBench(t, kept, changed)
	b.take(0, lineHit(kept, 0, 0, "alive", "a"), lineHit(changed, 0, 0, "alive", "a"))
	same, other := *kept, *changed
	same.Severity, other.Hash = rules.SeverityCritical, "2"
	b.set = &rules.Set{Rules: []*rules.Rule{&same, &other}}
	b.e.Swap(b.set, at(time.Minute))
	b.advance(11 * time.Minute)
	require.Len(t, b.firing(), 1)
	for _, x := range b.firing() {
		require.Equal(t, "Kept", x.Alert)
		require.Equal(t, "critical", x.Labels["severity"])
	}
	b.e.Suspend(&same, at(12*time.Minute))
	b.advance(48 * time.Hour)
	require.Len(t, b.firing(), 1, "nothing is concluded from the silence of a suspended rule")
	b.e.Swap(&rules.Set{}, at(48*time.Hour))
	b.advance(48 * time.Hour)
	require.Empty(t, b.firing())
}
