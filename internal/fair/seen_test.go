package fair

import (
	"testing"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// order lists fingerprints from the oldest.
func order(f *Seen) []uint64 {
	var out []uint64
	for i := f.parties[""].oldest; i >= 0; i = f.slots[i].newer {
		out = append(out, f.slots[i].id)
	}
	return out
}

// The fingerprints of one party are an LRU cache.
func TestFingerprints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 7, 300, 1000}).Draw(t, "size")
		f := NewSeen(size)
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
			for i, id := range few {
				f.Touch(few[i:min(i+i%5, len(few))])
				_, known := model.Get(id)
				model.Add(id, struct{}{})
				require.Equal(t, known, f.Add(id, ""))
			}
			again := NewSeen(size)
			again.Load(f.Save())
			require.Equal(t, model.Keys(), order(f))
			require.Equal(t, model.Keys(), order(again))
			require.Equal(t, evicted, f.Evicted)
		}
	})
}
