package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

func TestEvictionAlert(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	evicted := func(namespace, rule string, kind episodes.EvictedKind, n int64) episodes.Eviction {
		return episodes.Eviction{Namespace: namespace, Rule: rule, Kind: kind, Count: n, LastAt: now}
	}
	require.Empty(t, evictionAlert(now.Add(evictionsShown), []episodes.Eviction{evicted("a", "R", episodes.EvictedWindows, 1)}))
	require.Empty(t, evictionAlert(now, nil))

	all := []episodes.Eviction{
		evicted("calm", "R0", episodes.EvictedClears, 2),
		evicted("", "R0", episodes.EvictedMutes, 1),
		evicted("a\n[click](http://evil)", "R0", episodes.EvictedMutes, 5),
		evicted("evil", "R0", episodes.EvictedAlerts, 40),
	}
	for i := range 7 {
		all = append(all, evicted("evil", fmt.Sprint("R", i), episodes.EvictedWindows, 100))
	}
	e := evictionAlert(now, all)[0]
	require.Equal(t, "Lines of namespace evil, a namespace with an invalid name, namespace calm, streams without a namespace exhaust the memory limits: failures there may be missed", e.Annotations["summary"])
	require.Contains(t, e.Annotations["description"], "namespace evil: 40 open alerts, 700 counts of lines of the rules R0, R1, R2, R3, R4, 2 more.")
	require.Equal(t, map[string]string{"alertname": alertEvictions, "severity": "warning"}, e.Labels, "one alert for all namespaces")

	e = evictionAlert(now, []episodes.Eviction{evicted("calm", "R0", episodes.EvictedArmed, 3)})[0]
	require.Contains(t, e.Annotations["description"], "namespace calm: 3 keys of rules with `silent` of the rules R0.")

	require.Equal(t, "streams of prod without a namespace", namespaceText("prod/"))
	require.Equal(t, "namespace prod/shop", namespaceText("prod/shop"))

	for i := range 50 {
		all = append(all, evicted(fmt.Sprint("ns", i), "R", episodes.EvictedWindows, 1000))
	}
	e = evictionAlert(now, all)[0]
	require.Contains(t, e.Annotations["summary"], "49 more")
}
