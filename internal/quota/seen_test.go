package quota

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// order lists fingerprints from the oldest.
func order(f *FingerprintSet) (out []uint64) {
	for ids, _ := f.Save(); len(ids) > 0; ids = ids[8:] {
		out = append(out, binary.LittleEndian.Uint64(ids))
	}
	return out
}

// The fingerprints of one tenant are an LRU cache.
func TestFingerprints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 7, 300, 1000}).Draw(t, "size")
		f := NewFingerprintSet(size, nil)
		evicted := int64(0)
		model, err := simplelru.NewLRU(size, func(uint64, struct{}) { evicted++ })
		require.NoError(t, err)
		// A few values that repeat, or many.
		few := rapid.SliceOfN(rapid.Uint64Range(0, uint64(2*size)), 1, 50).Draw(t, "few")
		many := rapid.IntRange(0, 3000).Draw(t, "many")
		for range 2 {
			for i := range many {
				few = append(few, uint64(i)<<32)
			}
			for _, id := range few {
				_, known := model.Get(id)
				model.Add(id, struct{}{})
				require.Equal(t, known, f.Add(id, ""))
			}
			again := NewFingerprintSet(size, nil)
			again.Load(f.Save())
			require.Equal(t, model.Keys(), order(f))
			require.Equal(t, model.Keys(), order(again))
			require.Equal(t, evicted, f.Evicted)
		}
	})
}

// However many tenants write, infrastructure has a quarter more, which it shares.
// It also uses what others leave free.
func TestFingerprintsOfInfrastructure(t *testing.T) {
	trusted := map[string]bool{"kube": true, "node": true}
	f := NewFingerprintSet(100, func(party string) bool { return trusted[party] })
	id := uint64(0)
	add := func(n int, party string) (first uint64) {
		first = id
		for range n {
			f.Add(id, party)
			id++
		}
		return first
	}
	known := func(first uint64, n int) (found int) {
		for _, x := range order(f) {
			if first <= x && x < first+uint64(n) {
				found++
			}
		}
		return found
	}
	used := func(f *FingerprintSet) [2]int { return [2]int{f.group.sides[0].used, f.group.sides[1].used} }
	kube := add(80, "kube")
	require.Equal(t, 80, known(kube, 80))
	for i := range 500 {
		add(3, fmt.Sprint("tenant", i))
	}
	require.Equal(t, 25, known(kube, 80))
	node := add(10, "node")
	for i := range 500 {
		add(3, fmt.Sprint("tenant", i))
	}
	require.Equal(t, []int{15, 10}, []int{known(kube, 80), known(node, 10)})
	again := NewFingerprintSet(100, f.group.pool.infra)
	again.Load(f.Save())
	require.Equal(t, [2]int{100, 25}, used(again))
	trusted["kube"] = false
	f.Reclass()
	require.Equal(t, [2]int{115, 10}, used(f))
	for i := range 500 {
		add(3, fmt.Sprint("tenant", i))
	}
	require.Equal(t, []int{0, 10}, []int{known(kube, 80), known(node, 10)})
}
