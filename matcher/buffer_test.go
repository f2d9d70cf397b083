package matcher

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Hits in a buffer equal hits in their own memory, call after call, and repeats allocate
// nothing.
func TestBuffer(t *testing.T) {
	set := benchSignatures(t, 60)
	p := benchProgram(t, set)
	lines := benchLines(set, 256<<10, 0.9)
	var buf Buffer
	own, borrowed, other := NewStream(manager, StreamOptions{}), NewStream(manager, StreamOptions{}), NewStream(manager, StreamOptions{})
	withoutIDs := NewBufferWithoutIDs()
	for _, b := range split(string(lines), rand.New(rand.NewPCG(1, 2))) {
		want := p.Scan(own, []byte(b), arrival)
		require.Equal(t, want, p.ScanInto(&buf, borrowed, []byte(b), arrival))
		for i := range want {
			require.NotZero(t, want[i].ID)
			want[i].ID = 0
		}
		require.Equal(t, want, p.ScanInto(withoutIDs, other, []byte(b), arrival))
	}
	require.Equal(t, own.Counters(), borrowed.Counters())
	for _, rec := range []string{"an ordinary line", set[1].text, ""} {
		r := Record{Text: []byte(rec)}
		require.Equal(t, p.Match(own, r), p.MatchInto(&buf, borrowed, r))
	}
}

// A buffer is bounded, and keeps nothing of the previous call.
func TestBufferIsBounded(t *testing.T) {
	p := compile(t, ruleOf(t, "A", everything(t).Steps[0].Matcher, "a"))
	s := NewStream(manager, StreamOptions{})
	var buf Buffer
	flood := []byte(strings.Repeat(strings.Repeat("x", 1000)+"\n", 5*maxHits))
	require.Len(t, p.ScanInto(&buf, s, flood, arrival), 5*maxHits)
	require.LessOrEqual(t, cap(buf.text), maxChunk)
	require.Len(t, p.ScanInto(&buf, s, []byte("a\n"), arrival), 1)
	require.LessOrEqual(t, cap(buf.hits), maxHits)
	require.Empty(t, p.ScanInto(&buf, s, nil, arrival))
	for _, h := range buf.hits[:cap(buf.hits)] {
		require.Equal(t, Hit{}, h)
	}
}

func BenchmarkStorm(b *testing.B) {
	for _, wants := range []bool{false, true} {
		b.Run(fmt.Sprintf("captures=%v", wants), func(b *testing.B) {
			set := benchSignatures(b, 100)
			if wants {
				set[0] = set[1]
			}
			lines := benchLines(set, 8<<20, 0.9)
			blocks := wholeLines(lines, 256<<10)
			p, s := benchProgram(b, set), NewStream(manager, StreamOptions{})
			var buf Buffer
			b.SetBytes(int64(len(lines)))
			b.ReportAllocs()
			hits := 0
			for b.Loop() {
				for _, block := range blocks {
					hits += len(p.ScanInto(&buf, s, block, arrival))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(hits), "ns/hit")
		})
	}
}
