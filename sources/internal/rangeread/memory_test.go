package rangeread

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources"
)

func TestMemory(t *testing.T) {
	m := newMemory(10*second, 4)
	m.add(10*second, 1)
	m.add(10*second, 1)
	m.add(11*second, 1)
	m.add(12*second+5, 2)
	require.Equal(t, 3, m.n)
	require.True(t, m.has(12*second+5, 2))
	require.True(t, m.has(12*second+7, 2), "a key belongs to a second")
	require.False(t, m.has(13*second, 2))
	require.Equal(t, 2, m.countSince(11*second+9))
	m.raiseFloor(11*second + 500)
	require.Equal(t, 2, m.n, "the second of the floor stays whole")
	m.raiseFloor(5 * second)
	require.Equal(t, 11*second+500, m.floor)
	require.False(t, m.shrinkToLimit(0))

	// Beyond the limit the oldest are dropped first, if permitted.
	m.add(20*second, 3)
	m.add(21*second, 4)
	m.add(22*second, 5)
	require.True(t, m.shrinkToLimit(20*second))
	require.Equal(t, 4, m.n)
	require.Equal(t, 12*second, m.floor)
	m.add(13*second, 6)
	require.True(t, m.shrinkToLimit(12*second+1))
	require.False(t, m.has(22*second, 5), "then those that are farthest ahead")
	require.EqualValues(t, 1, m.forgot)
	require.Equal(t, 12*second, m.floor)
}

func TestMemoryExport(t *testing.T) {
	m := newMemory(-100*second, maxKeys)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		m.add(int64(rnd.IntN(1000)-100)*second, rnd.Uint64())
	}
	f := func(most int, protect int64) *memory {
		t.Helper()
		keys, floor := m.export(most, protect)
		out := newMemory(floor, maxKeys)
		require.NoError(t, out.load(keys))
		require.LessOrEqual(t, out.n, most)
		require.LessOrEqual(t, floor, max(protect, m.floor))
		return out
	}
	all := f(5000, 500*second)
	require.Equal(t, m.buckets, all.buckets)
	require.Equal(t, m.floor, all.floor)
	some := f(1000, 900*second)
	require.Greater(t, some.n, 900)
	for at, b := range m.buckets {
		if at*second >= some.floor {
			require.Equal(t, b, some.buckets[at], "behind the floor everything is known")
		}
	}
	require.Equal(t, 300*second, f(1000, 300*second).floor, "what was not read yet is not skipped")
	require.Zero(t, f(0, 900*second).n)
}

func FuzzMemoryLoad(f *testing.F) {
	m := newMemory(0, maxKeys)
	for i := range int64(20) {
		m.add(i*second/3, uint64(i)<<32)
	}
	keys, _ := m.export(100, 0)
	f.Add(keys)
	f.Add([]byte{})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMemory(0, maxKeys)
		if m.load(b) != nil {
			return
		}
		n := 0
		for _, keys := range m.buckets {
			n += len(keys)
		}
		require.Equal(t, n, m.n)
		require.LessOrEqual(t, 8*n, len(b))
		again, _ := m.export(n, 0)
		other := newMemory(0, maxKeys)
		require.NoError(t, other.load(again))
		require.Equal(t, m.buckets, other.buckets)
	})
}

func FuzzRestore(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	cfg := Config{URL: "http://x", Selector: `{a="b"}`, Common: sources.Common{Clock: func() time.Time { return now }}}
	s := New(lokiLike, cfg)[0]
	s.applyLookBack(now.UnixNano())
	s.memory.add(now.UnixNano(), 7)
	f.Add([]byte(s.Positions()))
	f.Add([]byte(`{"version":1,"covered":9223372036854775807,"proved":1,"deep":9223372036854775807,"floor":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(lokiLike, cfg)[0]
		if s.Restore(json.RawMessage(b)) != nil {
			require.Nil(t, s.Positions())
		}
		s.applyLookBack(now.UnixNano())
		s.plannedRules, s.plan = nil, plan{queries: []string{"{}"}}
		r := s.newRound(true)
		c := r.lowestCursor()
		require.NotNil(t, c)
		require.Less(t, c.at, now.UnixNano())
		require.Greater(t, c.end, now.UnixNano())
	})
}

func BenchmarkPositions(b *testing.B) {
	s := New(lokiLike, Config{URL: "http://x", Selector: `{a="b"}`})[0]
	now := time.Now().UnixNano()
	s.applyLookBack(now)
	for i := range int64(maxKeys) {
		s.memory.add(now-i*second/300, uint64(i)*0x9E3779B97F4A7C15)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(s.Positions())))
	}
}
