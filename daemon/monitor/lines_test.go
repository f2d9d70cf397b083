package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/component"
	"crowsnest/sources"
)

// A loss raises an alert at once, one per reason. It stays for a while after the newest
// loss.
func TestLossAlerts(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(start, blindAfter)
	known := component.Parts{Kinds: component.Sources()}.Losses()
	losses := map[string]sources.Loss{}
	f := func(at time.Duration, want ...string) {
		t.Helper()
		now := start.Add(at)
		got := []string{}
		for _, e := range a.Update(now, State{Sources: []sources.Status{{Name: "kubelet", Up: true, Opened: true, Watermark: now, Losses: losses}}, Losses: known}) {
			if e.Alert == alertLinesLost {
				got = append(got, string(e.State)+" "+e.Labels["severity"]+" "+e.Labels["reason"])
				require.False(t, e.StartsAt.After(now))
			}
		}
		require.ElementsMatch(t, want, got)
	}
	lose := func(reason string, n int64, at time.Duration) {
		losses[reason] = sources.Loss{Count: n, Time: start.Add(at), Path: "/var/log/pods/a_b_c/d/0.log\n"}
	}
	f(0)
	lose("gap", 1, time.Second)
	f(time.Second, "firing warning gap")
	f(2 * time.Second)
	lose("removed", 3, 2*time.Second)
	f(3*time.Second, "firing info removed")
	lose("gap", 2, 10*time.Minute)
	f(10*time.Minute, "firing warning gap") // another text of the same alert
	f(15*time.Minute+2*time.Second, "resolved info removed")
	f(24 * time.Minute)
	f(25*time.Minute, "resolved warning gap")
	lose("gap", 3, 30*time.Minute)
	f(29*time.Minute, "firing warning gap") // the clock was set back
	lose("other", 1, 30*time.Minute)
	f(30*time.Minute, "firing warning other")

	// After a restart the source still has the loss.
	a = New(start.Add(31*time.Minute), blindAfter)
	f(31*time.Minute, "firing warning gap", "firing warning other")
	for _, e := range a.All() {
		require.NotContains(t, e.Annotations["description"], "\n")
	}
}
