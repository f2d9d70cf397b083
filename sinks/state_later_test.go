package sinks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A receiver that keeps a list gets every episode of a key, in order, over an outage and a
// restart. Episodes beyond a bound are counted.
func TestStateEachEpisode(t *testing.T) {
	cfg := StateConfig{ResolvedFor: DefaultResolvedFor, EachEpisode: true}
	s := NewState(cfg)
	s.Notify(eps(firing(1, 0)), t0)
	s.Accepted(s.Due(t0, 10), t0)
	s.Notify(eps(resolved(1, 0, 1), resolved(1, 2, 3), firing(1, 4), resolved(1, 4, 5), firing(1, 6)), t0)
	s = reborn(t, s, t0)
	s.Notify(eps(firing(1, 6)), t0)
	var got []string
	for due := s.Due(t0, 10); len(due) > 0; due = s.Due(t0, 10) {
		got = append(got, fmt.Sprint(words(due), " ", due[0].Episode.StartsAt.Sub(t0).Nanoseconds()))
		s.Accepted(due, t0)
	}
	require.Equal(t, []string{
		"1 resolved new 0", "1 firing new 2", "1 resolved new 2", "1 firing new 4", "1 resolved new 4", "1 firing new 6",
	}, got)

	for i := range time.Duration(maxLater + 3) {
		s.Notify(eps(resolved(1, 6+10*i, 8+10*i), firing(1, 16+10*i)), t0)
	}
	require.Equal(t, int64(3), s.Stats().Evicted)
}
