package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"crowsnest/sources"
)

// ticks draws conclusions five times a second until ctx ends.
func (d *daemon) ticks(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var lastSelf time.Time
	seen := newTransitions(d)
	for {
		now := d.now()
		exhausted, _ := d.ended()
		for _, name := range exhausted {
			d.pipe.Advance(name, now) // nothing can come any more
		}
		d.warmUp(now)
		d.pipe.evaluate(d.notify)
		if now.Sub(lastSelf) >= selfEvery || now.Before(lastSelf) {
			lastSelf = now
			status := d.sourceStatus()
			d.notify(d.self.update(now, status, d.outcome.Load().broken))
			seen.log(status)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// warmUp ends the warm-up when every source has caught up with the start, or
// when it takes too long: an alert too much is better than none.
func (d *daemon) warmUp(now time.Time) {
	if d.warmUntil.IsZero() {
		return
	}
	names := make([]string, len(d.sources))
	for i, s := range d.sources {
		names[i] = s.Name()
	}
	caughtUp := d.pipe.provedSince(names, d.start)
	if !caughtUp && now.Before(d.warmUntil) {
		return
	}
	d.warmUntil = time.Time{}
	d.engine.EndWarmUp()
	d.log.Info().Bool("caught_up", caughtUp).Msg("warm-up is over")
}

// sourceStatus returns the state of every source; one that is exhausted counts
// as up.
func (d *daemon) sourceStatus() []sources.Status {
	exhausted, broken := d.ended()
	out := make([]sources.Status, len(d.sources))
	for i, s := range d.sources {
		out[i] = s.Status()
		if slices.Contains(exhausted, s.Name()) {
			out[i].Up, out[i].Opened, out[i].Proved = true, true, d.now()
		}
		if err := broken[s.Name()]; err != nil {
			out[i].Up, out[i].Error = false, err.Error()
		}
	}
	return out
}

// transitions logs what changes in sources, once.
type transitions struct {
	d    *daemon
	up   map[string]bool
	errs map[string]string
	lost map[string]int64
}

func newTransitions(d *daemon) *transitions {
	return &transitions{d: d, up: map[string]bool{}, errs: map[string]string{}, lost: map[string]int64{}}
}

func (t *transitions) log(status []sources.Status) {
	for _, s := range status {
		log := t.d.component("source").With().Str("source", s.Name).Logger()
		was, known := t.up[s.Name]
		switch {
		case s.Up && !was:
			log.Info().Int("streams", len(s.Streams)).Msg("source is up")
		case !s.Up && was && known:
			log.Error().Err(asError(s.Error)).Msg("source is down")
		case s.Error != "" && s.Error != t.errs[s.Name]:
			log.Warn().Err(asError(s.Error)).Msg("source has a problem")
		}
		t.up[s.Name], t.errs[s.Name] = s.Up, s.Error
		for reason, n := range s.Lost {
			key := s.Name + "/" + reason
			if n > t.lost[key] {
				log.Warn().Str("reason", reason).Int64("bytes", n-t.lost[key]).Msg("lines were lost before they could be read")
			}
			t.lost[key] = n
		}
	}
}

func asError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
