package episodes

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

func logHit(r *rules.Rule, t time.Duration, labels matcher.Labels) matcher.Hit {
	h := lineHit(r, 0, t, "failed", labels["pod"])
	h.Labels, h.Values = labels, nil
	return h
}

func TestOriginOfAnAlert(t *testing.T) {
	r := rule(func(*rules.Rule) {})
	b := newBench(t, r)
	first := matcher.Labels{"namespace": "kube-system", "pod": "etcd-1", "container": "etcd", "node": "n1", "app": "x"}
	origin := func() string {
		all := b.e.Episodes(at(time.Hour))
		require.Len(t, all, 1)
		require.Equal(t, all[0].Origin, all[0].Annotations["origin"])
		return all[0].Origin
	}
	b.take(0, logHit(r, 0, first))
	const where = "namespace kube-system, pod etcd-1, container etcd, node n1"
	require.Equal(t, where, origin())
	b.take(time.Second, logHit(r, time.Second, first))
	require.Equal(t, where, origin())
	for i := range 2 {
		b.take(2*time.Second, logHit(r, 2*time.Second, matcher.Labels{"namespace": "kube-system", "pod": fmt.Sprint("etcd-", i+2)}))
	}
	require.Equal(t, where+" and 2 other logs", origin())
	b.restart(3 * time.Second)
	require.Equal(t, where+" and 2 other logs", origin(), "kept over a restart")
	for i := range 100 {
		b.take(4*time.Second, logHit(r, 4*time.Second, matcher.Labels{"namespace": "kube-system", "pod": fmt.Sprint("etcd-", i)}))
	}
	require.Equal(t, where+" and at least 15 other logs", origin())
}
