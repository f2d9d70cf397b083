package fleet

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/web"
)

// Forty clusters, one defect: one alert with the right counts by version. Clusters that die
// are unknown, and end nothing; neither does a restart.
func TestFortyClusters(t *testing.T) {
	w := newWorld(t)
	var all []*cluster
	addresses := map[string]string{}
	for i := range 40 {
		c := newCluster(t, fmt.Sprintf("c%02d", i))
		all, addresses[c.name] = append(all, c), "http://"+c.addr
	}
	w.watch(addresses)
	w.eventually("all clusters answer", func() bool { return w.fleet().States["up"] == 40 })

	all[0].fails("OtherRule", "", 5)
	all[1].fails("OtherRule", "", 5)
	for i := range 14 {
		affected := "yes: cluster-autoscaler v1.32.0 is affected (versions >=1.32.0)."
		if i >= 9 {
			affected = "no: cluster-autoscaler v1.31.2 is not among the affected versions (>=1.32.0)."
		}
		all[i].fails("Conflict", affected, 1+i%3)
	}
	w.eventually("one alert", func() bool {
		return w.summary() == "Conflict is open in 14 of 40 clusters; 9 of them run an affected version"
	})
	started := w.am.Accepted("CrowsnestFleetFailure")[0].Alert
	require.Equal(t, map[string]string{"alertname": "CrowsnestFleetFailure", "rule": "Conflict", "severity": "critical"}, started.Labels)
	got := w.fleet()
	require.Len(t, got.Rules, 2)
	require.Equal(t, []web.FleetVersion{{Version: "v1.32.0", Clusters: 9}, {Version: "v1.31.2", Clusters: 5}}, got.Rules[0].Versions)
	require.Equal(t, 27, got.Rules[0].Alerts)
	require.Len(t, got.Rules[0].Clusters, 14)
	require.Empty(t, got.Rules[1].Alert, "two clusters are too few")

	for _, i := range []int{0, 1, 2, 30, 31, 32} {
		all[i].down()
	}
	w.eventually("dead clusters are unknown", func() bool {
		return w.summary() == "Conflict is open in 14 of 40 clusters; 9 of them run an affected version; 6 clusters do not answer"
	})
	require.Equal(t, map[string]int{"up": 34, "unknown": 6, "conflict": 0}, w.fleet().States)
	metrics, err := w.view.Metrics(t.Context())
	require.NoError(t, err)
	require.Equal(t, 6., metrics[`crowsnest_fleet_clusters{state="unknown"}`])

	for i := 3; i < 14; i++ {
		all[i].recovers()
	}
	w.eventually("only the dead ones are left", func() bool {
		f := w.fleet()
		return len(f.Rules) == 1 && len(f.Rules[0].Clusters) == 3 && f.Rules[0].Old == 3
	})
	_, _ = w.view.End(syscall.SIGKILL)
	require.NoError(t, w.view.Start())
	require.NoError(t, w.view.Ready(t.Context(), patience))
	w.eventually("the others answer again", func() bool { return w.fleet().States["up"] == 34 })
	f := w.fleet()
	require.Len(t, f.Rules, 1, "it survives a kill, with clusters that do not answer")
	require.Equal(t, 3, f.Rules[0].Old)
	require.Equal(t, "firing", w.am.States("CrowsnestFleetFailure"))

	for _, i := range []int{0, 1, 2} {
		all[i].recovers()
		all[i].up(t)
	}
	w.eventually("the alert ends on evidence", func() bool { return w.am.States("CrowsnestFleetFailure") == "firing resolved" })
	for _, a := range w.am.Accepted("CrowsnestFleetFailure") {
		require.Equal(t, started.StartsAt, a.Alert.StartsAt)
		require.Equal(t, started.Labels, a.Alert.Labels)
	}
}
