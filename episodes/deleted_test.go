package episodes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// The episodes of a deleted pod end, even over a restart. Those of other pods, and of a pod
// that was created again, do not.
func TestPodDeleted(t *testing.T) {
	byPod := rule(func(r *rules.Rule) {
		r.Alert, r.By, r.Clear, r.Expire = "ByPod", []string{"pod"}, &rules.ClearOrUnless{Same: []string{"pod"}}, time.Hour
	})
	both := rule(func(r *rules.Rule) {
		r.Alert, r.By, r.Clear, r.Expire = "Both", []string{"namespace", "pod"}, &rules.ClearOrUnless{Same: []string{"pod"}}, time.Hour
	})
	other := rule(func(r *rules.Rule) { r.Alert, r.By, r.KeepFiringFor = "Other", []string{"cluster"}, time.Hour })
	b := newBench(t, byPod, both, other)
	say := func(at time.Duration, r *rules.Rule, namespace string, values ...string) {
		h := lineHit(r, 0, at, "line of "+namespace, values...)
		h.Labels = matcher.Labels{"namespace": namespace}
		b.take(at, h)
	}
	say(time.Second, byPod, "ns", "a")
	say(time.Second, byPod, "elsewhere", "b")
	say(time.Second, both, "ns", "ns", "a")
	say(time.Second, both, "ns", "other", "a")
	say(time.Second, other, "ns", "a")
	say(20*time.Second, both, "ns", "ns", "back")
	b.e.PodDeleted(matcher.Labels{"namespace": "ns", "pod": "a"}, at(10*time.Second))
	b.e.PodDeleted(matcher.Labels{"namespace": "ns", "pod": "b"}, at(10*time.Second))
	b.e.PodDeleted(matcher.Labels{"namespace": "ns", "pod": "back"}, at(10*time.Second))

	b.advance(5 * time.Minute)
	require.Len(t, b.firing(), 6)
	s, err := b.e.Snapshot()
	require.NoError(t, err)
	b.e = b.engine(Config{})
	require.NoError(t, b.e.Restore(s, at(5*time.Minute)))
	b.advance(5*time.Minute + 10*time.Second)
	require.Len(t, b.firing(), 4)
	ended := 0
	for _, x := range b.reported {
		if x.State == StateResolved {
			ended++
			require.Equal(t, ReasonPodDeleted, x.Reason)
			require.Equal(t, at(10*time.Second), x.EndsAt)
			require.Equal(t, "a", x.Labels["pod"])
			require.Contains(t, []string{"", "ns"}, x.Labels["namespace"])
		}
	}
	require.Equal(t, 2, ended)
	require.Zero(t, b.e.deletedPods.Len())
}

// No conclusion waits for a removed source.
func TestRemoveSource(t *testing.T) {
	b := newBench(t, rule(func(r *rules.Rule) { r.By, r.For = []string{"k"}, time.Minute }))
	b.e.AddSource("silent", rules.Lateness, nil)
	b.take(0, lineHit(b.set.Rules[0], 0, 0, "line", "x"))
	b.advance(10 * time.Minute)
	require.Empty(t, b.firing())
	b.e.RemoveSource("unknown")
	b.e.RemoveSource("silent")
	b.advance(10 * time.Minute)
	require.Len(t, b.firing(), 1)
}
