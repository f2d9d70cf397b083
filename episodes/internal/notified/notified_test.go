package notified

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpans(t *testing.T) {
	s := New()
	s.Add(1, Span{From: 10, To: 20, Concluded: 25})
	s.Add(1, Span{From: 30, To: 40, Concluded: 45})
	f := func(alert uint64, from, to int64, want bool) {
		t.Helper()
		require.Equal(t, want, s.Overlap(alert, from, to))
	}
	f(1, 0, 10, false) // the ends are exclusive
	f(1, 0, 11, true)
	f(1, 19, 30, true)
	f(1, 20, 30, false)
	f(1, 12, 15, true)
	f(2, 0, 100, false)

	require.Equal(t, []Span{{10, 20, 25}}, s.ConcludedAt(1, 25, 20))
	require.Empty(t, s.ConcludedAt(1, 25, 19), "it ended later")
	require.Empty(t, s.ConcludedAt(1, 26, 20), "it was concluded before")

	s.Move(100)
	f(1, 12, 15, false)
	f(1, 112, 115, true)
	require.Len(t, s.ConcludedAt(1, 25, 120), 1, "the time of the conclusion stays")
}

// The newest spans of the newest alerts stay.
func TestSpansAreBounded(t *testing.T) {
	s := New()
	for i := range int64(2 * maxSpans) {
		s.Add(1, Span{From: 10 * i, To: 10*i + 5})
	}
	require.False(t, s.Overlap(1, 0, 10*maxSpans))
	require.True(t, s.Overlap(1, 0, 10*maxSpans+1))
	for i := range uint64(maxAlerts) {
		if i == maxAlerts/2 {
			s.Move(0) // keeps the order
		}
		s.Add(2+i, Span{From: 1, To: 2})
	}
	require.False(t, s.Overlap(1, 0, 1<<60))
	require.True(t, s.Overlap(2, 0, 9))
}
