package episodes

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// stormBatch makes a block of lines of one pod. Its IDs are set by renew.
func stormBatch(r *rules.Rule, n int) []matcher.Hit {
	labels := matcher.Labels{"namespace": "capi-system", "pod": "capi-controller-manager-7d9f8b6c5-x2x9v", "container": "manager", "node": "worker-1", "app": "capi"}
	line := `E1120 19:24:20.123456       1 controller.go:329] "Reconciler error" err="failed to get lease: connection refused" controller="machine" ` + strings.Repeat("x", 150)
	hits := make([]matcher.Hit, n)
	for i := range hits {
		values := []string{labels["namespace"], labels["pod"], "", ""}[:len(r.CapturedNames)]
		for k := 2; k < len(values); k++ {
			values[k] = fmt.Sprint("value-", i%10)
		}
		hits[i] = matcher.Hit{Rule: r, Part: matcher.Part(i % len(r.Steps)), Line: line, Values: values, Labels: labels}
	}
	return hits
}

// renew turns a batch into new lines, a microsecond apart.
func renew(hits []matcher.Hit, round int) time.Time {
	for i := range hits {
		n := round*len(hits) + i
		hits[i].ID = uint64(n)*0x9E3779B97F4A7C15 + 1
		hits[i].Time = start.Add(time.Duration(n) * time.Microsecond)
	}
	return hits[len(hits)-1].Time
}

// BenchmarkStorm measures a hit of a storm: one rule, one pod, blocks of 500
// lines, an open episode.
func BenchmarkStorm(b *testing.B) {
	f := func(name string, change func(*rules.Rule)) {
		b.Run(name, func(b *testing.B) {
			r := rule(func(r *rules.Rule) {
				r.By, r.CapturedNames = []string{"namespace", "pod"}, []string{"namespace", "pod"}
				change(r)
			})
			bn := newBench(b, r)
			bn.e = bn.engine(Config{Redactor: redact.New([]*regexp.Regexp{regexp.MustCompile(`password=\S+`)})})
			hits := stormBatch(r, 500)
			if name == "tail" { // of a sequence
				for i := range hits {
					hits[i].Part = 2
				}
				bn.take(0, lineHit(r, 0, 0, "first", hits[0].Values...))
				h := lineHit(r, 1, 0, "second", hits[0].Values...)
				bn.take(0, h)
			}
			bn.take(0, lineHit(r, 0, 0, "another pod", "ns", "pod"))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				// One operation is one hit.
				if k := i % len(hits); k == 0 {
					now := renew(hits, i/len(hits))
					bn.e.Take(hits, now)
					bn.e.AdvanceWatermark("s", now)
				}
			}
		})
	}
	f("line", func(*rules.Rule) {})
	f("capture", func(r *rules.Rule) { r.CapturedNames = append(r.CapturedNames, "v") })
	f("clear", func(r *rules.Rule) { r.Clear = &rules.ClearOrUnless{Same: r.By[:1]} })
	f("count", func(r *rules.Rule) { r.Count, r.Within = 10, 10*time.Minute })
	f("thousands", func(r *rules.Rule) { r.Count, r.Within = rules.MaxCount, time.Hour })
	f("minutes", func(r *rules.Rule) { r.Count, r.Within, r.Distinct = 5, 10*time.Minute, "minute" })
	f("distinct", func(r *rules.Rule) {
		r.Count, r.Within, r.Distinct, r.CapturedNames = 5, 10*time.Minute, "v", append(r.CapturedNames, "v")
	})
	f("sequence", func(r *rules.Rule) {
		r.Sequence, r.Steps, r.Within, r.CapturedNames = true, make([]rules.Step, 3), time.Minute, append(r.CapturedNames, "v")
	})
	f("tail", func(r *rules.Rule) {
		r.Sequence, r.Steps, r.Within, r.CapturedNames = true, make([]rules.Step, 3), time.Hour, append(r.CapturedNames, "v")
	})
	f("refused", func(r *rules.Rule) { r.Limit = 1 })
	f("unreached", func(r *rules.Rule) { r.Count, r.Within = 200, 10*time.Microsecond })
}

// crowd is an engine with 5,000 rules and 10,000 open episodes.
func crowd(b *testing.B) *bench {
	var rs []*rules.Rule
	for i := range 5000 {
		rs = append(rs, rule(func(r *rules.Rule) {
			r.Alert, r.By, r.KeepFiringFor = fmt.Sprint("Rule", i), []string{"namespace", "pod"}, time.Hour
			if i%2 == 0 {
				r.Clear, r.Expire = &rules.ClearOrUnless{Same: r.By}, time.Hour
			}
			if i%4 == 0 {
				r.For = 30 * time.Minute
			}
		}))
	}
	bn := newBench(b, rs...)
	bn.e = bn.engine(Config{MaxActive: 10_000, MaxPerNamespace: 10_000, UpdateEvery: time.Hour})
	for i, r := range rs[:1000] {
		for k := range 10 {
			bn.take(0, lineHit(r, 0, 0, "a line that opens an episode", fmt.Sprint("ns-", k), fmt.Sprint("pod-", i)))
		}
	}
	bn.advance(time.Second)
	bn.advance(2 * time.Second)
	return bn
}

// BenchmarkCrowd measures what the daemon does again and again, with 5,000 rules
// and 10,000 open episodes.
func BenchmarkCrowd(b *testing.B) {
	bn := crowd(b)
	f := func(name string, do func(i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				do(i)
			}
		})
	}
	f("evaluate", func(int) {
		bn.e.AdvanceWatermark("s", at(3*time.Second))
		bn.e.Evaluate(at(3 * time.Second))
	})
	f("deadline", func(int) { bn.e.NextDeadline() })
	id := uint64(0)
	hits := make([]matcher.Hit, 1)
	values := make([]string, 1000)
	for i := range values {
		values[i] = fmt.Sprint("pod-", i)
	}
	f("take", func(i int) {
		id++
		k := i * 7 % 1000
		hits[0] = matcher.Hit{Rule: bn.set.Rules[k], Time: at(4 * time.Second), Line: "a line that goes on", Values: []string{"ns-1", values[k]}, ID: id * 0x9E3779B97F4A7C15}
		bn.e.Take(hits, at(4*time.Second))
	})
	f("stats", func(int) { bn.e.Stats(at(4 * time.Second)) })
	f("copy", func(int) { bn.e.Copy() })
	f("snapshot", func(int) { _, _ = bn.e.Snapshot() })
}
