package matcher

import (
	"bytes"
	_ "embed" // the sample
	"strings"
	"sync"

	"crowsnest/internal/literals"
)

// sample holds typical lines of controllers, or lines of the streams that are read. The
// prefilter searches for texts that are rare in it. It affects speed, never results.
type sample struct {
	lines []byte
	lower []byte          // the same in lower case
	grams [1 << 16]uint16 // how often four letters occur, by hash

	mu     sync.Mutex
	counts map[string]int // how often texts of fewer letters occur, once that was asked
}

// sampleText are the lines of the sample; TestSample writes them.
//
//go:embed sample.txt
var sampleText []byte

// ordinary is the sample that programs use. It is always the same.
var ordinary = sync.OnceValue(func() *sample { return newSample(len(sampleText)) })

// newSample returns a sample of so many bytes of the usual lines.
func newSample(size int) *sample { return sampleOf(sampleText[:size:size]) }

// sampleOf returns a sample of lines, which it keeps.
func sampleOf(lines []byte) *sample {
	s := &sample{lines: lines, lower: bytes.ToLower(lines), counts: map[string]int{}}
	for i := 0; i+4 <= len(s.lower); i++ {
		s.grams[gramHash(s.lower[i:])]++
	}
	return s
}

// usual returns the lines that Tune adds to the lines that were read.
func (s *sample) usual() []byte { return s.lines[:len(s.lines)/2] }

func gramHash[T []byte | string](b T) uint32 {
	return (uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24) * 0x9E3779B1 >> 16
}

// cost estimates the cost of searching for a text: how often it occurs in the sample,
// estimated by its rarest four letters, and how short it is.
func (s *sample) cost(t literals.Text) float64 {
	lower := strings.ToLower(t.Text)
	n := len(t.Text)
	if n < 4 {
		return 1000/float64(n+1) + float64(s.count(lower))
	}
	least := uint16(1<<16 - 1)
	for i := 0; i+4 <= len(lower); i++ {
		least = min(least, s.grams[gramHash(lower[i:])])
	}
	cost := float64(least) + 8/float64(n)
	switch {
	case n < 5:
		cost += 20
	case n < 8:
		cost += 4
	}
	return cost
}

// count returns how often a text occurs.
func (s *sample) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.counts[text]
	if !known {
		n = bytes.Count(s.lower, []byte(text))
		s.counts[text] = n
	}
	return n
}
