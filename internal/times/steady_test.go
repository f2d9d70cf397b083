package times_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/times"
	"crowsnest/test/setclock"
)

func TestSteady(t *testing.T) {
	var clock setclock.Clock
	steady := times.NewSteady(clock.Now())
	began := clock.Now()
	clock.Set(-time.Hour)
	now := clock.Now()
	require.Equal(t, -time.Hour, steady.SetAhead(now).Round(time.Second))
	require.WithinDuration(t, began.Round(0).Add(now.Sub(began)), steady.Now(now), time.Microsecond)
}
