package daemon

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPaceOfTheCollector(t *testing.T) {
	f := func(live uint64, want int) {
		t.Helper()
		require.Equal(t, want, percentFor(live))
	}
	f(0, 500)
	f(1<<20, 500)
	f(5<<20, 100)
	f(8<<20, 50)
	f(10<<20, gcPercent)
	f(20<<20, gcPercent)
	f(1<<30, gcPercent)
}

// The pace follows the live heap, over any number of collections.
func TestPaceFollows(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	p := &pace{}
	p.setFor(8 << 20)
	require.Equal(t, 50, debug.SetGCPercent(50))
	p.setFor(8<<20 + 1<<18)
	require.Equal(t, 50, p.percent, "not for a little")
	p.setFor(100 << 20)
	require.Equal(t, gcPercent, debug.SetGCPercent(gcPercent))
	runtime.GC()
	require.Positive(t, liveHeap())
	require.Less(t, liveHeap(), uint64(1<<40))
}

// The first collection is delayed once, and End restores what was set before.
func TestDelayCollection(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	none := func(string) string { return "" }
	d := DelayCollection(none)
	require.Equal(t, startPercent, debug.SetGCPercent(startPercent))
	d.End()
	require.Equal(t, 77, debug.SetGCPercent(50))
	d.End()
	require.Equal(t, 50, debug.SetGCPercent(50), "it is over")
	DelayCollection(func(string) string { return "100" }).End()
	require.Equal(t, 50, debug.SetGCPercent(50), "the environment decides")
	(*Delay)(nil).End()
}
