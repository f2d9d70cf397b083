package window

import (
	"slices"

	"crowsnest/rules"
)

// lineTimes are the times of the counted lines of a key, at most maxLines of its rule.
// Dropped times stay in memory until they are a quarter of it: dropping then moves few
// bytes per line, also in a window of thousands of lines.
type lineTimes struct {
	all     Times
	dropped int // at the start of all
}

// maxLines is how many lines are kept for a key: those of the largest window that a rule
// without `count` shows, or as many as `count` needs.
func maxLines(r *rules.Rule) int { return max(rules.MaxHits, r.Count) }

// live returns the times that are not dropped. They are valid until the next change.
func (l *lineTimes) live() Times { return l.all[l.dropped:] }

// insert adds t and returns its index in live. The newest limit times are kept; the index
// is -1 if t is older than those.
func (l *lineTimes) insert(t int64, limit int) int {
	i := l.live().Since(t)
	if len(l.live()) >= limit {
		if i == 0 {
			return -1
		}
		l.dropFirst(1)
		i--
	}
	l.all = slices.Insert(l.all, l.dropped+i, t)
	return i
}

// after drops the times that are not newer than t.
func (l *lineTimes) after(t int64) { l.dropFirst(l.live().Since(t)) }

// dropFirst drops the first n times.
func (l *lineTimes) dropFirst(n int) {
	if l.dropped += n; 4*l.dropped < len(l.all) {
		return
	}
	if rest := l.live(); cap(l.all) > 2*rules.MaxHits && cap(l.all) > 4*len(rest) {
		l.all = slices.Clone(rest)
	} else {
		l.all = append(l.all[:0], rest...)
	}
	l.dropped = 0
}

// timesPerHit is how many times beyond rules.MaxHits count as much as a line: a time takes a
// few bytes, a line with its values some hundred.
const timesPerHit = 16

// size is the size of the times in a quota.Pool.
func (l *lineTimes) size() int {
	n := len(l.live())
	return min(n, rules.MaxHits) + (max(n, rules.MaxHits)-rules.MaxHits+timesPerHit-1)/timesPerHit
}
