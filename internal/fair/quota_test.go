package fair

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func ofInfra(party string) bool { return party >= "q" }

// Each party keeps its newest values, however many another one has.
func TestKeepIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parties := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "a", "a", "b", "b", "c"}), 0, 60).Draw(t, "parties")
		infra := rapid.SliceOfN(rapid.SampledFrom([]string{"q", "q", "r"}), 0, 60).Draw(t, "infrastructure")
		parties = rapid.Permutation(append(parties, infra...)).Draw(t, "all")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		type value struct {
			party string
			n     int
		}
		var all []value
		had, sides := map[string]int{}, map[bool]map[string]int{false: {}, true: {}}
		for i, p := range parties {
			all = append(all, value{p, i})
			had[p]++
			sides[ofInfra(p)][p]++
		}
		kept, keptOf := map[string]int{}, map[bool]int{}
		last := map[string]int{}
		out := Keep(all, n, func(x value) string { return x.party }, ofInfra)
		for _, x := range out {
			kept[x.party]++
			keptOf[ofInfra(x.party)]++
			require.GreaterOrEqual(t, x.n, last[x.party], "the order stays")
			last[x.party] = x.n
		}
		for side, own := range sides {
			all := 0
			for p, have := range own {
				all += have
				require.True(t, kept[p] == have || kept[p] >= n/len(own), "%s lost something below its share", p)
			}
			require.LessOrEqual(t, keptOf[side], n)
			require.Greater(t, keptOf[side]+max(1, len(own)), min(n, all), "no more is dropped than an equal share asks for")
		}
		for i, p := range parties { // the newest of each stay
			if kept[p] > 0 && i == len(parties)-1 {
				require.EqualValues(t, i, last[p])
			}
		}
	})
}
