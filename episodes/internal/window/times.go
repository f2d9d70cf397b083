package window

import (
	"encoding/binary"
	"slices"
	"sort"

	"crowsnest/rules"
)

// Times is a sorted list of the times of lines that are only counted: a window of thousands
// of lines costs a few bytes per line.
type Times []int64

// Since returns the index of the first time newer than t. It is nearly always an end of the
// list.
func (ts Times) Since(t int64) int {
	switch n := len(ts); {
	case n == 0 || ts[0] > t:
		return 0
	case ts[n-1] <= t:
		return n
	}
	return sort.Search(len(ts), func(i int) bool { return ts[i] > t })
}

// between returns the indexes of the times between two times, both exclusive.
func (ts Times) between(lo, hi int64) (from, to int) {
	if hi == Forever {
		return ts.Since(lo), len(ts)
	}
	return ts.Since(lo), ts.Since(hi - 1)
}

// maxTriggers bounds the triggers that are remembered until an episode is decided. If there
// are more, every second one is dropped, except for the first and the newest.
const maxTriggers = 64

// AddTrigger adds the time of a trigger to those that are not decided yet.
func (ts *Times) AddTrigger(t int64) {
	i := ts.Since(t)
	if i > 0 && (*ts)[i-1] == t {
		return
	}
	*ts = slices.Insert(*ts, i, t)
	if len(*ts) <= maxTriggers {
		return
	}
	kept := (*ts)[:1]
	for k := 2; k < len(*ts)-1; k += 2 {
		kept = append(kept, (*ts)[k])
	}
	*ts = append(kept, (*ts)[len(*ts)-1])
}

// Move adds by to every time.
func (ts Times) Move(by int64) {
	for i := range ts {
		ts[i] += by
	}
}

// Pack encodes the first time, and each further one as the difference to its predecessor,
// as varints.
func (ts Times) Pack() []byte {
	if len(ts) == 0 {
		return nil
	}
	b := binary.AppendVarint(make([]byte, 0, 10+4*len(ts)), ts[0])
	for i := 1; i < len(ts); i++ {
		b = binary.AppendUvarint(b, uint64(ts[i]-ts[i-1]))
	}
	return b
}

// Unpack is the inverse of Pack. It returns the times before the first error.
func Unpack(b []byte) Times {
	t, n := binary.Varint(b)
	if n <= 0 {
		return nil
	}
	ts := Times{t}
	for b = b[n:]; len(b) > 0 && len(ts) < rules.MaxCount; b = b[n:] {
		var d uint64
		if d, n = binary.Uvarint(b); n <= 0 || t+int64(d) < t {
			break
		}
		t += int64(d)
		ts = append(ts, t)
	}
	return ts
}
