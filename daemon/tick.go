package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"crowsnest/agent/server"
	"crowsnest/daemon/monitor"
	"crowsnest/episodes"
	"crowsnest/internal/pause"
	"crowsnest/sources"
)

// ticks draws conclusions five times a second until ctx ends.
func (d *Daemon) ticks(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var lastSelf time.Time
	seen := newChangeLog(d)
	for {
		if !d.pair.leads() { // the process may lead again, or end
			if !pause.Sleep(ctx, tickEvery, nil) {
				return
			}
			continue
		}
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
		d.evaluateUnknown(now)
		d.outbox.overdue(now)
		d.unsaved.overdue(now)
		if now.Sub(lastSelf) >= selfEvery || now.Before(lastSelf) {
			lastSelf = now
			d.monitor(now, seen)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *Daemon) monitor(now time.Time, seen *changeLog) {
	st := monitor.State{
		Sources: d.readSources(), Readings: d.readings(), Rules: d.pipe.Rules(), Agent: d.pipe.concluder.peer().remote, Losses: d.opt.Cfg.Sources.Losses(), Endpoints: d.endpointStatus(), Broken: d.outcome.Load().broken,
		Quarantined: d.quarantine(now), Evictions: d.engine.Evictions(), Unread: d.engine.Unread(),
		Trusted: d.pipe.Rules().Namespaces, Behind: d.behind(), Agents: map[string]server.Stats{}, Unsaved: d.saver.unsaved(),
		Unanswered: d.pipe.concluder.peer().unanswered, Upstream: d.pipe.concluder.alerts(now), Lonely: d.pair.lonely(),
		Unverified: d.unverified(),
	}
	for _, a := range d.agents() {
		st.Agents[a.Name()] = a.Stats()
	}
	d.pipe.unchanging(func() bool { // a snapshot contains an end and its entry in the history
		changes := d.self.Update(now, st)
		d.remember(changes)
		d.notify(changes)
		return d.self.Changed()
	})
	d.countAnswers(now)
	seen.log(d.sourceStatus())
	seen.logPanics(st.Quarantined)
	d.pipe.concluder.report(now, d.reported.Load())
}

// behind returns the rules in force that agents have in another version.
func (d *Daemon) behind() map[string]sources.Behind {
	out := map[string]sources.Behind{}
	set := d.pipe.Rules()
	for _, src := range d.sources {
		if members := src.Info().Members; members != nil {
			maps.Copy(out, members.Behind(set))
		}
	}
	return out
}

// holdBack stops the watermarks of rules that agents have in another version: the
// silence of those agents means nothing.
func (d *Daemon) holdBack() {
	upTo := map[string]time.Time{}
	for rule, b := range d.behind() {
		upTo[rule] = b.Since
	}
	d.engine.HoldBack(upTo)
}

// agents returns the sources that are agents.
func (d *Daemon) agents() []*server.Source {
	var out []*server.Source
	for _, s := range d.sources {
		if a, ok := s.(*server.Source); ok {
			out = append(out, a)
		}
	}
	return out
}

// tune periodically chooses the rarest required literals of the rules for the
// prefilter. It runs in the background because it takes a while.
func (d *Daemon) tune(ctx context.Context) {
	started := sync.OnceFunc(func() {
		if d.opt.Started != nil {
			d.opt.Started()
		}
	})
	tick := time.NewTicker(tuneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			started()
			d.pipe.rules.Load().Program.Tune()
		}
	}
}

// caughtUp reports whether every source has read all lines from before the start of
// the process. With reachableOnly it ignores sources whose peer is unreachable, so
// that alerts from other sources do not wait for them.
func (d *Daemon) caughtUp(reachableOnly bool) bool {
	var names []string
	for _, s := range d.sources {
		if reachableOnly && s.Info().Remote && absent(s.Status()) {
			continue
		}
		if members := s.Info().Members; members != nil {
			names = append(names, members.Members()...)
		} else {
			names = append(names, s.Name())
		}
	}
	return d.pipe.readUpTo(names, d.began)
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

// send notifies of new conclusions. Until the restored episodes are sent, it omits those
// of the previous process and those that have not fired: with one that is pending, the
// receivers would end the episode of its key that the previous process had notified,
// although that one ended at another time.
func (d *Daemon) send(eps []episodes.Episode) {
	d.remember(eps)
	if !d.restoredUntil.IsZero() {
		eps = slices.DeleteFunc(eps, func(ep episodes.Episode) bool {
			return ep.State == episodes.StatePending || ep.State == episodes.StateDropped || ep.Restored
		})
	}
	d.notify(eps)
}

// sendRestored sends the restored episodes once every source has caught up with the
// start. Earlier, an alert whose end was read and sent after the last save would be sent
// as firing again.
func (d *Daemon) sendRestored(now time.Time, caughtUp bool) {
	if d.restoredUntil.IsZero() || !caughtUp && now.Before(d.restoredUntil) {
		return
	}
	d.restoredUntil = time.Time{}
	d.notify(newestStates(d.engine.Episodes(now)))
	if d.sentinel != nil {
		d.notify(d.sentinel.Open())
	}
}

// newestStates returns one episode per fingerprint: the open one, else the one that ended
// last. Open ones come first, then the others in the order of their end. Before all come
// the last ends of fingerprints whose open episode is pending, which is not notified.
func newestStates(eps []episodes.Episode) []episodes.Episode {
	var out, before []episodes.Episode
	at, ends := map[episodes.Fingerprint]int{}, map[episodes.Fingerprint]int{}
	for _, ep := range eps {
		i, seen := at[ep.Fingerprint]
		switch {
		case !seen:
			at[ep.Fingerprint] = len(out)
			out = append(out, ep)
		case out[i].State == episodes.StateResolved:
			out[i] = ep
		case out[i].State == episodes.StatePending:
			if n, known := ends[ep.Fingerprint]; known {
				before[n] = ep
				continue
			}
			ends[ep.Fingerprint] = len(before)
			before = append(before, ep)
		}
	}
	return append(before, out...)
}

// sourceStatus returns the state of every source, and why it has nothing to read.
func (d *Daemon) sourceStatus() []sources.Status {
	out := d.readSources()
	for i := range out {
		if why, reason := d.self.Idle(out[i].Name); out[i].Up && why != "" {
			out[i].Idle, out[i].IdleReason = why, reason
		}
	}
	return out
}

// readings returns what is known about each source that reads lines for rules.
func (d *Daemon) readings() map[string]monitor.Reading {
	out := map[string]monitor.Reading{}
	for i, s := range d.sources {
		out[s.Name()] = monitor.Reading{}
		if s.Info().Members == nil { // else the members match lines
			out[s.Name()] = monitor.Reading{Logs: d.kinds[i].Logs, Lines: d.kinds[i].Logs || d.kinds[i].Lines, Serves: s.Serves}
		}
	}
	return out
}

// readSources returns the state of every source as the source reports it, of none while this
// process stands by. An exhausted one counts as up.
func (d *Daemon) readSources() []sources.Status {
	if d.pair.standsBy() {
		return nil // the leader reads
	}
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
