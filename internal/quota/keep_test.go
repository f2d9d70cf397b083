package quota

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func ofInfra(tenant string) bool { return tenant >= "q" }

// Each tenant keeps its newest values, however many another one has.
func TestKeepIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "a", "a", "b", "b", "c"}), 0, 60).Draw(t, "tenants")
		infra := rapid.SliceOfN(rapid.SampledFrom([]string{"q", "q", "r"}), 0, 60).Draw(t, "infrastructure")
		tenants = rapid.Permutation(append(tenants, infra...)).Draw(t, "all")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		type value struct {
			tenant string
			n      int
		}
		var all []value
		had, sides := map[string]int{}, map[bool]map[string]int{false: {}, true: {}}
		for i, p := range tenants {
			all = append(all, value{p, i})
			had[p]++
			sides[ofInfra(p)][p]++
		}
		kept, keptOf := map[string]int{}, map[bool]int{}
		last := map[string]int{}
		out := KeepNewest(all, n, func(x value) string { return x.tenant }, ofInfra)
		for _, x := range out {
			kept[x.tenant]++
			keptOf[ofInfra(x.tenant)]++
			require.GreaterOrEqual(t, x.n, last[x.tenant], "the order stays")
			last[x.tenant] = x.n
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
		for i, p := range tenants { // the newest of each stay
			if kept[p] > 0 && i == len(tenants)-1 {
				require.EqualValues(t, i, last[p])
			}
		}
	})
}
