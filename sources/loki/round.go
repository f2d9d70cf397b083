package loki

import (
	"strconv"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// round is one pass over a time range. After a failure it continues where it stopped.
type round struct {
	number   int
	began    int64     // wall clock time of the start; it becomes the watermark when the round is complete
	started  time.Time // time of the start by the monotonic clock
	fast     bool
	advances bool // whether the round advances the watermark (see the package comment)
	deep     bool // whether the round reaches back as far as a slow round
	// known is the time up to which everything was read before the round. It is 0 if the rules
	// have changed. A new entry from before this time arrived late.
	known   int64
	cursors []cursor
}

// lowestCursor returns the cursor with the lowest time, or nil if the round is complete.
func (r *round) lowestCursor() *cursor {
	var low *cursor
	for i := range r.cursors {
		if c := &r.cursors[i]; !c.isDone() && (low == nil || c.at < low.at) {
			low = c
		}
	}
	return low
}

// nextRound returns the round to continue or start, or the time to wait for it. A fast round
// runs to its end before anything else. Slow rounds use the time between fast rounds.
func (s *Source) nextRound() (*round, time.Duration) {
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
	from := s.overlapStart(s.covered, at, s.cfg.FastOverlap)
	proving := s.overlapStart(s.watermark, at, s.cfg.Lateness)
	low := min(from, proving, s.overlapStart(s.deep, at, s.cfg.SlowOverlap))
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
	to := at + s.readAhead(at, r.deep)
	for _, q := range s.plan.queries {
		if at-from > int64(freshFor) {
			q = addComment(q, at)
		}
		r.cursors = append(r.cursors, cursor{logql: q, at: from, end: to})
	}
	if fast {
		s.active = true
	}
	return r
}

// freshFor is an age up to which Loki does not cache that a time has no entries, even if
// max_cache_freshness_per_query is small.
const freshFor = 20 * time.Second

// uncachedRoom is the largest length of the comment that addComment adds, in bytes.
const uncachedRoom = 16

// addComment makes a query unique by adding a comment. With cache_results, Loki caches the
// times for which a query with a filter found nothing. A repetition of the same query then
// misses entries that arrived in the meantime. Cache-Control: no-cache does not help, because
// Loki 3.7 drops it when it splits a query.
func addComment(logql string, now int64) string {
	return logql + " # " + strconv.FormatInt(now/second, 10)
}

// overlapStart returns the start of a range that reaches overlap back from t, because entries
// may arrive late. Everything before t was read. The start is never before the floor of the
// memory.
func (s *Source) overlapStart(t, now int64, overlap time.Duration) int64 {
	return max(min(t, now)-int64(overlap), s.memory.floor)
}

// skipTooOld skips entries that are older than maxBehind, and counts them as lost.
func (s *Source) skipTooOld(now time.Time) {
	oldest := now.Add(-maxBehind).UnixNano()
	if s.covered >= oldest {
		return
	}
	s.recordMissed(lossGap, "entries before "+now.Add(-maxBehind).UTC().Format(time.RFC3339), now.UTC())
	s.covered, s.watermark, s.deep = oldest, max(s.watermark, oldest), max(s.deep, oldest)
	s.memory.raiseFloor(oldest)
}

// followClock lowers the floor of the memory if the clock was set back to a time before the
// floor. Some entries may then be passed on twice, but otherwise new entries would be missed.
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

// readAhead returns how far into the future a round reads. Fast rounds read far ahead only
// while few entries have such times, because each round reads these entries again.
func (s *Source) readAhead(now int64, deep bool) int64 {
	n := s.memory.countSince(now + int64(s.cfg.FastOverlap))
	if n > s.memory.max/2 || !deep && n > s.cfg.Limit {
		return int64(s.cfg.FastOverlap)
	}
	return int64(maxAhead)
}

// recordProgress records the progress of a round, and keeps the memory within its limit.
func (s *Source) recordProgress(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := r.lowestCursor(); r.fast && c != nil {
		s.covered = max(s.covered, min(c.at, r.began))
	}
	protect := s.covered - int64(s.cfg.FastOverlap)
	if s.fast != nil {
		if c := s.fast.lowestCursor(); c != nil {
			protect = min(protect, c.at)
		}
	}
	if s.memory.shrinkToLimit(protect) {
		s.status.Errors[errMemory]++
	}
}

func (s *Source) finishRound(r *round) {
	now := time.Now()
	if r.fast {
		s.fast, s.owed = nil, true
		s.fastDue = r.started.Add(s.cfg.FastInterval)
	} else {
		s.slow = nil
	}
	if r.deep {
		// A slow round is followed by a pause of at least the same length, so that fast rounds
		// get their turn.
		s.slowDue = r.started.Add(s.cfg.SlowInterval)
		if rested := now.Add(now.Sub(r.started)); rested.After(s.slowDue) {
			s.slowDue = rested
		}
	}
	if r.advances {
		// with many matches, a round that reaches back far enough to advance the watermark is
		// expensive
		s.rest = min(4*now.Sub(r.started), maxRest)
	}
	s.movePositions(r)
	s.triggerSave()
	if r.advances {
		s.pipe.AdvanceWatermark(s.name, time.Unix(0, r.began).UTC())
	}
}

// triggerSave saves the state from time to time even if nothing matches.
func (s *Source) triggerSave() {
	if now := time.Now(); now.Sub(s.marked) >= markEvery {
		s.marked = now
		s.pipe.Ingest(func(*rules.Set) []matcher.Hit { return nil }, func() {})
	}
}

// movePositions moves the saved positions to the end of the round. The memory has all entries
// of the round.
func (s *Source) movePositions(r *round) {
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
	s.memory.raiseFloor(min(s.overlapStart(s.covered, r.began, s.cfg.FastOverlap),
		s.overlapStart(s.watermark, r.began, s.cfg.Lateness), s.overlapStart(s.deep, r.began, s.cfg.SlowOverlap)))
}
