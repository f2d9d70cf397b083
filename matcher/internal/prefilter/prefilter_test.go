package prefilter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crowsnest/internal/literals"

	"github.com/stretchr/testify/require"
)

// naive returns what Append should find, each text once and in order.
func naive(texts []literals.Text, buf []byte) []int32 {
	var out []int32
	for i, t := range texts {
		for at := 0; at+len(t.Text) <= len(buf); at++ {
			in := buf[at : at+len(t.Text)]
			if string(in) == t.Text || t.Fold && literals.EqualFold(in, t.Text) {
				out = append(out, int32(i))
				break
			}
		}
	}
	return out
}

func found(t *testing.T, s *Filter, buf []byte) []int32 {
	return sorted(t, s, buf, s.Append(nil, buf, new(Marks)))
}

// sorted returns each text once and in order. It checks their places.
func sorted(t *testing.T, s *Filter, buf []byte, found []FoundText) (out []int32) {
	for _, f := range found {
		text := s.texts[f.Text]
		in := buf[f.At:][:len(text.Text)]
		require.True(t, string(in) == text.Text || text.Fold && literals.EqualFold(in, text.Text), "%v at %d of %q", text, f.At, buf)
		out = append(out, f.Text)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestNil(t *testing.T) {
	require.Nil(t, New(nil, nil).Append(nil, []byte("abc"), new(Marks)))
}

// TestAgainstNaive looks for random texts in random lines, of every length around the width
// of a load, with and without a sample.
func TestAgainstNaive(t *testing.T) {
	againstNaive(t, 60, 400, func(round int) (least, spread int) { return MinText + round%3*3, 12 }, New)
}

// TestQuickAgainstNaive is the same for filters that are built without trials, with texts of
// all lengths.
func TestQuickAgainstNaive(t *testing.T) {
	require.Nil(t, NewQuick(nil, nil).Append(nil, []byte("abc"), new(Marks)))
	againstNaive(t, 120, 200, func(round int) (least, spread int) { return MinText + round%12*2, 24 }, NewQuick)
}

// againstNaive compares filters with a naive search. length returns the range of the lengths
// of the texts of a round.
func againstNaive(t *testing.T, rounds, lines int, length func(round int) (least, spread int), build func([]literals.Text, []byte) *Filter) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	letters := "aAbB@`{[ \xe9"
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	hits := 0
	for round := range rounds {
		var texts []literals.Text
		least, spread := length(round)
		for range 1 + r.IntN(30) {
			text := literals.Text{Text: random(least + r.IntN(spread))}
			if r.IntN(2) == 0 {
				text = literals.Text{Text: lower(text.Text), Fold: true}
			}
			texts = append(texts, text)
		}
		var sample []byte
		if round%2 == 0 {
			sample = []byte(random(40_000))
		}
		f := build(texts, sample)
		for n := range lines {
			line := random(n % 45)
			for range r.IntN(3) {
				line += texts[r.IntN(len(texts))].Text + random(r.IntN(9))
			}
			// Bytes after the line must not matter.
			buf := []byte(line + texts[0].Text)[:len(line)]
			want := naive(texts, buf)
			hits += len(want)
			require.Equal(t, want, found(t, f, buf), "%q in %q", texts, line)
		}
	}
	require.Greater(t, hits, 5000)
}

// TestAnchors: a few texts that are much shorter than the others are found by their rarest
// bytes, in both cases if case is ignored.
func TestAnchors(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	texts := []literals.Text{{Text: "503"}, {Text: "5xx"}, {Text: "e@x"}, {Text: "zk!", Fold: true}, {Text: "q_q_q", Fold: true}}
	for i := range 200 {
		texts = append(texts, literals.Text{Text: fmt.Sprintf("failure %x of thing %d", i*7919, i)})
	}
	var sample []byte
	for i := range 600 {
		sample = fmt.Appendf(sample, "%d reconciling controller=machine namespace=prod name=x%d\n", i, i%7)
	}
	s := newTiers(texts, sample)
	require.NotEmpty(t, s.anchors)
	pieces := []string{"503", "50", "3", "5xx", "E@x", "e@x", "ZK!", "zK!", "Q_q_Q", "q_q_", " failure 0 of thing 0", "x", " ", "5"}
	hits := 0
	for range 5000 {
		line := ""
		for range r.IntN(8) {
			line += pieces[r.IntN(len(pieces))]
		}
		buf := []byte(line + "503")[:len(line)]
		want := naive(texts, buf)
		hits += len(want)
		require.Equal(t, want, found(t, s, buf), line)
	}
	require.Greater(t, hits, 5000)
}

func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// TestEverySplit finds a text wherever it starts and ends in a line.
func TestEverySplit(t *testing.T) {
	for n := MinText; n < 24; n++ {
		text := "abcdefghijklmnopqrstuvwxyz"[:n]
		s := New([]literals.Text{{Text: text}}, nil)
		for before := range 40 {
			for after := range 10 {
				line := strings.Repeat("-", before) + text + strings.Repeat("-", after)
				require.Equal(t, []int32{0}, found(t, s, []byte(line)), line)
			}
		}
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("lost|lease", "leaderelection lost", true)
	f.Add("abc|abcdefghi|ABC", "xxABcDefghi", false)
	f.Fuzz(func(t *testing.T, list, line string, fold bool) {
		var texts []literals.Text
		for _, s := range strings.Split(list, "|") {
			if fold {
				s = lower(s)
			}
			if len(s) >= MinText {
				texts = append(texts, literals.Text{Text: s, Fold: fold})
			}
		}
		if len(texts) == 0 {
			return
		}
		for _, sample := range [][]byte{nil, bytes.Repeat([]byte(line+"\n"), 10)} {
			require.Equal(t, naive(texts, []byte(line)), found(t, New(texts, sample), []byte(line)))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var texts []literals.Text
			for i := range n {
				texts = append(texts, literals.Text{Text: fmt.Sprintf("failure %x of thing %d", i*7919, i)})
			}
			line := []byte(strings.Repeat(`"Reconciling" controller="machine" namespace="prod" name="x"`, 6))
			s := New(texts, bytes.Repeat(append(line, '\n'), 400))
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var dst []FoundText
			var m Marks
			for b.Loop() {
				dst = s.Append(dst[:0], line, &m)
			}
		})
	}
}
