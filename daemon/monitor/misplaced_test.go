package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules/namespaces"
	"crowsnest/sources"
)

func TestComponentOutsideTheList(t *testing.T) {
	now := time.Now()
	look := func(namespace, pod string, entries ...string) []string {
		trusted, err := namespaces.Parse(entries)
		require.NoError(t, err)
		status := []sources.Status{{Streams: []sources.StreamStatus{{Labels: matcher.Labels{"namespace": namespace, "pod": pod}}}}}
		var out []string
		for _, e := range new(misplacedPods).alerts(now, trusted, status) {
			require.Equal(t, map[string]string{"alertname": alertMisplaced, "severity": "info"}, e.Labels)
			out = append(out, e.Annotations["description"]+e.Annotations["remediation"])
		}
		return out
	}
	const pod = "capi-controller-manager-6c4b8d9f7-x2v9p"
	notes := look("my-capi", pod)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "Cluster API in namespace my-capi")
	require.Contains(t, notes[0], "add +my-capi to")
	require.Empty(t, look("my-capi", pod, "+my-capi"), "trusted")
	require.Empty(t, look("my-capi", pod, "-my-capi"), "explicitly not trusted")
	require.Empty(t, look("capi-system", pod))
	require.Empty(t, look("team-a", "my-operator-controller-manager-6c4b8d9f7-x2v9p"), "operators of tenants are not reported")
	require.NotContains(t, look("$(reboot)", pod)[0], "reboot")
}

func TestMisplacedChecksOnceAMinute(t *testing.T) {
	m := &misplacedPods{}
	now := time.Now()
	status := []sources.Status{{Streams: []sources.StreamStatus{{Labels: matcher.Labels{"namespace": "x", "pod": "fleet-agent-zz9p2"}}}}}
	trusted, err := namespaces.Parse(nil)
	require.NoError(t, err)
	require.Empty(t, m.alerts(now, trusted, nil))
	require.Empty(t, m.alerts(now.Add(time.Second), trusted, status))
	require.Len(t, m.alerts(now.Add(misplacedEvery), trusted, status), 1)
}
