package sinks

import (
	"fmt"
	"testing"
	"time"

	"crowsnest/episodes"
)

// BenchmarkStateWithEnded is one round of a receiver to which one alert of ten open ones is due,
// with alerts that ended in the last half hour.
func BenchmarkStateWithEnded(b *testing.B) {
	for _, ended := range []int{0, 1000, 5000} {
		b.Run(fmt.Sprint(ended), func(b *testing.B) {
			s, now := NewState(testConfig()), t0
			for i := range ended + 10 {
				s.Notify([]episodes.Episode{firing(i, 0)}, now)
			}
			s.Accepted(s.Due(now, 1<<20), now)
			now = now.Add(time.Minute)
			for i := range ended {
				s.Notify([]episodes.Episode{resolved(i, 0, time.Minute)}, now)
			}
			s.Accepted(s.Due(now, 1<<20), now)
			now = now.Add(15 * time.Second)
			b.ResetTimer()
			for i := range b.N {
				ep := firing(ended, 0)
				ep.Count = int64(i)
				s.Notify([]episodes.Episode{ep}, now)
				s.Accepted(s.Due(now, 256), now)
				s.Next(now)
			}
		})
	}
}
