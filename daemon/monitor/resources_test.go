package monitor

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sinks"
	"crowsnest/test/setclock"
)

func TestUnsavedAlert(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(u SaveFailure, now time.Time, want bool) {
		t.Helper()
		got := unsavedAlert(now, u)
		require.Equal(t, want, len(got) == 1)
		if want {
			require.Equal(t, since, got[0].StartsAt)
			require.Contains(t, got[0].Annotations["description"], "no space left")
		}
	}
	full := SaveFailure{since, errors.New("no space left")}
	f(SaveFailure{}, since.Add(time.Hour), false)
	f(full, since, false)
	f(full, since.Add(unsavedAfter-1), false)
	f(full, since.Add(unsavedAfter), true)
	f(full, since.Add(24*time.Hour), true)

	// Setting the clock does not count as elapsed time.
	var clock setclock.Clock
	from := clock.Now()
	clock.Set(time.Hour)
	require.Empty(t, unsavedAlert(clock.Now(), SaveFailure{Since: from, Err: errors.New("full")}))
}

func TestSkewAlert(t *testing.T) {
	f := func(skew float64, up, want bool) {
		t.Helper()
		s := skews{}
		for _, after := range []time.Duration{0, skewedFor - 1, skewedFor, time.Hour} {
			got := s.alert(time.Unix(1, 0).Add(after), sinks.EndpointStatus{Endpoint: "http://am:9093", Up: up, ClockSkew: skew})
			require.Equal(t, want && after >= skewedFor, len(got) == 1)
			require.True(t, len(got) == 0 || got[0].StartsAt.Equal(time.Unix(1, 0)))
		}
		require.Empty(t, s.alert(time.Unix(2, 0), sinks.EndpointStatus{Endpoint: "http://am:9093", Up: true}))
		require.Empty(t, s)
	}
	f(0, true, false)
	f(29, true, false)
	f(-29, true, false)
	f(30, true, true)
	f(-3600, true, true)
	f(-3600, false, false) // its last answer may be old
}

func TestDroppedAlerts(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := drops{}
	f := func(after time.Duration, count int64, want bool) {
		t.Helper()
		got := d.alert(now.Add(after), sinks.EndpointStatus{Endpoint: "http://am", Failed: map[string]int64{evicted: count}})
		require.Equal(t, want, len(got) == 1)
		if want {
			require.Equal(t, "http://am", got[0].Labels["endpoint"])
			require.Equal(t, now.Add(time.Minute), got[0].StartsAt)
		}
	}
	f(0, 0, false)
	f(time.Minute, 3, true)
	f(10*time.Minute, 5, true)
	f(25*time.Minute, 5, true)
	f(26*time.Minute, 5, false)
}

func TestDiscoveryAlert(t *testing.T) {
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := sinks.DiscoveryStatus{Sink: "alertmanager", Discovery: "SRV am", Error: "no such host", Targets: 3, FailingSince: since}
	require.Empty(t, discoveryAlert(since.Add(discoveryFailingAfter-1), d))
	require.Empty(t, discoveryAlert(since.Add(time.Hour), sinks.DiscoveryStatus{Up: true}))
	got := discoveryAlert(since.Add(discoveryFailingAfter), d)
	require.Len(t, got, 1)
	require.Equal(t, since, got[0].StartsAt)
	require.Equal(t, "crowsnest cannot look up the Alertmanagers of SRV am", got[0].Annotations["summary"])
	require.Contains(t, got[0].Annotations["description"], "since 2026-11-20T12:00:00Z: no such host. The last successful lookup found 3 Alertmanagers")

	// A receiver that no longer exists leaves nothing behind.
	a := New(since, blindAfter)
	a.Update(since, State{Endpoints: []sinks.EndpointStatus{{Endpoint: "http://am", Up: true, ClockSkew: 60, Failed: map[string]int64{evicted: 1}}}})
	require.Len(t, a.skewed, 1)
	a.Update(since, State{Discoveries: []sinks.DiscoveryStatus{d}})
	require.Empty(t, a.skewed)
	require.Empty(t, a.dropped)
}
