package daemon

import "time"

// leastSet is by how much the clock has to be set to be noticed: leap seconds
// are. A clock that is made to run faster or slower is not set, and takes the
// monotonic one along.
const leastSet = 500 * time.Millisecond

// clockSet returns by how much the wall clock was set between two times of the
// same clock, ahead or back. Without a monotonic reading in both that is not
// known, and 0.
func clockSet(from, to time.Time) time.Duration {
	if d := to.Round(0).Sub(from.Round(0)) - to.Sub(from); d.Abs() >= leastSet {
		return d
	}
	return 0
}

// enter takes the read lock of the cut and returns the time. The engine knows
// the clock of that time: if it was set, what the engine remembers was moved
// along before.
func (p *pipeline) enter() time.Time {
	for {
		p.cut.RLock()
		now := p.now()
		if clockSet(p.known, now) == 0 {
			return now
		}
		p.cut.RUnlock()
		p.follow()
	}
}

// follow moves everything that is remembered with a clock that was set.
func (p *pipeline) follow() {
	p.cut.Lock()
	defer p.cut.Unlock()
	now := p.now()
	d := clockSet(p.known, now)
	if d == 0 {
		return // another one did it
	}
	p.known = now
	p.moveAll(d, now)
}

// moveAll moves everything by d, unless lines bear the time of other clocks:
// those were not set. The caller holds the cut.
func (p *pipeline) moveAll(d time.Duration, now time.Time) {
	p.mu.Lock()
	if !p.foreign {
		p.set += d
		for name, t := range p.proved {
			if t = t.Add(d); t.After(now) {
				t = now
			}
			p.proved[name] = t.Round(0)
		}
		p.engine.ClockSet(d, now)
		p.changed.Store(true)
	}
	p.mu.Unlock()
	if p.onSet != nil {
		p.onSet(d, now)
	}
}

// restored moves what was saved at a time that is still to come: the clock was
// set back meanwhile.
func (p *pipeline) restored(saved time.Time) {
	p.cut.Lock()
	defer p.cut.Unlock()
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := now.Round(0).Sub(saved.Round(0)); !p.foreign && !saved.IsZero() && -d >= leastSet {
		p.engine.ClockSet(d, now)
	}
}
