package prefilter

import (
	"math/rand/v2"
	"testing"

	"crowsnest/internal/literals"

	"github.com/stretchr/testify/require"
)

// TestQuickAgainstNaive looks for random texts of all lengths in random lines, with and
// without a sample.
func TestQuickAgainstNaive(t *testing.T) {
	require.Nil(t, Quick(nil, nil).Append(nil, []byte("abc"), new(Marks)))
	r := rand.New(rand.NewPCG(7, 8))
	letters := "aAbB@`{[ \xe9"
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	hits := 0
	for round := range 120 {
		var texts []literals.Text
		for range 1 + r.IntN(30) {
			text := literals.Text{Text: random(MinText + round%12*2 + r.IntN(24))}
			if r.IntN(2) == 0 {
				text = literals.Text{Text: lower(text.Text), Fold: true}
			}
			texts = append(texts, text)
		}
		f := Quick(texts, []byte(random(round%2*40_000)))
		for n := range 200 {
			line := random(n % 45)
			for range r.IntN(3) {
				line += texts[r.IntN(len(texts))].Text + random(r.IntN(9))
			}
			buf := []byte(line + texts[0].Text)[:len(line)] // bytes after the line must not matter
			want := naive(texts, buf)
			hits += len(want)
			require.Equal(t, want, found(f, buf), "%q in %q", texts, line)
		}
	}
	require.Greater(t, hits, 5000)
}
