package episodes

import (
	"fmt"
	"testing"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// BenchmarkTake measures hits that find an open episode, as in a storm.
func BenchmarkTake(b *testing.B) {
	f := func(name string, change func(*rules.Rule)) {
		b.Run(name, func(b *testing.B) {
			r := rule(func(r *rules.Rule) {
				r.By, r.CapturedNames = []string{"k"}, []string{"k", "v"}
				change(r)
			})
			e := newBench(b, r).e
			keys := make([]string, 10)
			for i := range keys {
				keys[i] = fmt.Sprint("default/cluster-", i)
			}
			hits := make([]matcher.Hit, 1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				t := start.Add(time.Duration(i) * time.Millisecond)
				hits[0] = matcher.Hit{Rule: r, Time: t, Line: "a line", Values: []string{keys[i%len(keys)], "v"}, ID: uint64(i)}
				e.Take(hits, t)
				if i%1000 == 0 {
					e.AdvanceWatermark("s", t)
					e.Evaluate(t)
				}
			}
		})
	}
	f("line", func(*rules.Rule) {})
	f("count", func(r *rules.Rule) { r.Count, r.Within = 10, 10*time.Minute })
	f("silent", func(r *rules.Rule) { r.Silent, r.Expire, r.KeepFiringFor = 10*time.Minute, time.Hour, 0 })
	f("distinct", func(r *rules.Rule) { r.Count, r.Within, r.Distinct = 2, 10*time.Minute, "v" })
}

// BenchmarkEvaluate measures a tick with many open episodes and nothing to do.
func BenchmarkEvaluate(b *testing.B) {
	var rs []*rules.Rule
	for i := range 100 {
		rs = append(rs, rule(func(r *rules.Rule) { r.Alert, r.By = fmt.Sprint("Rule", i), []string{"k"} }))
	}
	bn := newBench(b, rs...)
	bn.e = bn.engine(Config{MaxActive: 10_000})
	for _, r := range rs {
		for i := range 100 {
			bn.take(0, lineHit(r, 0, 0, "x", fmt.Sprint(i)))
		}
	}
	bn.advance(time.Second)
	for b.Loop() {
		bn.e.AdvanceWatermark("s", at(2*time.Second))
		bn.e.Evaluate(at(2 * time.Second))
	}
}
