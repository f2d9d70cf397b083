package blocks

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type value struct {
	Key  int
	Text string
}

func key(v value) int { return v.Key }

// Decode returns every value that was encoded last, whatever was encoded before.
func TestEveryValueIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Encoder[int, value]
		var values []value
		next := 0
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			values = values[min(len(values), rapid.IntRange(0, 100).Draw(t, "ended")):]
			for range rapid.IntRange(0, 150).Draw(t, "new") {
				values = append(values, value{next, "text"})
				next++
			}
			encoded, err := e.Encode(values, key)
			require.NoError(t, err)
			require.LessOrEqual(t, len(encoded), 2*(len(values)/perBlock)+2, "blocks of values that ended are dropped")
			got := map[value]bool{}
			for _, v := range Decode[value](encoded) {
				got[v] = true
			}
			for _, v := range values {
				require.True(t, got[v])
			}
		}
	})
}

// A full block is compressed once.
func TestFullBlocksAreKept(t *testing.T) {
	var e Encoder[int, value]
	values := make([]value, perBlock+1)
	for i := range values {
		values[i].Key = i
	}
	first, err := e.Encode(values, key)
	require.NoError(t, err)
	second, err := e.Encode(append(values, value{Key: perBlock + 1}), key)
	require.NoError(t, err)
	require.Len(t, second, 2)
	require.Same(t, &first[0][0], &second[0][0])
	require.NotEqual(t, first[1], second[1])
}

// After an error the encoder still knows what it knew.
func TestErrorChangesNothing(t *testing.T) {
	var e Encoder[int, any]
	key := func(v any) int {
		if n, ok := v.(int); ok {
			return n
		}
		return -1
	}
	_, err := e.Encode([]any{1, 2}, key)
	require.NoError(t, err)
	_, err = e.Encode([]any{1, 2, func() {}}, key)
	require.Error(t, err)
	encoded, err := e.Encode([]any{1, 2, 3}, key)
	require.NoError(t, err)
	require.ElementsMatch(t, []int{1, 2, 3}, Decode[int](encoded))
}

// A damaged block costs its own values only.
func TestDamagedBlock(t *testing.T) {
	var e Encoder[int, value]
	values := make([]value, 2*perBlock)
	for i := range values {
		values[i].Key = i
	}
	encoded, err := e.Encode(values, key)
	require.NoError(t, err)
	require.Len(t, encoded, 2)
	for _, damaged := range [][]byte{nil, {}, {0xff}, encoded[0][:len(encoded[0])/2]} {
		require.Equal(t, values[perBlock:], Decode[value]([][]byte{damaged, encoded[1]}))
	}
	require.Empty(t, slices.Collect(slices.Values(Decode[value](nil))))
}
