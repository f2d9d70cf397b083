package sentinel

import "math/bits"

// Lengths of intervals. Controllers that retry with growing pauses are silent for up to
// seventeen minutes, which is three intervals, or rarely four.
const (
	slotSeconds = 300
	maxGap      = 4 // greatest distance between two successive intervals with a line
)

// slots is the set of those of the last 64 intervals of five minutes that contain a line. The
// zero value is empty. Intervals can be added and merged in any order and repeatedly.
type slots struct {
	Newest int32  `json:"n"` // number of the newest interval, counted from 1970
	Bits   uint64 `json:"b"` // bit k is set if interval Newest-k contains a line
}

// add adds the interval that contains time t.
func (s *slots) add(t int64) { s.merge(slots{int32(t / slotSeconds), 1}) }

// merge adds the intervals of another set.
func (s *slots) merge(o slots) {
	switch d := int64(o.Newest) - int64(s.Newest); {
	case o.Bits == 0:
	case s.Bits == 0 || d >= 64:
		*s = o
	case d >= 0:
		s.Newest, s.Bits = o.Newest, s.Bits<<d|o.Bits
	case d > -64:
		s.Bits |= o.Bits << -d
	}
}

// chain is the newest repetition without a long gap.
type chain struct {
	count int // number of intervals with a line
	span  int // number of intervals from the first to the last
}

// newest returns the chain that ends with the newest interval.
func (s slots) newest() (c chain) {
	for rest := s.Bits; rest != 0; rest &= rest - 1 {
		k := bits.TrailingZeros64(rest)
		if k-c.span > maxGap {
			break
		}
		c.count, c.span = c.count+1, k
	}
	return c
}

// began returns the start of the first interval of the newest chain, in Unix seconds.
func (s slots) began() int64 { return (int64(s.Newest) - int64(s.newest().span)) * slotSeconds }

func (c chain) atLeast(count, span int) bool { return c.count >= count && c.span >= span }
