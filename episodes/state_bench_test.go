package episodes

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// manyOpen returns an engine with 1,600 open alerts: single lines, blocks of 200
// counted lines, sequences, and lost leases.
func manyOpen(tb testing.TB) *Engine {
	tb.Helper()
	lines := func(alert string, change func(*rules.Rule)) *rules.Rule {
		return rule(func(r *rules.Rule) {
			r.Alert, r.By, r.Limit, r.KeepFiringFor, r.Within = alert, []string{"namespace", "pod", "id"}, 10000, time.Hour, time.Hour
			r.CapturedNames = r.By
			change(r)
		})
	}
	set := []*rules.Rule{
		lines("Planted", func(*rules.Rule) {}),
		lines("Block", func(r *rules.Rule) { r.Count = 200 }),
		lines("Sequence", func(r *rules.Rule) { r.Sequence, r.Steps = true, make([]rules.Step, 3) }),
		lines("Lost", func(r *rules.Rule) {
			r.For, r.Clear, r.Expire = 2*time.Second, &rules.ClearOrUnless{Same: r.By}, time.Hour
		}),
	}
	b := newBench(tb, set...)
	b.e = b.engine(Config{MaxActive: 10000})
	const pad = " of a controller that reconciles and reconciles and logs about as much as controllers do, with an error text and some fields: namespace=capi-system reconcileID=0d2f3c66-53c5-4a1f-9a46-5b1f8b1e9e3d"
	for i := range 400 {
		t := time.Duration(i) * time.Second
		id := fmt.Sprintf("w%d-p%d", i%4, i)
		say := func(r *rules.Rule, part int, off time.Duration, text string) {
			b.take(t+off, lineHit(r, 0, t+off, text+" id="+id+pad, "chaos", "chaos-writer-0", id))
			_ = part
		}
		say(set[0], 0, 0, "planted")
		for k := range 200 {
			say(set[1], 0, time.Duration(k)*time.Millisecond, "block of many")
		}
		for k := range 3 {
			off := time.Duration(k) * 10 * time.Millisecond
			h := lineHit(set[2], 0, t+off, fmt.Sprint("step ", k, pad), "chaos", "chaos-writer-0", id)
			h.Part = matcher.Part(k)
			b.take(t+off, h)
		}
		say(set[3], 0, 0, "lost")
		b.advance(t + 5*time.Second)
	}
	require.Len(tb, b.e.Episodes(at(401*time.Second)), 1600)
	return b.e
}

// BenchmarkSnapshot measures a save with 1,600 open alerts, and their memory.
func BenchmarkSnapshot(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e := manyOpen(b)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		s, err := e.Snapshot()
		require.NoError(b, err)
		size = len(s)
	}
	b.ReportMetric(float64(size), "bytes/state")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB/heap")
	runtime.KeepAlive(e)
}

// BenchmarkCopy measures the part of a save during which nothing is read.
func BenchmarkCopy(b *testing.B) {
	e := manyOpen(b)
	for b.Loop() {
		e.Copy()
	}
}

// BenchmarkClear measures clear lines that match no episode, with 10,000 open episodes.
func BenchmarkClear(b *testing.B) {
	f := func(name string, same ...string) {
		b.Run(name, func(b *testing.B) {
			r := rule(func(r *rules.Rule) {
				r.By, r.Limit, r.Clear = []string{"namespace", "name"}, 10_000, &rules.ClearOrUnless{Same: same}
			})
			bn := newBench(b, r)
			bn.e = bn.engine(Config{MaxActive: 10_000})
			for i := range 10_000 {
				bn.take(0, lineHit(r, 0, 0, "lost", "ns", fmt.Sprint(i)))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				bn.take(time.Second, matcher.Hit{Rule: r, Part: matcher.PartClear, Time: at(time.Second), Values: []string{"other", "x"}, ID: uint64(i)})
			}
		})
	}
	f("key", "namespace", "name")
	f("part", "namespace")
}
