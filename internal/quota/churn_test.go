package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A tenant opens at most the limit in a period, apart from an eighth in each of its other
// groups, and the counts of past periods are dropped.
func TestChurn(t *testing.T) {
	p := NewPool(Bounds{}, nil)
	busy, calm := NewGroup(nil, Ordinary, p, 1, nil), NewGroup(nil, Ordinary, p, 1, nil)
	c := NewChurn(16, time.Minute)
	open := func(g *Group, tenant string, at time.Duration) (n int) {
		for range 100 {
			if !c.IsSpent(g, tenant, int64(at)) {
				c.Count(g, tenant)
				n++
			}
		}
		return n
	}
	require.Equal(t, 16, open(busy, "a", time.Hour))
	require.Equal(t, 2, open(calm, "a", time.Hour))
	require.Equal(t, 16, open(busy, "b", time.Hour))
	require.Zero(t, open(busy, "a", time.Hour-time.Second), "the clock was set back")
	require.Equal(t, 16, open(busy, "a", time.Hour+time.Minute))
	require.Equal(t, 16, open(busy, "a", 0), "the clock was set back by more than a period")
	for i := range 1000 {
		open(busy, fmt.Sprint(i), time.Duration(i)*time.Minute)
	}
	require.Len(t, c.counts, 2)
}
