package loki

import (
	"strconv"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// round is one pass over a time range. It may take long, with failures in between,
// and continues where it was.
type round struct {
	number   int
	began    int64     // wall clock: the watermark once the round is complete
	started  time.Time // monotonic clock
	fast     bool
	advances bool // the watermark: see the package
	deep     bool // reaches back as far as a slow round
	// known is the time up to which everything was read before, 0 if the rules have
	// changed: a new entry before it arrived late.
	known   int64
	cursors []cursor
}

// lowest returns the cursor that is farthest behind, nil if the round is complete.
func (r *round) lowest() *cursor {
	var low *cursor
	for i := range r.cursors {
		if c := &r.cursors[i]; !c.done() && (low == nil || c.at < low.at) {
			low = c
		}
	}
	return low
}

// next returns the round whose turn it is, or how long to wait. A fast round runs to
// its end before anything else; slow rounds fill the time between.
func (s *Source) next() (*round, time.Duration) {
	now := time.Now()
	slow := (s.slow != nil || !now.Before(s.slowDue)) && !now.Before(s.slowWait)
	switch {
	case s.fast != nil:
	case !now.Before(s.fastDue) && !(s.owed && slow):
		s.fast = s.newRound(true)
	case slow:
		if s.slow == nil {
			s.slow = s.newRound(false)
		}
		s.owed = false
		return s.slow, 0
	default:
		due := s.slowDue
		if s.slowWait.After(due) || s.slow != nil {
			due = s.slowWait
		}
		if s.fastDue.Before(due) {
			due = s.fastDue
		}
		return nil, due.Sub(now)
	}
	return s.fast, 0
}

func (s *Source) newRound(fast bool) *round {
	now := s.cfg.Clock()
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipTooOld(now)
	s.followClock(at)
	s.rounds++
	r := &round{number: s.rounds, began: at, started: time.Now(), fast: fast, known: s.covered}
	from := s.back(s.covered, at, s.cfg.FastOverlap)
	proving := s.back(s.watermark, at, s.cfg.Lateness)
	low := min(from, proving, s.back(s.deep, at, s.cfg.SlowOverlap))
	switch {
	case !fast || s.deepNext:
		from = low
	case at-s.watermark >= int64(max(watermarkEvery, s.rest)):
		from = min(from, proving)
	}
	r.advances, r.deep = from <= proving, from <= low
	if s.deepNext {
		r.known, s.deepNext = 0, false
	}
	to := at + s.ahead(at, r.deep)
	for _, q := range s.plan.queries {
		if at-from > int64(freshFor) {
			q = uncached(q, at)
		}
		r.cursors = append(r.cursors, cursor{logql: q, at: from, end: to})
	}
	if fast {
		s.active = true
	}
	return r
}

// freshFor is the maximum age of a time that Loki never caches as empty, whatever its
// max_cache_freshness_per_query.
const freshFor = 20 * time.Second

// uncachedRoom is the maximum length of the suffix of uncached, in bytes.
const uncachedRoom = 16

// uncached makes a query unique with a comment. With cache_results, Loki caches for
// which times a query with a filter found nothing, and the same query does not find
// entries that arrive late. Cache-Control: no-cache does not help: Loki 3.7 drops it
// when it splits a query.
func uncached(logql string, now int64) string {
	return logql + " # " + strconv.FormatInt(now/second, 10)
}

// back returns the start of a range that overlaps what was read before t. It is never
// before the floor of the memory.
func (s *Source) back(t, now int64, overlap time.Duration) int64 {
	return max(min(t, now)-int64(overlap), s.memory.floor)
}

// skipTooOld skips entries that are too old to be useful.
func (s *Source) skipTooOld(now time.Time) {
	oldest := now.Add(-maxBehind).UnixNano()
	if s.covered >= oldest {
		return
	}
	s.missed(lossGap, "entries before "+now.Add(-maxBehind).UTC().Format(time.RFC3339), now.UTC())
	s.covered, s.watermark, s.deep = oldest, max(s.watermark, oldest), max(s.deep, oldest)
	s.memory.raise(oldest)
}

// followClock lowers the floor if the clock was set back before it. Some entries may
// then be passed on twice; the alternative is to miss new ones.
func (s *Source) followClock(now int64) {
	lowest := now - int64(s.cfg.FastOverlap)
	if s.first < now {
		lowest = max(lowest, s.first)
	}
	if s.memory.floor > lowest {
		s.memory.floor = lowest
		s.status.Errors[errClock]++
	}
}

// ahead returns how far into the future a round reads. Fast rounds do so only while
// few entries are there: they would read them again each time.
func (s *Source) ahead(now int64, deep bool) int64 {
	n := s.memory.since(now + int64(s.cfg.FastOverlap))
	if n > s.memory.max/2 || !deep && n > s.cfg.Limit {
		return int64(s.cfg.FastOverlap)
	}
	return int64(maxAhead)
}

// settle records the progress of a round, and keeps the memory within its limit.
func (s *Source) settle(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := r.lowest(); r.fast && c != nil {
		s.covered = max(s.covered, min(c.at, r.began))
	}
	protect := s.covered - int64(s.cfg.FastOverlap)
	if s.fast != nil {
		if c := s.fast.lowest(); c != nil {
			protect = min(protect, c.at)
		}
	}
	if s.memory.fit(protect) {
		s.status.Errors[errMemory]++
	}
}

func (s *Source) finish(r *round) {
	now := time.Now()
	if r.fast {
		s.fast, s.owed = nil, true
		s.fastDue = r.started.Add(s.cfg.FastInterval)
	} else {
		s.slow = nil
	}
	if r.deep {
		// A slow round pauses for as long as it took, so that fast rounds get their turn.
		s.slowDue = r.started.Add(s.cfg.SlowInterval)
		if rested := now.Add(now.Sub(r.started)); rested.After(s.slowDue) {
			s.slowDue = rested
		}
	}
	if r.advances {
		s.rest = min(4*now.Sub(r.started), maxRest) // with many matches, advancing the watermark is expensive
	}
	s.cover(r)
	s.mark()
	if r.advances {
		s.pipe.AdvanceWatermark(s.name, time.Unix(0, r.began).UTC())
	}
}

// mark triggers a save of the state now and then, even if nothing matches.
func (s *Source) mark() {
	if now := time.Now(); now.Sub(s.marked) >= markEvery {
		s.marked = now
		s.pipe.Ingest(func(*rules.Set) []matcher.Hit { return nil }, func() {})
	}
}

// cover moves the positions. All entries of the round are in the memory.
func (s *Source) cover(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.number > s.latest {
		s.latest, s.covered = r.number, r.began
	}
	if r.fast {
		s.active = false
	}
	if r.advances {
		s.watermark = r.began
		s.status.Watermark = time.Unix(0, r.began).UTC()
	}
	if r.deep {
		s.deep = r.began
	}
	s.memory.raise(min(s.back(s.covered, r.began, s.cfg.FastOverlap),
		s.back(s.watermark, r.began, s.cfg.Lateness), s.back(s.deep, r.began, s.cfg.SlowOverlap)))
}
