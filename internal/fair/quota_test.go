package fair

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Each party keeps its newest values, however many another one has.
func TestKeepIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parties := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "a", "a", "b", "b", "c"}), 0, 60).Draw(t, "parties")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		type value struct {
			party string
			n     int
		}
		var all []value
		had := map[string]int{}
		for i, p := range parties {
			all = append(all, value{p, i})
			had[p]++
		}
		kept := map[string]int{}
		last := map[string]int{}
		out := Keep(all, n, func(x value) string { return x.party })
		require.LessOrEqual(t, len(out), n)
		require.Greater(t, len(out)+max(1, len(had)), min(n, len(parties)), "no more is dropped than an equal share asks for")
		for _, x := range out {
			kept[x.party]++
			require.GreaterOrEqual(t, x.n, last[x.party], "the order stays")
			last[x.party] = x.n
		}
		for p := range had {
			require.True(t, kept[p] == had[p] || kept[p] >= n/len(had), "%s lost something below its share", p)
		}
		for i, p := range parties { // the newest of each stay
			if kept[p] > 0 && i == len(parties)-1 {
				require.EqualValues(t, i, last[p])
			}
		}
	})
}
