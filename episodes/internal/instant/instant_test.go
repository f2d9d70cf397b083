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
		require.Equal(t, want, FromTime(at))
	}
	f(time.Time{}, 0)
	f(time.Unix(-1, 0), 0)
	f(time.Unix(0, 7), 7)
	f(time.Date(2200, 12, 31, 23, 59, 59, 999, time.UTC), 7289654399*int64(time.Second)+999)
	f(time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64/2)
	f(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64/2)
	at := time.Date(2026, 1, 1, 1, 2, 3, 4, time.FixedZone("", 3600))
	require.Equal(t, at.UTC(), ToTime(FromTime(at)))
}
