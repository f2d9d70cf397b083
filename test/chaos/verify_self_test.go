package chaos

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
)

// The verifier detects each kind of damage, and reports nothing without damage.
func TestVerifier(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	word := func(alert, id string, start time.Time, resolved bool) fakeam.Accepted {
		w := fakeam.Accepted{Time: start.Add(time.Second), Resolved: resolved, Alert: fakeam.Alert{
			Labels: map[string]string{"alertname": alert, "id": id, "pod": "w0"}, StartsAt: start, EndsAt: start.Add(time.Hour),
		}}
		if resolved {
			w.Alert.EndsAt = t0.Add(time.Minute)
		}
		return w
	}
	lines := func(n int) fakeam.Accepted {
		w := word("ChaosLines", "", t0, false)
		w.Alert.Annotations = map[string]string{"lines": strconv.Itoa(n)}
		return w
	}
	planted, lost, taken := word("ChaosPlanted", "a", t0, false), word("ChaosLost", "b", t0, false), word("ChaosLost", "b", t0, true)
	f := func(want string, words ...fakeam.Accepted) {
		t.Helper()
		led := newLedger()
		led.count("ChaosLines w0", plant{first: t0, last: t0})
		led.count("ChaosLines w0", plant{first: t0, last: t0})
		led.plant("ChaosPlanted", "a", plant{first: t0, last: t0})
		led.plant("ChaosLost", "b", plant{first: t0, last: t0, ends: t0.Add(time.Minute)})
		led.plant("ChaosLost", "c", plant{first: t0, last: t0, never: true})
		got := map[string]*heard{}
		for _, w := range words {
			key := keyOf(w.Alert.Labels)
			if got[key] == nil {
				got[key] = &heard{}
			}
			got[key].take(w)
		}
		v := verdict{}
		led.verify(v, "am", got, nil)
		kinds := slices.Sorted(maps.Keys(v))
		if want == "" {
			require.Empty(t, kinds)
			return
		}
		require.Equal(t, []string{want}, kinds, "%v", v)
	}
	f("", lines(1), lines(2), planted, lost, taken)
	f("lost", lines(2), lost, taken)
	f("lines counted wrongly", lines(1), planted, lost, taken)
	f("lines counted wrongly", lines(3), planted, lost, taken)
	f("fabricated", lines(2), planted, lost, taken, word("ChaosLost", "c", t0, false))
	f("fabricated", lines(2), planted, lost, taken, word("Another", "a", t0, false))
	f("began at another line", lines(2), word("ChaosPlanted", "a", t0.Add(time.Second), false), lost, taken)
	f("duplicated", lines(2), planted, word("ChaosPlanted", "a", t0.Add(time.Second), false), lost, taken)
	f("unresolved", lines(2), planted, lost)
	f("flapped", lines(2), planted, lost, taken, lost, taken)
}

// A seed always produces the same plan.
func TestPlanReplays(t *testing.T) {
	m := mix{kill: 20, term: 5, peer: 5, gap: time.Second, down: time.Second}
	require.Equal(t, m.plan(7), m.plan(7))
	require.NotEqual(t, m.plan(7), m.plan(8))
	require.Len(t, m.plan(7), 30)
}
