package window

import (
	"slices"

	"crowsnest/rules"
)

// lineTimes are the times of the counted lines of a key, at most maxLines of its rule. Dropped
// times stay in memory until they are a quarter of it, so that dropping moves few bytes per
// line even in a window of thousands of lines.
type lineTimes struct {
	all     Times
	dropped int // number of dropped times at the start of all
}

// maxLines returns how many lines are kept for a key: the largest window that is shown, or
// `count` if that is larger.
func maxLines(r *rules.Rule) int { return max(rules.MaxHits, r.Count) }

// liveTimes returns the times that are not dropped. They are valid until the next change.
func (l *lineTimes) liveTimes() Times { return l.all[l.dropped:] }

// insert adds t and returns its index among the live times. It keeps the newest limit times.
// The index is -1 if t is older than those.
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

// dropUpTo drops the times up to t, including t.
func (l *lineTimes) dropUpTo(t int64) { l.dropFirst(l.liveTimes().IndexAfter(t)) }

// dropFirst drops the first n times.
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

// timesPerHit is how many times beyond rules.MaxHits count like one line. A time takes a few
// bytes; a line with its values takes some hundred.
const timesPerHit = 16

// size is the size of the times in the unit of quota.Pool.
func (l *lineTimes) size() int {
	n := len(l.liveTimes())
	return min(n, rules.MaxHits) + (max(n, rules.MaxHits)-rules.MaxHits+timesPerHit-1)/timesPerHit
}
