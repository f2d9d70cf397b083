package discover

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

// Constants of what lasts.
const (
	// lastsLong is how long the same must be said to be stuck.
	lastsLong = 10 * time.Minute
	// mostSilence ends what is said: rules hold it for resolved then.
	mostSilence = 15 * time.Minute
	// lastsOften is how often the same must be said where lines state no times.
	lastsOften = 10
	// mostAbout bounds what is told apart at the same time, per pattern.
	mostAbout = 16
)

// again remembers for how long the same was said of the same object, again and
// again: hundred clusters that wait for a minute each are no complaint, one that
// waits for an hour is.
type again struct {
	recent  []saying // at most mostAbout, in no order
	longest time.Duration
	most    int // times, of sayings without times
}

// saying is what was said of one object.
type saying struct {
	about       uint64
	first, last time.Time
	count       int
}

// add takes a line about something; a zero time is none.
func (a *again) add(about uint64, at time.Time) {
	k := slices.IndexFunc(a.recent, func(s saying) bool { return s.about == about })
	if k < 0 {
		if k = a.room(at); k < 0 {
			return
		}
		a.recent[k] = saying{about: about, first: at, last: at}
	}
	s := &a.recent[k]
	if silence := at.Sub(s.last); silence > mostSilence || silence < -mostSilence {
		s.first, s.last, s.count = at, at, 0
	}
	s.count++
	if at.Before(s.first) {
		s.first = at
	}
	if at.After(s.last) {
		s.last = at
	}
	a.most = max(a.most, s.count)
	a.longest = max(a.longest, s.last.Sub(s.first))
}

// room returns a place for another object, -1 if there is none: those that are
// followed are followed to their end, however many others there are.
func (a *again) room(at time.Time) int {
	if len(a.recent) < mostAbout {
		a.recent = append(a.recent, saying{})
		return len(a.recent) - 1
	}
	return slices.IndexFunc(a.recent, func(s saying) bool { return at.Sub(s.last) > mostSilence })
}

// lasts tells whether something is stuck.
func (p *pattern) lasts() bool {
	return p.again.longest >= lastsLong || p.first.IsZero() && p.again.most >= lastsOften
}

// idle tells whether a pattern only waits, and not for long.
func (p *pattern) idle() bool {
	return p.idling == p.count && !p.lasts()
}

// passes tells whether a pattern usually ends by itself.
func (p *pattern) passes() bool {
	switch j := p.judgement; {
	case j.patience&passing != 0:
		return true
	case p.lasts():
		return false
	default:
		return j.patience&retries != 0 || j.patience&waits != 0 && j.weight == 0
	}
}

// waited tells whether something was waited for, and for long.
func (p *pattern) waited() bool {
	return p.judgement.patience&waits != 0 && p.judgement.weight < ordinary && p.lasts()
}

// weight is how serious the words are: what does not come for long has failed.
func (p *pattern) weight() weight {
	if p.waited() {
		return max(p.judgement.weight, ordinary)
	}
	return p.judgement.weight
}

// aboutKeys are fields that say what a line is about. Others vary: ids, times and
// numbers of attempts.
var aboutKeys = []string{"namespace", "name", "key", "object", "node", "pod", "cluster", "machine", "volume", "application"}

// about is the same for what the same stream says of the same object.
func (r *Reader) about(line string, said *Reading, stream int) uint64 {
	h := fnv.New64a()
	write := func(text string) { _, _ = h.Write([]byte(text)); _, _ = h.Write([]byte{0}) } // never fails
	write(strconv.Itoa(stream))
	write(said.Message)
	write(said.Error)
	r.reset(line)
	for _, key := range aboutKeys {
		if v, ok := r.fields.Lookup(key); ok {
			write(string(v))
		}
	}
	return h.Sum64()
}
