package setclock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNow(t *testing.T) {
	var c Clock
	began := c.Now()
	for _, d := range []time.Duration{time.Hour, -2 * time.Hour, time.Second, 100 * 24 * time.Hour} {
		before := c.Ahead()
		c.Set(d)
		require.Equal(t, before+d, c.Ahead())
		from := time.Now().Add(c.Ahead()).Round(0)
		now := c.Now()
		require.False(t, now.Round(0).Before(from), "the wall clock leaps")
		require.False(t, now.Round(0).After(time.Now().Add(c.Ahead()).Round(0)))
		require.GreaterOrEqual(t, now.Sub(began), time.Duration(0))
		require.LessOrEqual(t, now.Sub(began), time.Since(began), "nothing has passed")
	}
}

func TestNowInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		began := c.Now()
		require.True(t, began.Round(0).Equal(time.Now()))
		c.Set(-time.Hour)
		<-time.After(1500 * time.Millisecond)
		now := c.Now()
		require.True(t, now.Round(0).Equal(time.Now().Add(-time.Hour)), "the wall clock leaps")
		require.Equal(t, 1500*time.Millisecond, now.Sub(began), "and elapsed time does not")
	})
}
