package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A leader without a standby reports it after ten minutes, and the end of it at once.
func TestNoStandby(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(start, blindAfter)
	since := start.Add(time.Minute)
	a.Update(since.Add(lonelyAfter-time.Second), State{NoStandbySince: since})
	require.Zero(t, a.Counts()[alertNoStandby])
	a.Update(since.Add(lonelyAfter), State{NoStandbySince: since})
	require.EqualValues(t, 1, a.Counts()[alertNoStandby])
	a.Update(since.Add(lonelyAfter+time.Second), State{})
	require.Zero(t, a.Counts()[alertNoStandby])
}
