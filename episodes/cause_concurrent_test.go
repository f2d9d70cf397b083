package episodes

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestRelationsConcurrent reads alerts and their causes while lines are taken.
func TestRelationsConcurrent(t *testing.T) {
	cause, symptom := pair(nil)
	b := newBench(t, symptom, cause)
	var wg sync.WaitGroup
	run := func(f func(i int)) {
		wg.Go(func() {
			for i := range 200 {
				f(i)
			}
		})
	}
	run(func(i int) {
		k, d := fmt.Sprint(i%5), time.Duration(i)*time.Second
		b.take(d, lineHit(cause, 0, d, "slow", k), lineHit(symptom, 0, d+1, "lost", k, "p"))
	})
	run(func(i int) {
		for _, x := range b.e.Evaluate(at(time.Duration(i) * time.Second)) {
			if x.Cause != nil {
				assert.NotEmpty(t, x.Cause.Summary)
			}
		}
	})
	run(func(i int) {
		for _, x := range b.e.Episodes(at(time.Duration(i) * time.Second)) {
			if x.Cause != nil {
				assert.Equal(t, x.Cause.Summary, x.Annotations["cause_summary"])
				b.e.Timeline(x.Cause.Fingerprint, at(0))
			}
		}
	})
	run(func(int) {
		_, err := b.e.Snapshot()
		assert.NoError(t, err)
	})
	wg.Wait()
}
