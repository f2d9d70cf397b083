package quota

import (
	"maps"
	"math"
	"slices"
)

// Keep returns the newest of some values, at most n of infrastructure and n of all others,
// shared among their tenants: a tenant with less than its share loses none. The order stays,
// and the memory is reused.
func Keep[T any](all []T, n int, tenant func(T) string, infra func(tenant string) bool) []T {
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
		share := quota(slices.Sorted(maps.Values(own)), n)
		for tenant, have := range own {
			counts[tenant] = max(0, have-share) // to drop, the oldest first
		}
	}
	return slices.DeleteFunc(all, func(x T) bool {
		counts[tenant(x)]--
		return counts[tenant(x)] >= 0
	})
}

// quota returns the most that each of some sizes may keep so that the total is at most n.
// The sizes are in ascending order.
func quota(sizes []int, n int) int {
	for i, size := range sizes {
		if share := n / (len(sizes) - i); size > share {
			return share
		}
		n -= size
	}
	return math.MaxInt // all of them fit
}
