package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/fleet"
)

func TestClustersAlert(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(clusters ...fleet.Cluster) (summary, description string) {
		t.Helper()
		got := clustersAlert(now, blindAfter, clusters)
		if len(got) == 0 {
			return "", ""
		}
		require.Equal(t, "warning", got[0].Labels["severity"])
		require.NotEmpty(t, got[0].Annotations["remediation"])
		return got[0].Annotations["summary"], got[0].Annotations["description"]
	}
	old := now.Add(-2 * blindAfter)
	up, silent := fleet.Cluster{Name: "a", State: fleet.Up, Since: old}, fleet.Cluster{Name: "b", State: fleet.Unknown, Since: old, Error: "no answer in time"}
	summary, _ := f(up, fleet.Cluster{Name: "c", State: fleet.Unknown, Since: now})
	require.Empty(t, summary, "too short")
	summary, description := f(up, silent, fleet.Cluster{Name: "c", State: fleet.Conflict, Since: old, Error: "two targets"})
	require.Equal(t, "The state of 2 of 3 clusters is not known", summary)
	require.Equal(t, "b since 2025-12-31T23:50:00Z (no answer in time)\nc since 2025-12-31T23:50:00Z (two targets)", description)
	var many []fleet.Cluster
	for i := range 40 {
		many = append(many, fleet.Cluster{Name: fmt.Sprint("c", i), State: fleet.Unknown, Since: old})
	}
	_, description = f(many...)
	require.LessOrEqual(t, len(description), maxText+len("…"))
	require.Contains(t, description, "20 more")
}
