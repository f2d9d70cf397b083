package prefilter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crowsnest/internal/literals"

	"github.com/stretchr/testify/require"
)

// bucketed returns filters of the texts with each kind of buckets, whatever they cost.
func bucketed(texts []literals.Text, sample []byte) (out []*Filter) {
	a := newAssigner(texts, sample)
	for _, w := range ways {
		out = append(out, &Filter{texts: texts, buckets: a.assign(w.pairs, w.groups)})
	}
	return out
}

// TestVectorCode: it computes what the plain code does, whatever is behind the blocks.
func TestVectorCode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var texts []literals.Text
	for i := range 60 {
		texts = append(texts, literals.Text{Text: fmt.Sprint("text ", i*i, " of ", i, " and some more")[:3+i/3]})
	}
	marks := 0
	for _, f := range bucketed(texts, nil) {
		for blocks := 1; blocks < 12; blocks++ {
			var text []byte
			for len(text) <= blocks*blockSize {
				text = append(text, texts[r.IntN(len(texts))].Text...)
				text = append(text, "\n\n\n\n\xff"[r.IntN(5)])
			}
			if r.IntN(2) == 0 {
				text[r.IntN(len(text))] = 0
			}
			var one, other Marks
			n, least := hashPairs(&one.hashes[0], &text[0], blocks, &one.ends[0])
			m, plainLeast := plainHashPairs(&other.hashes[0], &text[0], blocks, &other.ends[0])
			require.Equal(t, other.ends[:m], one.ends[:n])
			require.Equal(t, hasZero(plainLeast), hasZero(least))
			require.Equal(t, other.hashes[:blocks*blockSize], one.hashes[:blocks*blockSize])
			n = f.buckets.look(&one.hashes[0], blocks, &one.places[0])
			m = f.buckets.plainLook(&other.hashes[0], blocks, &other.places[0])
			require.Equal(t, other.places[:m], one.places[:n])
			marks += n
		}
	}
	require.Greater(t, marks, 300)
}

// TestBucketsAgainstNaive looks for random texts in blocks of random lines, some longer than
// a chunk, at the end of the memory and before other bytes.
func TestBucketsAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	letters := "aAbB@`{[ \xe9\x00"
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for round := range 30 {
		var texts []literals.Text
		for range 1 + r.IntN(60) {
			text := literals.Text{Text: random(MinText + r.IntN(12))}
			if folded := lower(text.Text); len(folded) >= MinText && r.IntN(2) == 0 {
				text = literals.Text{Text: folded, Fold: true}
			}
			texts = append(texts, text)
		}
		filters := append(bucketed(texts, []byte(random(1000))), newTiers(texts, nil))
		for range 10 {
			var block []byte
			for range r.IntN(30) {
				block = append(block, random(r.IntN(9)*r.IntN(60))...)
				if r.IntN(3) == 0 {
					block = append(block, texts[r.IntN(len(texts))].Text...)
				}
				if r.IntN(90) == 0 {
					block = append(block, strings.Repeat("-", chunk-r.IntN(200))...)
				}
				block = append(block, '\n')
			}
			n := len(block) - min(r.IntN(2), len(block)) // perhaps without the last newline
			behind := append(block[:n:n], texts[0].Text+random(round)...)[:n]
			for _, f := range filters {
				checkLines(t, f, bytes.Clone(block[:n])[:n:n])
				checkLines(t, f, behind)
			}
		}
	}
}

// checkLines compares what a filter finds in a block with what is there.
func checkLines(t *testing.T, f *Filter, block []byte) {
	t.Helper()
	var m, own Marks
	var want [][]byte
	for line := range bytes.Lines(block) {
		want = append(want, bytes.TrimSuffix(line, []byte("\n")))
	}
	n, next := 0, 0
	f.Lines(&m, block, func(start, end int, may bool) {
		require.Less(t, n, len(want))
		require.Equal(t, next, start)
		line := block[start:end]
		require.Equal(t, string(want[n]), string(line))
		texts := naive(f.texts, line)
		require.True(t, may || len(texts) == 0, "%q in %q", f.texts, line)
		require.True(t, m.NUL || bytes.IndexByte(line, 0) < 0)
		got := sorted(t, f, line, f.Append(nil, line, &own))
		require.Equal(t, texts, got, "%q in %q", f.texts, line)
		if f.HasTexts() { // parts of any length from anywhere
			from := start + (n*7+len(block))%(len(line)+1)
			part := block[from:][:(n*5+len(block))%(end-from+1)]
			got := sorted(t, f, part, f.AppendWithin(nil, part, from, &m))
			require.Equal(t, naive(f.texts, part), got, "%q in %q", f.texts, part)
		}
		n, next = n+1, end+1
	})
	require.Len(t, want, n)
	require.Equal(t, bytes.IndexByte(block, 0) >= 0, m.NUL)
}

func FuzzLines(f *testing.F) {
	f.Add("lost|lease", "leaderelection lost\nlease\x00\n\n", true)
	f.Add("abc|abcdefghi|ABC", strings.Repeat("-", chunk-4)+"xxABcDefghi", false)
	f.Fuzz(func(t *testing.T, list, block string, fold bool) {
		var texts []literals.Text
		for _, s := range strings.Split(list, "|") {
			if fold {
				s = lower(s)
			}
			if len(s) >= MinText && !strings.Contains(s, "\n") {
				texts = append(texts, literals.Text{Text: s, Fold: fold})
			}
		}
		if len(texts) == 0 {
			return
		}
		for _, filter := range append(bucketed(texts, []byte(block)), newTiers(texts, nil)) {
			checkLines(t, filter, []byte(block))
		}
	})
}
