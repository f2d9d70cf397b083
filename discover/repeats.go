package discover

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

// Limits of repetition.
const (
	// stuckAfter is how long a message must repeat to indicate that something is stuck.
	stuckAfter = 10 * time.Minute
	// maxSilence ends a run: rules consider the failure resolved after that.
	maxSilence = 15 * time.Minute
	// stuckCount is how often a message without timestamps must repeat instead.
	stuckCount = 10
	// maxObjects bounds the objects tracked at the same time, per pattern.
	maxObjects = 16
)

// repeats measures for how long a message repeats for the same object: one
// hundred clusters that wait for a minute each are harmless, one that waits for an
// hour is not.
type repeats struct {
	byObject []run // at most maxObjects, unordered
	longest  time.Duration
	maxCount int // longest run of lines without timestamps
}

// run is an uninterrupted repetition for one object.
type run struct {
	object      uint64 // hash
	first, last time.Time
	count       int
}

// add counts a line about an object; at is zero for a line without a timestamp.
func (a *repeats) add(object uint64, at time.Time) {
	k := slices.IndexFunc(a.byObject, func(s run) bool { return s.object == object })
	if k < 0 {
		if k = a.slot(at); k < 0 {
			return
		}
		a.byObject[k] = run{object: object, first: at, last: at}
	}
	s := &a.byObject[k]
	if silence := at.Sub(s.last); silence > maxSilence || silence < -maxSilence {
		s.first, s.last, s.count = at, at, 0
	}
	s.count++
	if at.Before(s.first) {
		s.first = at
	}
	if at.After(s.last) {
		s.last = at
	}
	a.maxCount = max(a.maxCount, s.count)
	a.longest = max(a.longest, s.last.Sub(s.first))
}

// slot returns the index for a new run, -1 if there is none: active runs are
// tracked to their end, however many other objects there are.
func (a *repeats) slot(at time.Time) int {
	if len(a.byObject) < maxObjects {
		a.byObject = append(a.byObject, run{})
		return len(a.byObject) - 1
	}
	return slices.IndexFunc(a.byObject, func(s run) bool { return at.Sub(s.last) > maxSilence })
}

// stuck reports whether the message repeats for so long that something is stuck.
func (p *pattern) stuck() bool {
	return p.repeats.longest >= stuckAfter || p.first.IsZero() && p.repeats.maxCount >= stuckCount
}

// idle reports whether a pattern only waits, and not for long.
func (p *pattern) idle() bool {
	return p.idling == p.count && !p.stuck()
}

// passes reports whether a complaint usually ends by itself.
func (p *pattern) passes() bool {
	switch j := p.judgement; {
	case p.transient():
		return true
	case p.stuck():
		return false
	default:
		return j.patience&retries != 0 || j.patience&waits != 0 && j.weight == 0
	}
}

// transient reports whether a complaint ends by itself, however often it occurs.
func (p *pattern) transient() bool { return p.judgement.patience&transient != 0 || p.hungUp() }

// hungUp reports whether all that failed is that the other side closed the connection before
// it had read everything. Most of these are clients that left.
func (p *pattern) hungUp() bool {
	n := len(p.words)
	return n >= 2 && p.words[n-2] == "broken" && p.words[n-1] == "pipe"
}

// waitedLong reports whether the complaint is that a wait takes long.
func (p *pattern) waitedLong() bool {
	return p.judgement.patience&waits != 0 && p.judgement.weight < ordinary && p.stuck()
}

// weight is the severity of the words: a long wait is a failure.
func (p *pattern) weight() weight {
	if p.waitedLong() {
		return max(p.judgement.weight, ordinary)
	}
	return p.judgement.weight
}

// objectKeys are fields that identify the object of a line. Others vary: ids, times
// and numbers of attempts.
var objectKeys = []string{"namespace", "name", "key", "object", "node", "pod", "cluster", "machine", "volume", "application"}

// objectHash identifies a message about one object in one stream.
func (r *lineReader) objectHash(line string, reading *parsedLine, stream int) uint64 {
	h := fnv.New64a()
	write := func(text string) { _, _ = h.Write([]byte(text)); _, _ = h.Write([]byte{0}) } // never fails
	write(strconv.Itoa(stream))
	write(reading.Message)
	write(reading.Error)
	r.reset(line)
	for _, key := range objectKeys {
		if v, ok := r.fields.Lookup(key); ok {
			write(string(v))
		}
	}
	return h.Sum64()
}
