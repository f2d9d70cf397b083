package logdir

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The map that take returns is never written to again, not even an empty one. The race
// detector checks that.
func TestHintsAreHandedOver(t *testing.T) {
	h := newHints(func() {})
	empty, all := h.drain()
	require.Empty(t, empty)
	require.False(t, all)
	var wg sync.WaitGroup
	wg.Go(func() {
		h.add("a")
		h.add("")
	})
	require.False(t, empty["a"])
	wg.Wait()
	dirs, all := h.drain()
	require.Equal(t, map[string]bool{"a": true}, dirs)
	require.True(t, all)
	_, all = h.drain()
	require.False(t, all)
}
