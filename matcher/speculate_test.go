package matcher

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/rules"
)

// scanAhead scans up to `depth` blocks ahead of the stream and returns how many
// of them were scanned in vain.
func scanAhead(p *Program, s *Stream, blocks []string, depth int) (hits []Hit, again int) {
	hits = p.Scan(s, []byte(blocks[0]), arrival)
	for blocks = blocks[1:]; len(blocks) > 0; {
		n := min(depth, len(blocks))
		streams, found := make([]*Stream, n), make([][]Hit, n)
		var lines, bytes int64
		for i, b := range blocks[:n] {
			streams[i] = s.Speculate(lines, bytes)
			found[i] = p.Scan(streams[i], []byte(b), arrival)
			lines, bytes = lines+int64(strings.Count(b, "\n")), bytes+int64(len(b))
		}
		for i, b := range blocks[:n] {
			if !s.Commit(streams[i]) {
				found[i] = p.Scan(s, []byte(b), arrival)
				again++
			}
			hits = append(hits, found[i]...)
		}
		blocks = blocks[n:]
	}
	return append(hits, p.Flush(s, arrival)...), again
}

// Blocks that are scanned ahead have the same hits as blocks in sequence.
func TestAhead(t *testing.T) {
	sel := selectorOf(t, `{container="manager"}`)
	rapid.Check(t, func(t *rapid.T) {
		var set []*rules.Rule
		for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
			set = append(set, drawRule(t, []rules.Selector{sel}, i))
		}
		p, err := compileFor(&rules.Set{Rules: set}, newSample(1<<10))
		require.NoError(t, err)
		opt := StreamOptions{
			Format:   rapid.SampledFrom([]Format{FormatAuto, FormatCRI, FormatDocker, FormatText}).Draw(t, "format"),
			TextTime: rapid.Bool().Draw(t, "text time"),
		}
		input := drawInput(t, opt.Format)
		blocks := split(input, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "blocks"), 1)))
		one, many := NewStream(manager, opt), NewStream(manager, opt)
		want := scanAll(p, one, blocks)
		got, _ := scanAhead(p, many, blocks, rapid.IntRange(1, 4).Draw(t, "depth"))
		require.Equal(t, want, got)
		require.Equal(t, one.Counters(), many.Counters())
		require.Equal(t, one.last, many.last)
	})
}

func TestAheadOfWhat(t *testing.T) {
	p := compile(t, everything(t))
	cri := func(second int, tag, text string) string {
		return fmt.Sprintf("2025-11-20T10:00:%02dZ stdout %s %s\n", second, tag, text)
	}
	f := func(again int, blocks ...string) {
		t.Helper()
		s := NewStream(manager, StreamOptions{TextTime: true})
		_, got := scanAhead(p, s, blocks, 3)
		require.Equal(t, again, got)
	}
	f(0, cri(1, "F", "a"), cri(2, "F", "b"), cri(3, "F", "c"))
	f(1, cri(1, "P", "a"), cri(2, "F", "b"), cri(3, "F", "c"))                                // an open line
	f(2, cri(1, "F", "a"), cri(2, "P", "b"), cri(3, "P", "c"), cri(3, "F", "d"))              // twice
	f(1, "a\n", cri(2, "F", "b"), cri(3, "F", "c"))                                           // another envelope
	f(1, "I1120 10:00:00.000000 1 a.go:1] a\n", "\tat b\n", "I1120 10:00:01.0 1 a.go:1] c\n") // the time of the line before
	f(0, "a\n", "b\n", "c\n")                                                                 // there is no such time
	s := NewStream(manager, StreamOptions{})
	require.False(t, s.Commit(NewStream(manager, StreamOptions{})), "it is ahead of nothing")
	require.False(t, s.Commit(s.Speculate(1, 1)), "of another place")
}
