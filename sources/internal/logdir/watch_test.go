package logdir

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The map that take returns is never written to again, not even an empty one. The race
// detector checks that.
func TestHintsAreHandedOver(t *testing.T) {
	w := &Watcher{hints: &hints{kick: func() {}, dirs: map[string]bool{}}}
	empty, all := w.Take()
	require.Empty(t, empty)
	require.False(t, all)
	var wg sync.WaitGroup
	wg.Go(func() {
		w.hints.add("a")
		w.hints.add("")
	})
	require.False(t, empty["a"])
	wg.Wait()
	dirs, all := w.Take()
	require.Equal(t, map[string]bool{"a": true}, dirs)
	require.True(t, all)
	_, all = w.Take()
	require.False(t, all)
}
