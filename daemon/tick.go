package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/sources"
)

// ticks draws conclusions five times a second until ctx ends.
func (d *Daemon) ticks(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var lastSelf time.Time
	seen := newTransitions(d)
	for {
		now := d.now()
		exhausted, _ := d.ended()
		for _, name := range exhausted {
			d.pipe.AdvanceWatermark(name, now) // nothing can come any more
		}
		caughtUp := d.caughtUp(false)
		d.warmUp(now, caughtUp || d.caughtUp(true))
		d.holdBack()
		d.pipe.evaluate(d.tell)
		d.tellRestored(now, caughtUp)
		if now.Sub(lastSelf) >= selfEvery || now.Before(lastSelf) {
			lastSelf = now
			status := d.sourceStatus()
			d.self.unanswered = d.unanswered()
			givenUp := d.giveUp(now)
			d.notify(d.self.update(now, withParts(status, now), d.outcome.Load().broken, givenUp, append(d.stageAlerts(now, status), slices.Concat(d.upkeepAlerts(now), d.misplaced.alerts(now, d.pipe.Rules().Namespaces, status))...)...))
			seen.log(status)
			seen.logParts(status)
			seen.logPanics(givenUp)
			if d.self.dirty() {
				d.pipe.changed.Store(true)
			}
			if d.pipe.up != nil {
				d.report()
				seen.logUpstream(now, d.pipe.up.Stats())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tune has the rules looked for by what is rare in the lines that are read,
// beside everything else: it takes a while.
func (d *Daemon) tune(ctx context.Context) {
	tick := time.NewTicker(tuneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.pipe.rules.Load().program.Tune()
		}
	}
}

// caughtUp reports whether every source has read what was there at the start. With
// leaveOut it does not count the sources whose peer is away: what others found
// does not wait for them.
func (d *Daemon) caughtUp(leaveOut bool) bool {
	var names []string
	for _, s := range d.sources {
		if _, remote := s.(sources.Remote); leaveOut && remote && absent(s.Status()) {
			continue
		}
		if parted, ok := s.(sources.MultiSource); ok {
			names = append(names, parted.Members()...)
		} else {
			names = append(names, s.Name())
		}
	}
	return d.pipe.provedSince(names, d.start)
}

// absent reports whether a source cannot be read, and says why.
func absent(s sources.Status) bool { return !s.Up && s.Error != "" }

// warmUp ends the warm-up when every source has caught up with the start, or
// when it takes too long: an alert too much is better than none.
func (d *Daemon) warmUp(now time.Time, caughtUp bool) {
	if d.warmUntil.IsZero() || !caughtUp && now.Before(d.warmUntil) {
		return
	}
	d.warmUntil = time.Time{}
	d.engine.EndWarmUp()
	d.log.Info().Bool("caught_up", caughtUp).Msg("warm-up is over")
}

// tell hands on what was concluded. As long as what was restored is not told,
// it hands on only what this process concluded.
func (d *Daemon) tell(eps []episodes.Episode) {
	if !d.tellUntil.IsZero() {
		eps = slices.DeleteFunc(eps, func(ep episodes.Episode) bool {
			return ep.State == episodes.StateFiring && ep.FiredAt.Before(d.start) ||
				ep.State == episodes.StateResolved && ep.Concluded.Before(d.start)
		})
	}
	d.notify(eps)
}

// tellRestored tells what the saved state had, when every source has caught up
// with the start. Before that, an alert whose end was read and told after the
// last save would be told as firing once more.
func (d *Daemon) tellRestored(now time.Time, caughtUp bool) {
	if d.tellUntil.IsZero() || !caughtUp && now.Before(d.tellUntil) {
		return
	}
	d.tellUntil = time.Time{}
	d.notify(newestWords(d.engine.Episodes(now)))
}

// newestWords leaves one episode per fingerprint: the open one, else the one
// that ended last. Open ones come first, then the others as they ended.
func newestWords(eps []episodes.Episode) []episodes.Episode {
	var out []episodes.Episode
	at := map[episodes.Fingerprint]int{}
	for _, ep := range eps {
		i, seen := at[ep.Fingerprint]
		switch {
		case !seen:
			at[ep.Fingerprint] = len(out)
			out = append(out, ep)
		case out[i].State == episodes.StateResolved:
			out[i] = ep
		}
	}
	return out
}

// sourceStatus returns the state of every source; one that is exhausted counts
// as up.
func (d *Daemon) sourceStatus() []sources.Status {
	exhausted, broken := d.ended()
	out := make([]sources.Status, len(d.sources))
	for i, s := range d.sources {
		out[i] = s.Status()
		if slices.Contains(exhausted, s.Name()) {
			out[i].Up, out[i].Opened, out[i].Watermark = true, true, d.now()
		}
		if err := broken[s.Name()]; err != nil {
			out[i].Up, out[i].Error = false, err.Error()
		}
	}
	return out
}

// transitions logs what changes in sources, once.
type transitions struct {
	d    *Daemon
	up   map[string]bool
	errs map[string]string
	lost map[string]int64
	// polled are the sources that the kernel does not tell of changes.
	polled map[string]bool
	// panicked are the rules that were given up and said to be.
	panicked map[string]bool
	// parts are the parts of sources that are known, and whether they are up.
	parts map[string]bool
	// upstream is what was logged about the aggregator of an agent.
	upstream upstreamLog
}

func newTransitions(d *Daemon) *transitions {
	return &transitions{d: d, up: map[string]bool{}, errs: map[string]string{}, lost: map[string]int64{}, polled: map[string]bool{}}
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
		if s.Errors["watch"] > 0 && !t.polled[s.Name] {
			t.polled[s.Name] = true
			log.Warn().Msg("the kernel has no inotify instances or watches left (fs.inotify): directories are polled, which finds what is new a little later")
		}
		t.logLosses(log, s)
	}
}

// logPanics logs rules that panicked too often. Those that cost too much were
// logged by who gave them up.
func (t *transitions) logPanics(givenUp []matcher.Quarantined) {
	now, log := map[string]bool{}, t.d.component("rules")
	for _, g := range givenUp {
		if g.Reason != matcher.ReasonPanic {
			continue
		}
		if now[g.Rule.Alert] = true; !t.panicked[g.Rule.Alert] {
			log.Error().Str("rule", g.Rule.Alert).Str("reason", string(g.Reason)).Msg("rule is given up: " + whyGivenUp(g.Reason))
		}
	}
	t.panicked = now
}

func asError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
