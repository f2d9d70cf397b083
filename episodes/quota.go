package episodes

import (
	"maps"
	"slices"
)

// keepShared returns the newest of some episodes, n at most, shared among their
// parties: one with less than its share loses none. The order stays; the memory
// is that of eps.
func keepShared(eps []Episode, n int) []Episode {
	if len(eps) <= n {
		return eps
	}
	counts := map[string]int{}
	for i := range eps {
		counts[eps[i].Party]++
	}
	share := quota(slices.Sorted(maps.Values(counts)), n)
	for party, have := range counts {
		counts[party] = max(0, have-share) // to drop, the oldest first
	}
	return slices.DeleteFunc(eps, func(x Episode) bool {
		counts[x.Party]--
		return counts[x.Party] >= 0
	})
}

// quota is the most that each of some sizes, from the smallest, may keep so that
// all together are n at most.
func quota(sizes []int, n int) int {
	for i, size := range sizes {
		if share := n / (len(sizes) - i); size > share {
			return share
		}
		n -= size
	}
	return n
}
