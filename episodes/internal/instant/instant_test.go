package instant

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimesAreClamped(t *testing.T) {
	f := func(at time.Time, want int64) {
		t.Helper()
		require.Equal(t, want, Of(at))
	}
	f(time.Time{}, 0)
	f(time.Unix(-1, 0), 0)
	f(time.Unix(0, 7), 7)
	f(time.Date(2200, 12, 31, 23, 59, 59, 999, time.UTC), 7289654399*int64(time.Second)+999)
	f(time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64/2)
	f(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64/2)
	at := time.Date(2026, 1, 1, 1, 2, 3, 4, time.FixedZone("", 3600))
	require.Equal(t, at.UTC(), Time(Of(at)))
}

func TestCorrected(t *testing.T) {
	f := func(s Step, at, now, want int64) {
		t.Helper()
		require.Equal(t, want, s.Corrected(at, now))
	}
	f(Step{}, 5, 100, 5)
	ahead := Set(1000, 1100) // it showed 100
	f(ahead, 100, 1100, 1100)
	f(ahead, 40, 1100, 1040)
	f(ahead, 101, 1100, 101) // the clock never showed it before: it is a late line
	f(ahead, 1100, 1100, 1100)

	back := Set(-1000, 100) // it showed 1100
	f(back, 1100, 100, 100)
	f(back, 1090, 105, 90)
	f(back, 1101, 105, 1101) // ahead of the old clock, too
	f(back, 80, 105, 80)
	f(back, 1090, 1095, 1090) // the clock has reached it again

	// After a snapshot at 1100 s lines were written for up to a minute.
	const s = int64(time.Second)
	killed := SetBack(1100*s, 100*s)
	f(killed, 1130*s, 100*s, 100*s)
	f(killed, 1161*s, 100*s, 1161*s)
	f(killed, 500*s, 100*s, 500*s) // of a node whose clock is ahead
}
