package daemon

import (
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// minSet is the smallest clock step that is noticed. It is below one second, so that a leap second is noticed. Slewing
// the clock is not a step, because the monotonic clock follows it.
const minSet = 500 * time.Millisecond

// clockSet returns how far the wall clock was set forward or back between two readings of the same clock. It returns 0
// if a reading has no monotonic time.
func clockSet(before, after time.Time) time.Duration {
	if d := times.ClockStep(before, after); d.Abs() >= minSet {
		return d
	}
	return 0
}

// enter locks the checkpoint lock for reading and returns the current time. If the clock was set, enter first moves all
// remembered times.
func (p *pipeline) enter() time.Time {
	for {
		p.lock.RLock()
		now := p.now()
		if clockSet(p.known, now) == 0 {
			return now
		}
		p.lock.RUnlock()
		p.followClock()
	}
}

func (p *pipeline) followClock() {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.now()
	d := clockSet(p.known, now)
	if d == 0 {
		return // another goroutine has already moved the times
	}
	p.known = now
	p.moveAll(d, now)
}

// moveAll moves all remembered times by d after the clock was set. The caller must hold the checkpoint lock.
func (p *pipeline) moveAll(d time.Duration, now time.Time) {
	p.mu.Lock()
	p.set += d
	p.stamps.Set(d, now)
	for name, t := range p.watermarks {
		p.watermarks[name] = times.Min(t.Add(d), now.Round(0))
	}
	for name, lagging := range p.lagging {
		moved := slices.Clone(lagging) // a copy, because callers share the slice
		for i := range moved {
			moved[i].ReadUpTo = moved[i].ReadUpTo.Add(d)
		}
		p.lagging[name] = moved
	}
	p.engine.ClockSet(d, now)
	p.changed.Store(true)
	p.mu.Unlock()
	if p.onSet != nil {
		p.onSet(d, now)
	}
}

// continueFrom continues with a saved state. ahead is how far this clock is ahead of the clock of the process that
// saved the state. If saved is in the future, the clock was set back after the save. The restored times are moved by
// the sum of both differences.
func (p *pipeline) continueFrom(saved time.Time, stamps times.Stamps, ahead time.Duration) {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stamps = stamps
	if back := now.Round(0).Sub(saved.Round(0).Add(ahead)); back <= -minSet {
		ahead += back
	}
	if !saved.IsZero() && ahead != 0 {
		p.stamps.Set(ahead, now)
		p.engine.ClockSet(ahead, now)
	}
}

// reordered is how much older than the previous line a line may be. Lines of a log can be slightly out of order when
// several processes write it.
const reordered = time.Second

// sourcePipeline is the pipeline from the point of view of one source.
type sourcePipeline struct {
	*pipeline
	source string
	own    bool // whether the clock of this machine produces the timestamps of the lines
}

func (p *pipeline) inletFor(src sources.Source) *sourcePipeline {
	return &sourcePipeline{p, src.Name(), src.Info().Local}
}

// adjustTimes corrects the times of the hits of a stream. The hits are in the order in which their lines were read.
//
// A line of a log of this machine can contradict the clock in two ways. It is older than an earlier line of its stream
// by more than reordered, or older than the watermark of its source by more than rules.Lateness. The clock was then
// wrong when it produced the timestamp, so the hit gets a time that fits the order of reading. The caller must hold the
// checkpoint lock.
func (in *sourcePipeline) adjustTimes(s *matcher.Stream, found []matcher.Hit, now time.Time) []matcher.Hit {
	in.mu.Lock()
	defer in.mu.Unlock()
	now = now.Round(0) // the times of lines have no monotonic reading
	proof := in.watermarks[in.source]
	for _, l := range in.lagging[in.source] {
		proof = times.Min(proof, l.ReadUpTo)
	}
	for i := range found {
		h := &found[i]
		if !in.own {
			h.Time = in.stamps.OtherTime(h.Time, now)
			continue
		}
		if h.Time.After(now.Add(episodes.MaxFuture)) {
			in.engine.NoteFuture()
		}
		at, moved := in.stamps.OwnTime(h.Time, now)
		replaced := moved == 0 && !at.Equal(h.Time)
		if at.Before(proof.Add(-rules.Lateness)) {
			at, moved, replaced = proof, 0, true
		}
		newest := s.Newest.Add(in.set)
		if at.Before(newest.Add(-reordered)) || replaced && !at.After(newest) {
			at, moved = newest.Add(1), 0
		}
		h.Time, h.ClockShift = at, moved
		s.Newest = times.Max(newest, h.Time).Add(-in.set)
	}
	return found
}

// Scan matches a block of whole lines and accepts the hits.
func (in *sourcePipeline) Scan(s *matcher.Stream, block []byte, commit func()) {
	in.matchBlock(s, commit, func(program *matcher.Program, buf *matcher.Buffer, now time.Time) []matcher.Hit {
		return program.ScanInto(buf, s, block, now)
	})
}

// Match matches one record and accepts the hits.
func (in *sourcePipeline) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	in.matchBlock(s, commit, func(program *matcher.Program, buf *matcher.Buffer, _ time.Time) []matcher.Hit {
		return program.MatchInto(buf, s, rec)
	})
}

// Flush matches the last line of the stream, which has no newline yet.
func (in *sourcePipeline) Flush(s *matcher.Stream) {
	in.matchBlock(s, nil, func(program *matcher.Program, buf *matcher.Buffer, now time.Time) []matcher.Hit {
		return program.FlushInto(buf, s, now)
	})
}
