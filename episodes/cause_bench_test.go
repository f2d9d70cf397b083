package episodes

import (
	"fmt"
	"testing"
	"time"

	"crowsnest/rules"
)

// BenchmarkRelate decides the causes of 1,000 open symptoms with four causes each.
func BenchmarkRelate(b *testing.B) {
	cause, symptom := pair(func(cause, symptom *rules.Rule) { cause.Limit, symptom.Limit = 1000, 1000 })
	all := []*rules.Rule{symptom}
	symptom.Causes = nil
	for i := range 4 {
		c := *cause
		c.Alert, c.Hash = fmt.Sprint("Cause", i), fmt.Sprint("c", i)
		all = append(all, &c)
		symptom.Causes = append(symptom.Causes, rules.Cause{Alert: c.Alert})
	}
	x := newBench(b, all...)
	x.e = x.engine(Config{MaxActive: 5000, MaxPerNamespace: 5000})
	for i := range 1000 {
		x.take(2*time.Second, lineHit(symptom, 0, 2*time.Second, "lost", fmt.Sprint(i%10), fmt.Sprint(i)))
	}
	for i := range 40 {
		x.take(2*time.Second, lineHit(all[1+i%4], 0, time.Second, "slow", fmt.Sprint(i%10)))
	}
	x.e.Evaluate(at(2 * time.Second))
	b.ReportAllocs()
	for b.Loop() {
		x.e.unsettled = true
		x.e.relateSymptoms(0)
	}
}
