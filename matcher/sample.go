package matcher

import (
	"bytes"
	_ "embed" // embeds the text of the sample
	"slices"
	"strings"
	"sync"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/prefilter"
)

// sample holds typical lines of controllers, or lines that were read. The prefilter searches for texts that are rare in
// the sample. The sample affects speed, never results.
type sample struct {
	lines []byte
	lower []byte          // the lines in lower case
	grams [1 << 16]uint16 // number of occurrences of sequences of four letters, by hash
	short sync.Map        // number of occurrences of texts of up to three letters, as they were needed
}

// sampleText holds the lines of the sample. TestSample generates the file.
//
//go:embed sample.txt
var sampleText []byte

// ordinary returns the sample that is used before any line was read. It is always the same.
var ordinary = sync.OnceValue(func() *sample { return newSample(len(sampleText)) })

func newSample(size int) *sample { return newLineSample(sampleText[:size:size]) }

func newLineSample(lines []byte) *sample {
	s := &sample{lines: lines, lower: bytes.ToLower(lines)}
	for i := 0; i+4 <= len(s.lower); i++ {
		s.grams[gramHash(s.lower[i:])]++
	}
	return s
}

// usualLines returns the lines of the sample that Tune adds to the lines that were read.
func (s *sample) usualLines() []byte { return s.lines[:len(s.lines)/2] }

func gramHash[T []byte | string](b T) uint32 {
	return (uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24) * 0x9E3779B1 >> 16
}

// searchCost estimates the cost of searching for a text from its length and its frequency in the sample. It uses the
// frequency of the text's rarest four letters.
func (s *sample) searchCost(t literals.Text) float64 {
	lower := strings.ToLower(t.Text)
	n := len(t.Text)
	if n < 4 {
		return 1000/float64(n+1) + float64(s.countShort(lower))
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

func (s *sample) countShort(lower string) int {
	if n, known := s.short.Load(lower); known {
		return n.(int)
	}
	n := bytes.Count(s.lower, []byte(lower))
	s.short.Store(lower, n)
	return n
}

// chooseRarest returns the required texts that occur least in the sample. It returns none if one of them is too short
// to search for.
func (s *sample) chooseRarest(c *literals.Cond) literals.Choice {
	out := c.Choose(s.searchCost)
	if slices.ContainsFunc(out.Texts, func(t literals.Text) bool { return len(t.Text) < prefilter.MinText }) {
		return literals.Choice{}
	}
	return out
}

// chooseAgain chooses the texts of a part again. A part with decided set keeps its texts. A part that has texts never
// loses them, because otherwise it would have to be tried on every line.
func (s *sample) chooseAgain(pt *part) literals.Choice {
	if pt.decided || len(pt.texts.Texts) == 0 {
		return pt.texts
	}
	if out := s.chooseRarest(pt.condition.Required()); len(out.Texts) > 0 {
		return out
	}
	return pt.texts
}
