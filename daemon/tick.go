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
			d.pipe.AdvanceWatermark(name, now) // no line can follow
		}
		caughtUp := d.caughtUp(false)
		d.warmUp(now, caughtUp || d.caughtUp(true))
		d.holdBack()
		d.pipe.evaluate(d.send)
		d.sendRestored(now, caughtUp)
		if now.Sub(lastSelf) >= selfEvery || now.Before(lastSelf) {
			lastSelf = now
			status := d.sourceStatus()
			d.self.unanswered = d.unanswered()
			quarantined := d.quarantine(now)
			d.notify(d.self.update(now, withParts(status, now), d.outcome.Load().broken, quarantined, append(d.stageAlerts(now, status), slices.Concat(d.monitoringAlerts(now), d.misplaced.alerts(now, d.pipe.Rules().Namespaces, status))...)...))
			seen.log(status)
			seen.logParts(status)
			seen.logPanics(quarantined)
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

// tune periodically chooses the rarest required literals of the rules for the
// prefilter. It runs in the background because it takes a while.
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

// caughtUp reports whether every source has read all lines from before the start of
// the process. With reachableOnly it ignores sources whose peer is unreachable, so
// that alerts from other sources do not wait for them.
func (d *Daemon) caughtUp(reachableOnly bool) bool {
	var names []string
	for _, s := range d.sources {
		if _, remote := s.(sources.Remote); reachableOnly && remote && absent(s.Status()) {
			continue
		}
		if multi, ok := s.(sources.MultiSource); ok {
			names = append(names, multi.Members()...)
		} else {
			names = append(names, s.Name())
		}
	}
	return d.pipe.provedSince(names, d.start)
}

// absent reports whether a source cannot be read and the reason is known.
func absent(s sources.Status) bool { return !s.Up && s.Error != "" }

// warmUp ends the warm-up once every source has caught up with the start, or when
// that takes too long: a superfluous alert is better than a missing one.
func (d *Daemon) warmUp(now time.Time, caughtUp bool) {
	if d.warmUntil.IsZero() || !caughtUp && now.Before(d.warmUntil) {
		return
	}
	d.warmUntil = time.Time{}
	d.engine.EndWarmUp()
	d.log.Info().Bool("caught_up", caughtUp).Msg("warm-up is over")
}

// send sends what was concluded. As long as what was restored has not been sent,
// it hands on only what this process concluded.
func (d *Daemon) send(eps []episodes.Episode) {
	if !d.restoredUntil.IsZero() {
		eps = slices.DeleteFunc(eps, func(ep episodes.Episode) bool {
			return ep.State == episodes.StateFiring && ep.FiredAt.Before(d.start) ||
				ep.State == episodes.StateResolved && ep.Concluded.Before(d.start)
		})
	}
	d.notify(eps)
}

// sendRestored sends the episodes of the saved state once every source has caught
// up with the start. Before that, an alert whose end was read and sent after the
// last save would be sent as firing once more.
func (d *Daemon) sendRestored(now time.Time, caughtUp bool) {
	if d.restoredUntil.IsZero() || !caughtUp && now.Before(d.restoredUntil) {
		return
	}
	d.restoredUntil = time.Time{}
	d.notify(newestStates(d.engine.Episodes(now)))
}

// newestStates leaves one episode per fingerprint: the open one, else the one
// that ended last. Open ones come first, then the others as they ended.
func newestStates(eps []episodes.Episode) []episodes.Episode {
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

// transitions logs each change of the state of sources once.
type transitions struct {
	d    *Daemon
	up   map[string]bool
	errs map[string]string
	idle map[string]string
	lost map[string]int64
	// polled holds the sources that poll because inotify is unavailable.
	polled map[string]bool
	// panicked holds the rules whose quarantine after panics was logged.
	panicked map[string]bool
	// parts holds the known members of sources, and whether they are up.
	parts map[string]bool
	// upstream is the last logged state of the aggregator of an agent.
	upstream upstreamLog
}

func newTransitions(d *Daemon) *transitions {
	return &transitions{d: d, up: map[string]bool{}, errs: map[string]string{}, idle: map[string]string{}, lost: map[string]int64{}, polled: map[string]bool{}}
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
		if s.Idle != "" && s.Idle != t.idle[s.Name] {
			log.Warn().Str("reason", s.Idle).Msg("source has nothing to watch, and looks again all the time")
		}
		t.up[s.Name], t.errs[s.Name], t.idle[s.Name] = s.Up, s.Error, s.Idle
		for reason, n := range s.Lost {
			key := s.Name + "/" + reason
			if n > t.lost[key] {
				log.Warn().Str("reason", reason).Int64("bytes", n-t.lost[key]).Msg("lines were lost before they were read")
			}
			t.lost[key] = n
		}
		if s.Errors["watch"] > 0 && !t.polled[s.Name] {
			t.polled[s.Name] = true
			log.Warn().Msg("the limit of inotify instances or watches is reached (fs.inotify): directories are polled, so new files are found a little later")
		}
		t.logLosses(log, s)
	}
}

// logPanics logs rules that are quarantined because of panics. Daemon.quarantine
// logs those that cost too much.
func (t *transitions) logPanics(quarantined []matcher.Quarantined) {
	now, log := map[string]bool{}, t.d.component("rules")
	for _, g := range quarantined {
		if g.Reason != matcher.ReasonPanic {
			continue
		}
		if now[g.Rule.Alert] = true; !t.panicked[g.Rule.Alert] {
			log.Error().Str("rule", g.Rule.Alert).Str("reason", string(g.Reason)).Msg("rule is quarantined: " + quarantineReason(g.Reason))
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
