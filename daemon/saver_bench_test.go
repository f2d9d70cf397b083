package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/episodes"
)

// BenchmarkCheckpoint measures a checkpoint beside a history of 10,000 episodes in which
// some more ended. 1,000 an hour are one in five checkpoints.
func BenchmarkCheckpoint(b *testing.B) {
	for _, n := range []int{-1, 0, 1, 100} {
		name := fmt.Sprintf("ended=%d", n)
		if n < 0 {
			name = "without history"
		}
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			s := &saver{dir: dir, pipe: localPipeline(episodes.Config{}, time.Now), log: zerolog.Nop()}
			now := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
			next := 0
			if n >= 0 {
				s.endedHistory = newPast(config.Storage{Path: dir, HistoryFor: 30 * 24 * time.Hour, HistoryEntries: 10_000, HistoryMiB: 16}, zerolog.Nop())
				for ; next < 10_000; next++ {
					s.endedHistory.Add(endedAt(next))
				}
				require.NoError(b, s.endedHistory.save(now))
			}
			for b.Loop() {
				for range max(0, n) {
					s.endedHistory.Add(endedAt(next))
					next++
				}
				s.save()
			}
			require.Zero(b, s.unsavedSince())
		})
	}
}
