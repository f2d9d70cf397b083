package times

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A clock shows 0:00 at 0:00, 1:00 at 0:30 and 0:40 at 0:40: it was set ahead by half an hour and put right.
func TestStamps(t *testing.T) {
	at := func(minutes float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(minutes * float64(time.Minute)))
	}
	var s Stamps
	f := func(stamp, now, own, other float64) {
		t.Helper()
		got, _ := s.OwnTime(at(stamp), at(now))
		require.Equal(t, at(own), got)
		require.Equal(t, at(other), s.OtherTime(at(stamp), at(now)))
	}
	f(10, 20, 10, 10)
	f(25, 20, 20, 25) // nothing was written later than now
	s.Set(30*time.Minute, at(60))
	f(60.1, 60.2, 60.1, 60.1)
	f(29, 60.2, 59, 59)           // written before the step, read after it
	f(31, 61, 61, 61)             // no time of this clock, so that of one that was not set
	f(59.995, 61, 59.995, 59.995) // written between the step and when it was noticed
	s.Set(-30*time.Minute, at(40))
	f(40.5, 41, 40.5, 40.5)
	f(69, 41, 39, 39) // of the half hour
	f(29, 41, 29, 29) // before it
	f(39.99, 41, 39.99, 39.99)
	f(72, 41, 41, 72) // nothing explains it

	s = Stamps{}
	s.Set(-time.Hour, at(60)) // it showed 2:00
	got, moved := s.OwnTime(at(120.5), at(60.1))
	require.Equal(t, at(60.1), got, "written after the last save")
	require.Equal(t, at(60.1).Sub(at(120.5)), moved)
	for range 100 {
		s.Set(time.Second, at(61))
	}
	require.Len(t, s.Periods, maxPeriods)
}
