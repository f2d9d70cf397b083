package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sinks"
)

func TestDroppedAlerts(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := drops{}
	f := func(after time.Duration, count int64, want bool) {
		t.Helper()
		ep, open := d.alert(now.Add(after), sinks.EndpointStatus{Endpoint: "http://am", Failed: map[string]int64{evicted: count}})
		require.Equal(t, want, open)
		if open {
			require.Equal(t, "http://am", ep.Labels["endpoint"])
			require.Equal(t, now.Add(time.Minute), ep.StartsAt)
		}
	}
	f(0, 0, false)
	f(time.Minute, 3, true)
	f(10*time.Minute, 5, true)
	f(25*time.Minute, 5, true)
	f(26*time.Minute, 5, false)
}
