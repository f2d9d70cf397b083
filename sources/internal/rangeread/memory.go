package rangeread

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
)

// Limits of the number of keys in the memory. A key takes about 20 bytes in memory and 8 in the saved state.
const (
	maxKeys      = 1 << 20
	maxSavedKeys = 1 << 17
)

const second = int64(1e9)

// memory holds the hashes (keys) of all entries after its floor that were passed on. The floor is a time, and no entry
// from before the floor is read. Therefore each entry is passed on only once, however often it is read. The keys are in
// buckets, by the second of the entries' timestamps.
//
// It is not safe for concurrent use.
type memory struct {
	max     int
	floor   int64 // time before which no entry is read, in ns since 1970
	buckets map[int64]map[uint64]struct{}
	n       int
	forgot  int64 // number of keys that were dropped although their entries may be read again
}

func newMemory(floor int64, most int) *memory {
	return &memory{max: most, floor: floor, buckets: map[int64]map[uint64]struct{}{}}
}

// bucketIndex returns ts in seconds, rounded down even if it is negative.
func bucketIndex(ts int64) int64 {
	b := ts / second
	if ts%second < 0 {
		b--
	}
	return b
}

func (m *memory) has(ts int64, key uint64) bool {
	_, ok := m.buckets[bucketIndex(ts)][key]
	return ok
}

func (m *memory) add(ts int64, key uint64) {
	at := bucketIndex(ts)
	b := m.buckets[at]
	if b == nil {
		b = map[uint64]struct{}{}
		m.buckets[at] = b
	}
	before := len(b)
	b[key] = struct{}{}
	m.n += len(b) - before
}

func (m *memory) raiseFloor(floor int64) {
	if floor <= m.floor {
		return
	}
	m.floor = floor
	for at := range m.buckets {
		if at < bucketIndex(floor) {
			m.dropBucket(at)
		}
	}
}

func (m *memory) dropBucket(t int64) {
	m.n -= len(m.buckets[t])
	delete(m.buckets, t)
}

// shrinkToLimit drops the oldest keys and raises the floor, but not beyond protect. If that is not enough, it drops the
// keys farthest in the future. The entries of these keys are passed on again if they are read again. shrinkToLimit
// reports whether it dropped keys.
func (m *memory) shrinkToLimit(protect int64) bool {
	if m.n <= m.max {
		return false
	}
	order := slices.Sorted(maps.Keys(m.buckets))
	for m.n > m.max && len(order) > 0 {
		if end := (order[0] + 1) * second; end <= protect {
			m.dropBucket(order[0])
			m.floor = max(m.floor, end)
			order = order[1:]
			continue
		}
		last := order[len(order)-1]
		m.forgot += int64(len(m.buckets[last]))
		m.dropBucket(last)
		order = order[:len(order)-1]
	}
	return true
}

// countSince counts the keys of entries whose time is at least ts, with a resolution of one second.
func (m *memory) countSince(ts int64) int {
	n := 0
	for at, b := range m.buckets {
		if at >= bucketIndex(ts) {
			n += len(b)
		}
	}
	return n
}

// export encodes the newest keys, at most most, and returns the floor that belongs to these keys. A floor above protect
// would skip unread entries. In that case export returns protect.
func (m *memory) export(most int, protect int64) (keys []byte, floor int64) {
	floor = m.floor
	order := slices.Sorted(maps.Keys(m.buckets))
	n, first := 0, len(order)
	for first > 0 && n+len(m.buckets[order[first-1]]) <= most {
		first--
		n += len(m.buckets[order[first]])
	}
	if first > 0 {
		floor = max(floor, min(protect, order[first-1]*second+second))
	}
	keys = make([]byte, 0, 8*n+12*(len(order)-first))
	last := int64(0)
	for _, at := range order[first:] {
		keys = binary.AppendVarint(keys, at-last)
		keys = binary.AppendUvarint(keys, uint64(len(m.buckets[at])))
		for key := range m.buckets[at] {
			keys = binary.LittleEndian.AppendUint64(keys, key)
		}
		last = at
	}
	return keys, floor
}

var errKeys = errors.New("the keys of read entries are damaged")

// load decodes the keys that export returned. The memory must be empty.
func (m *memory) load(keys []byte) error {
	at := int64(0)
	for len(keys) > 0 {
		step, k := binary.Varint(keys)
		if k <= 0 || step > math.MaxInt64/second || step < math.MinInt64/second {
			return errKeys
		}
		keys = keys[k:]
		n, k := binary.Uvarint(keys)
		if k <= 0 || n == 0 || n > uint64(len(keys)-k)/8 {
			return errKeys
		}
		keys = keys[k:]
		at += step
		if at > math.MaxInt64/second || at < math.MinInt64/second || m.buckets[at] != nil {
			return errKeys
		}
		b := make(map[uint64]struct{}, n)
		for range n {
			b[binary.LittleEndian.Uint64(keys)] = struct{}{}
			keys = keys[8:]
		}
		m.buckets[at] = b
		m.n += len(b)
	}
	return nil
}
