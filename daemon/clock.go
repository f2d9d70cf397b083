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

// minSet is the smallest clock step that is noticed; a leap second is larger. Slewing
// the clock is not a step: the monotonic clock follows it.
const minSet = 500 * time.Millisecond

// clockSet returns by how much the wall clock was set, ahead or back, between two times
// of the same clock; 0 if one of them has no monotonic reading.
func clockSet(from, to time.Time) time.Duration {
	if d := times.Stepped(from, to); d.Abs() >= minSet {
		return d
	}
	return 0
}

// enter takes the checkpoint lock for reading and returns the time. If the clock was
// set, enter first moves all remembered times.
func (p *pipeline) enter() time.Time {
	for {
		p.lock.RLock()
		now := p.now()
		if clockSet(p.known, now) == 0 {
			return now
		}
		p.lock.RUnlock()
		p.follow()
	}
}

// follow moves all remembered times if the clock was set.
func (p *pipeline) follow() {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.now()
	d := clockSet(p.known, now)
	if d == 0 {
		return // another goroutine did it
	}
	p.known = now
	p.moveAll(d, now)
}

// moveAll moves all remembered times by d. The caller holds the checkpoint lock.
func (p *pipeline) moveAll(d time.Duration, now time.Time) {
	p.mu.Lock()
	p.set += d
	p.stamps.Set(d, now)
	for name, t := range p.watermarks {
		p.watermarks[name] = times.Earlier(t.Add(d), now.Round(0))
	}
	for name, lagging := range p.lagging {
		moved := slices.Clone(lagging) // others share it
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

// restored continues with a saved state. ahead is how far this clock is ahead of the one by which it was saved. If it was
// saved in the future, the clock was set back meanwhile. The restored times move with both.
func (p *pipeline) restored(saved time.Time, stamps times.Stamps, ahead time.Duration) {
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

// reordered is how much older a line of a stream may be than one that was read before it: several writers share a log.
const reordered = time.Second

// inlet is the pipeline as one source uses it.
type inlet struct {
	*pipeline
	source string
	own    bool // its lines are stamped by the clock of this machine
}

// of returns the pipeline for a source.
func (p *pipeline) of(src sources.Source) *inlet {
	return &inlet{p, src.Name(), src.Info().Local}
}

// date gives the hits of a stream, in the order in which they were read, the times that their timestamps mean.
//
// The lines of a log of this machine contradict its clock if they are older than what was read before: by more than
// reordered in their stream, or by more than the lateness in their source. Then the clock that stamped them is wrong, and
// the order in which they were read counts. The caller holds the checkpoint lock.
func (in *inlet) date(s *matcher.Stream, found []matcher.Hit, now time.Time) []matcher.Hit {
	in.mu.Lock()
	defer in.mu.Unlock()
	now = now.Round(0) // the times of lines have no monotonic reading
	proof := in.watermarks[in.source]
	for _, l := range in.lagging[in.source] {
		proof = times.Earlier(proof, l.ReadUpTo)
	}
	for i := range found {
		h := &found[i]
		if !in.own {
			h.Time = in.stamps.Other(h.Time, now)
			continue
		}
		if h.Time.After(now.Add(episodes.MaxFuture)) {
			in.engine.NoteFuture()
		}
		at, moved := in.stamps.Own(h.Time, now)
		replaced := moved == 0 && !at.Equal(h.Time)
		if at.Before(proof.Add(-rules.Lateness)) {
			at, moved, replaced = proof, 0, true
		}
		newest := s.Newest.Add(in.set)
		if at.Before(newest.Add(-reordered)) || replaced && !at.After(newest) {
			at, moved = newest.Add(1), 0
		}
		h.Time, h.Moved = at, moved
		s.Newest = times.Later(newest, h.Time).Add(-in.set)
	}
	return found
}

// Scan matches a block of whole lines and accepts the hits.
func (in *inlet) Scan(s *matcher.Stream, block []byte, commit func()) {
	in.take(s, commit, func(program *matcher.Program, buf *matcher.Buffer, s *matcher.Stream, now time.Time) []matcher.Hit {
		return in.date(s, program.ScanInto(buf, s, block, now), now)
	})
}

// Match does the same for one record.
func (in *inlet) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	in.take(s, commit, func(program *matcher.Program, buf *matcher.Buffer, s *matcher.Stream, now time.Time) []matcher.Hit {
		return in.date(s, program.MatchInto(buf, s, rec), now)
	})
}

// Flush emits the pending partial line of the stream.
func (in *inlet) Flush(s *matcher.Stream) {
	in.take(s, nil, func(program *matcher.Program, buf *matcher.Buffer, s *matcher.Stream, now time.Time) []matcher.Hit {
		return in.date(s, program.FlushInto(buf, s, now), now)
	})
}
