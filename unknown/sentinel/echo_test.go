package sentinel

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

// A failure that begins with an alert of a rule about its component is not reported again,
// unless the alert ends and it goes on.
func TestEcho(t *testing.T) {
	f := func(want int, labels map[string]string, after time.Duration) *world {
		t.Helper()
		alerts := []episodes.Episode{
			{Alert: "QuotaUsedUp", Labels: labels, StartsAt: began.Add(after), FiredAt: began.Add(after)},
			{Alert: "Pending", Labels: map[string]string{"namespace": "capi-system", "container": "manager"}, StartsAt: began},
		}
		w := newWorld(t, Config{Alerts: func() []episodes.Episode { return slices.Clone(alerts) }})
		for i := range 8 {
			w.read(manager, fmt.Sprintf(stuck, "a", i))
			w.pass(5 * time.Minute)
		}
		require.Len(t, w.firing, want)
		require.Len(t, w.List(w.now, upTo(w.now), 5), want)
		require.Len(t, recorded(w, 5, Persistent), want)
		alerts = nil
		return w
	}
	own := map[string]string{"namespace": "capi-system", "container": "manager"}
	w := f(0, own, time.Minute)
	w.pass(time.Minute)
	require.Len(t, w.firing, 1)
	w = newWorld(t, Config{})
	w.Explain([]episodes.Episode{{Labels: own, StartsAt: began}})
	for range 5 {
		w.read(manager, fresh)
		w.pass(time.Minute)
	}
	require.Empty(t, recorded(w, 5, Repeated))
	f(0, map[string]string{"namespace": "capi-system", "pod": "manager-0"}, -time.Minute)
	f(1, own, 20*time.Minute)
	f(1, own, -20*time.Minute)
	f(1, map[string]string{"namespace": "capi-system"}, 0)
	f(1, map[string]string{"namespace": "capi-system", "container": "other", "pod": "manager-0"}, 0)
	f(1, map[string]string{"namespace": "shop", "pod": "manager-0"}, 0)
}
