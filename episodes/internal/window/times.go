package window

import (
	"encoding/binary"
	"slices"
	"sort"

	"crowsnest/rules"
)

// Times is a sorted list of the times of lines. A window of thousands of lines needs only a few bytes for each.
type Times []int64

// IndexAfter returns the index of the first time after t. It first checks the ends of the list, where the index nearly
// always is.
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

// maxTriggers is the maximum number of triggers that are remembered until the engine decides about an episode. If there
// are more, every second one is dropped, except the first and the newest.
const maxTriggers = 64

// AddTrigger adds the time of a trigger of an episode about which the engine has not decided yet.
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

// Pack encodes the first time, and for each later time the difference to its predecessor, as varints.
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

// lineTimes are the times of the counted lines of a key. Dropped times stay in memory until they are a quarter of the
// list. Dropping times therefore moves few bytes per line, even in a window of thousands of lines.
type lineTimes struct {
	all     Times
	dropped int // number of dropped times at the start of all
}

// maxLines returns the maximum number of lines that are kept for a key. This is rules.MaxHits or `count`, whichever is
// larger.
func maxLines(r *rules.Rule) int { return max(rules.MaxHits, r.Count) }

// liveTimes returns the times that are not dropped. The slice is valid until the next change.
func (l *lineTimes) liveTimes() Times { return l.all[l.dropped:] }

// insert adds t and returns its index among the live times. It keeps the newest limit times. The index is -1 if t is
// older than all of these.
func (l *lineTimes) insert(t int64, limit int) int {
	i := l.liveTimes().IndexAfter(t)
	if len(l.liveTimes()) >= limit {
		if i == 0 {
			return -1
		}
		l.dropFirst(1)
		i--
	}
	l.all = slices.Insert(l.all, l.dropped+i, t)
	return i
}

func (l *lineTimes) dropUpTo(t int64) { l.dropFirst(l.liveTimes().IndexAfter(t)) }

func (l *lineTimes) dropFirst(n int) {
	if l.dropped += n; 4*l.dropped < len(l.all) {
		return
	}
	if rest := l.liveTimes(); cap(l.all) > 2*rules.MaxHits && cap(l.all) > 4*len(rest) {
		l.all = slices.Clone(rest)
	} else {
		l.all = append(l.all[:0], rest...)
	}
	l.dropped = 0
}

// timesPerHit is the number of times that add as much to the size as one hit. A time takes a few bytes; a line with its
// values takes some hundred. Times within the first rules.MaxHits count as one each.
const timesPerHit = 16

// size returns the size of the times in the unit of quota.Pool.
func (l *lineTimes) size() int {
	n := len(l.liveTimes())
	return min(n, rules.MaxHits) + (max(n, rules.MaxHits)-rules.MaxHits+timesPerHit-1)/timesPerHit
}
