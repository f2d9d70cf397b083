package marks

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// letters are the bytes of an alphabet for tests: its codes are their positions.
const letters = "\x00aAbB1-_.=:\" "

func alphabet() *Alphabet {
	code := func(c byte) uint8 { return uint8(max(0, strings.IndexByte(letters, c))) }
	return NewAlphabet(code, func(c byte) (kinds uint8) {
		for k, list := range []string{"AB", "ab", "1", "aAbB1-_", "\x00", "=", ":", "\""} {
			if strings.IndexByte(list, c) >= 0 {
				kinds |= 1 << k
			}
		}
		return kinds
	})
}

// random returns a text of at most n bytes, 1 at least. Some are not ASCII.
func random(r *rand.Rand, n int) string {
	list := letters
	if r.IntN(3) == 0 {
		list = "aAb1-_"
	}
	if r.IntN(4) == 0 {
		list += "\xc3\xff"
	}
	b := make([]byte, 1+r.IntN(n))
	for i := range b {
		b[i] = list[r.IntN(len(list))]
		if r.IntN(20) == 0 {
			b[i] = ' '
		}
	}
	return string(b)
}

func randomPatterns(r *rand.Rand) (all []Pattern) {
	for range 1 + r.IntN(60) {
		p := Pattern{Any, Any, Any, Any, Any, Any, Any, Any}
		for j := range p {
			if r.IntN(2) == 0 {
				p[j] = 1 << r.IntN(len(letters))
				p[j] |= 1 << r.IntN(len(letters))
			}
		}
		all = append(all, p)
	}
	return all
}

// TestVectorCode: it computes what the plain code does, whatever was read before.
func TestVectorCode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	a := alphabet()
	var text Text
	for range 2000 {
		s := random(r, 400)
		kinds, ascii := text.Read(a, s)
		var plain Text
		var seen [2][8]uint64
		plain.n = len(s)
		copy(plain.codes[:], text.codes[:block])
		plainClassify(a, &plain, s, &seen)
		require.Equal(t, plain.codes, text.codes)
		require.Equal(t, plain.kinds, text.kinds)
		require.Equal(t, fold(&seen[0]), kinds)
		require.Equal(t, fold(&seen[1]) < 0x80, ascii)
		w := NewWindows(a, randomPatterns(r), r.IntN(8), letters, 2)
		places := text.Find(w, 0)
		want := make([]uint64, len(places))
		plainLook(w, &plain.codes[block-w.before], len(want), &want[0])
		require.Equal(t, want, places)
	}
}

// TestFindMissesNothing: each place that matches a pattern is marked.
func TestFindMissesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a := alphabet()
	var text Text
	found, places := 0, 0
	for range 1000 {
		s := random(r, 200)
		patterns, before := randomPatterns(r), r.IntN(8)
		text.Read(a, s)
		marks := text.Find(NewWindows(a, patterns, before, letters, 1), r.IntN(2))
		code := func(i int) Set {
			switch {
			case i < 0:
				return 1 << Edge
			case i >= len(s) || s[i] >= 0x80:
				return 1
			}
			return 1 << a.codes[s[i]]
		}
		for i := range len(s) {
			is := false
			for _, p := range patterns {
				all := true
				for j := range p {
					all = all && p[j]&code(i-before+j) != 0
				}
				is = is || all
			}
			marked := marks[i/64]>>(i%64)&1 != 0
			require.True(t, marked || !is, "%q at %d", s, i)
			places++
			if marked {
				found++
			}
		}
	}
	require.Less(t, found, places)
}

// TestWords compares the words, and what they consist of, with a simple search.
func TestWords(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := alphabet()
	var text Text
	total := 0
	for range 2000 {
		s := random(r, 400)
		text.Read(a, s)
		var want, got [][2]int
		from := 0
		for i := 0; i <= len(s); i++ {
			if i < len(s) && strings.IndexByte("aAbB1-_", s[i]) >= 0 {
				continue
			}
			if i-from >= Long {
				want = append(want, [2]int{from, i})
			}
			from = i + 1
		}
		require.True(t, text.Words(func(from, to int) bool {
			got = append(got, [2]int{from, to})
			word := s[from:to]
			count := func(list string) (n int) {
				for i := range word {
					if strings.IndexByte(list, word[i]) >= 0 {
						n++
					}
				}
				return n
			}
			require.Equal(t, Counts{Upper: count("AB"), Lower: count("ab"), Digit: count("1")}, text.Count(from, to))
			if len(word) <= MaxOrder {
				require.Equal(t, orderOf(word), text.Order(from, to))
			}
			return true
		}))
		require.Equal(t, want, got, s)
		total += len(got)
	}
	require.Greater(t, total, 1000)
	text.Read(a, strings.Repeat("a", MaxText))
	require.False(t, text.Words(func(from, to int) bool {
		require.Equal(t, MaxText, to-from)
		return false
	}))
}

func orderOf(word string) (o Order) {
	for i := range len(word) - 1 {
		switch word[i : i+2] {
		case "aA", "aB", "bA", "bB":
			o.Capitals++
		case "a1", "b1", "1a", "1b":
			o.Shifts++
		}
	}
	for part := range strings.FieldsFuncSeq(word, func(c rune) bool { return c == '-' || c == '_' }) {
		o.Run = o.Run || len(part) >= MinRun
	}
	return o
}

// TestClear: nothing of a text stays.
func TestClear(t *testing.T) {
	var text, empty Text
	text.Read(alphabet(), strings.Repeat("a1_", 100))
	text.Clear()
	copy(empty.codes[:], text.codes[:block])
	require.Equal(t, empty, text)
}
