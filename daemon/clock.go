package daemon

import "time"

// minSet is the smallest clock step that is noticed; a leap second is larger. Slewing
// the clock is not a step: the monotonic clock follows it.
const minSet = 500 * time.Millisecond

// clockSet returns by how much the wall clock was set, ahead or back, between two times
// of the same clock; 0 if one of them has no monotonic reading.
func clockSet(from, to time.Time) time.Duration {
	if d := to.Round(0).Sub(from.Round(0)) - to.Sub(from); d.Abs() >= minSet {
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

// moveAll moves all remembered times by d, unless other machines stamp lines: their
// clocks were not set. The caller holds the checkpoint lock.
func (p *pipeline) moveAll(d time.Duration, now time.Time) {
	p.mu.Lock()
	if !p.foreign {
		p.set += d
		for name, t := range p.watermarks {
			if t = t.Add(d); t.After(now) {
				t = now
			}
			p.watermarks[name] = t.Round(0)
		}
		p.engine.ClockSet(d, now)
		if sh := p.shadow.Load(); sh != nil {
			sh.Engine().ClockSet(d, now)
			sh.ClockSet(d)
		}
		p.changed.Store(true)
	}
	p.mu.Unlock()
	if p.onSet != nil {
		p.onSet(d, now)
	}
}

// restored moves the restored times if they were saved in the future: the clock was
// set back meanwhile.
func (p *pipeline) restored(saved time.Time) {
	p.lock.Lock()
	defer p.lock.Unlock()
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.foreign && !saved.IsZero() && saved.Round(0).Sub(now.Round(0)) >= minSet {
		p.engine.ClockSetBack(saved, now)
	}
}
