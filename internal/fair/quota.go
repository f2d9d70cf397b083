package fair

import (
	"maps"
	"math"
	"slices"
)

// Keep returns the newest of some values, at most n of infrastructure and n of all others,
// shared among their parties: a party with less than its share loses none. The order stays,
// and the memory is reused.
func Keep[T any](all []T, n int, party func(T) string, infra func(party string) bool) []T {
	if len(all) <= n {
		return all
	}
	counts := map[string]int{}
	for _, x := range all {
		counts[party(x)]++
	}
	for _, side := range []bool{false, true} {
		own := maps.Clone(counts)
		maps.DeleteFunc(own, func(party string, _ int) bool { return infra(party) != side })
		share := quota(slices.Sorted(maps.Values(own)), n)
		for party, have := range own {
			counts[party] = max(0, have-share) // to drop, the oldest first
		}
	}
	return slices.DeleteFunc(all, func(x T) bool {
		counts[party(x)]--
		return counts[party(x)] >= 0
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
