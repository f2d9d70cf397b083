package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// Each release has an alert of its own, which ends with the release.
func TestUnverifiedAlert(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := New(now, time.Minute)
	all := []*rules.Rule{{Alert: "KubeletDoesNotStart"}, {Alert: "KubeletCannotRegister"}}
	count := func(us ...rules.UnverifiedRelease) int64 {
		a.Update(now, State{Unverified: us})
		return a.Counts()[alertUnverified]
	}
	one := rules.UnverifiedRelease{Component: "kubelet", Release: "1.37", Versions: []string{"v1.37.1"}, Rules: all}
	require.EqualValues(t, 2, count(one, rules.UnverifiedRelease{Component: "kubelet", Release: "1.38", Versions: []string{"v1.38.0"}, Rules: all[:1]}))
	require.EqualValues(t, 1, count(one))
	e := unverifiedAlert(now, one)
	require.Equal(t, "kubelet 1.37 is running; not verified for this release: 2 rules", e.Annotations["summary"])
	require.Contains(t, e.Annotations["description"], "Running: v1.37.1.")
	require.Contains(t, e.Annotations["description"], "KubeletDoesNotStart, KubeletCannotRegister")
	require.Equal(t, "info", e.Labels["severity"])
	require.Zero(t, count())
}
