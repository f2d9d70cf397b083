package window

import (
	"encoding/binary"
	"slices"
	"sort"

	"crowsnest/rules"
)

// Times is a sorted list of times of lines that are only counted. Each takes a few bytes, even
// in a window of thousands of lines.
type Times []int64

// IndexAfter returns the index of the first time after t. In nearly all calls it is at one end
// of the list.
func (ts Times) IndexAfter(t int64) int {
	switch n := len(ts); {
	case n == 0 || ts[0] > t:
		return 0
	case ts[n-1] <= t:
		return n
	}
	return sort.Search(len(ts), func(i int) bool { return ts[i] > t })
}

// indexesBetween returns the indexes of the times between two times, both exclusive.
func (ts Times) indexesBetween(lo, hi int64) (from, to int) {
	if hi == Forever {
		return ts.IndexAfter(lo), len(ts)
	}
	return ts.IndexAfter(lo), ts.IndexAfter(hi - 1)
}

// maxTriggers bounds the triggers that are remembered until the engine decides about an
// episode. If there are more, every second one is dropped, except the first and the newest.
const maxTriggers = 64

// AddTrigger adds the time of a trigger about which the engine has not decided yet.
func (ts *Times) AddTrigger(t int64) {
	i := ts.IndexAfter(t)
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

// Move adds delta to every time.
func (ts Times) Move(delta int64) {
	for i := range ts {
		ts[i] += delta
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

// UnpackTimes is the inverse of Pack. If the bytes are damaged, it returns the times before the
// damage.
func UnpackTimes(b []byte) Times {
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
