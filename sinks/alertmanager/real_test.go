package alertmanager

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks/internal/delivery"
	"crowsnest/test/servers"
)

func alertname(labels map[string]string) string { return labels["alertname"] }

// TestRealAlertmanager: what receivers are notified of.
func TestRealAlertmanager(t *testing.T) {
	hook := servers.NewHook(t, alertname)
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{Webhook: hook.URL})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("notified: %v", hook.States())
		}
	})
	notified := func(name string) string { return hook.States()[name] }
	eventually := func(what string, ok func() bool) {
		t.Helper()
		require.Eventually(t, ok, 60*time.Second, 20*time.Millisecond, what)
	}
	minFiring := 3 * time.Second // well above the group_wait of a starved Alertmanager
	s := running(t, Config{
		URLs: []string{am.URL}, ResendDelay: time.Second, MinFiring: &minFiring,
		ExternalLabels: map[string]string{"cluster": "c1"}, ExternalURL: "http://crowsnest.example",
	})
	sent := func() int64 { return s.Status()[0].Sent }
	notify := func(eps ...episodes.Episode) { s.Notify(eps) }

	stays, ends, blip := fire("Stays"), fire("Ends"), fire("Blip")
	notify(stays, ends)
	notify(blip, end(blip))
	eventually("all are notified", func() bool {
		return notified("Stays") == "firing" && notified("Ends") == "firing" && notified("Blip") == "firing resolved"
	})
	from := sent()
	eventually("resends", func() bool { return sent() >= from+6 })
	ends = end(ends)
	notify(ends)
	eventually("the end is notified", func() bool { return notified("Ends") == "firing resolved" })

	// Clocks that step are no reason to refuse.
	ahead, behind := fire("Ahead"), fire("Behind")
	ahead.StartsAt, behind.StartsAt = ahead.StartsAt.Add(time.Hour), behind.StartsAt.Add(-time.Hour)
	notify(ahead, behind)
	aheadEnds, behindEnds := end(ahead), end(behind)
	behindEnds.EndsAt = behindEnds.StartsAt.Add(-time.Hour)
	eventually("both are taken", func() bool {
		return notified("Ahead") == "firing" && notified("Behind") == "firing"
	})
	notify(aheadEnds, behindEnds)
	eventually("both ends are taken", func() bool {
		return notified("Ahead") == "firing resolved" && notified("Behind") == "firing resolved"
	})
	require.Zero(t, s.Status()[0].Failed[delivery.ReasonRefused])

	// It restarts: open alerts are there again without another notification, and alerts
	// that ended meanwhile are sent.
	endsAway := fire("EndsAway")
	notify(endsAway)
	eventually("notified", func() bool { return notified("EndsAway") == "firing" })
	am.Stop()
	during := fire("During")
	notify(during, end(endsAway))
	eventually("it is missed", func() bool { return !s.Status()[0].Up })
	notify(end(during))
	am.Start()
	eventually("healed", func() bool {
		alerts, _ := am.TryAlerts()
		return slices.ContainsFunc(alerts, func(a servers.Alert) bool { return alertname(a.Labels) == "Stays" })
	})
	eventually("changes in between are notified", func() bool {
		return notified("EndsAway") == "firing resolved" && notified("During") == "firing resolved"
	})
	from = sent()
	eventually("resends", func() bool { return sent() >= from+6 })
	require.Equal(t, "firing", notified("Stays"))
	require.Equal(t, "firing resolved", notified("Ends"))

	// A killed Alertmanager forgets its notifications: an end must still be sent.
	am.Kill()
	eventually("it is missed", func() bool { return !s.Status()[0].Up })
	require.NoError(t, os.RemoveAll(filepath.Join(am.Dir, "data")))
	notify(end(stays))
	am.Start()
	eventually("the end is notified", func() bool { return strings.HasSuffix(notified("Stays"), "resolved") })
	require.Zero(t, s.Status()[0].Failed[delivery.ReasonRefused])
}
