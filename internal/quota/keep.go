package quota

import (
	"maps"
	"math"
	"slices"
)

// KeepNewest returns the newest values of a list in which the oldest comes first. It keeps at most n values of
// infrastructure tenants and n values of all other tenants. These places are shared equally among the tenants, and a
// tenant with less than its share loses nothing. The order is preserved, and the result uses the memory of all.
func KeepNewest[T any](all []T, n int, tenant func(T) string, infra func(tenant string) bool) []T {
	if len(all) <= n {
		return all
	}
	counts := map[string]int{}
	for _, x := range all {
		counts[tenant(x)]++
	}
	for _, side := range []bool{false, true} {
		own := maps.Clone(counts)
		maps.DeleteFunc(own, func(tenant string, _ int) bool { return infra(tenant) != side })
		share := fairShare(slices.Sorted(maps.Values(own)), n)
		for tenant, have := range own {
			counts[tenant] = max(0, have-share) // number of values to drop, which are the oldest ones
		}
	}
	return slices.DeleteFunc(all, func(x T) bool {
		counts[tenant(x)]--
		return counts[tenant(x)] >= 0
	})
}

// fairShare returns the largest limit per tenant with which the limited sizes add up to at most n. The sizes are in
// ascending order.
func fairShare(sizes []int, n int) int {
	for i, size := range sizes {
		if share := n / (len(sizes) - i); size > share {
			return share
		}
		n -= size
	}
	return math.MaxInt // all sizes fit
}
