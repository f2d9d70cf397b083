package sinks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

// promisedEnded is the number of ended alerts in docs/reliability.md.
const promisedEnded = 10_000

// More than promisedEnded ended episodes that nobody accepted are saved with their texts.
func TestManyEndedAreSaved(t *testing.T) {
	const many = promisedEnded + 1000
	cfg := testConfig()
	s := NewState(cfg)
	for i := range many {
		ep := resolved(i+1, time.Duration(i), time.Duration(i+1))
		ep.Annotations = map[string]string{"line": fmt.Sprintf("%d %s", i+1, strings.Repeat("x", 512))}
		s.Notify([]episodes.Episode{ep}, t0)
	}
	var pack EndedPack
	for range 2 {
		saved := s.Export(t0)
		require.Len(t, saved.Ended, many)
		blocks, err := pack.Encode(saved.Ended)
		require.NoError(t, err)
		size := 0
		for _, b := range blocks {
			size += len(b)
		}
		require.Less(t, size, 2<<20)
		s = NewState(cfg)
		s.Import(SavedState{Marks: saved.Marks, Ended: UnpackEnded(blocks)}, t0)
	}
	due := s.Due(t0, many+1)
	require.Len(t, due, many)
	for _, m := range due {
		require.True(t, strings.HasPrefix(m.Episode.Annotations["line"], fmt.Sprintf("%d xxx", uint64(m.Episode.Fingerprint))))
	}
	require.Zero(t, s.Stats().Evicted)
}
