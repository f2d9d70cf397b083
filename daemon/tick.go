package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"crowsnest/agent/server"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/monitor"
	"crowsnest/episodes"
	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/sources"
)

// runTicks evaluates the rules five times a second until ctx ends.
func (d *Daemon) runTicks(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var lastSelf time.Time
	seen := &changeLog{d: d, last: map[string]sources.Status{}}
	for {
		if !d.pair.isLeading() { // the process may still renew its leadership, or will end
			if !pause.Sleep(ctx, tickEvery, nil) {
				return
			}
			continue
		}
		now := d.now()
		exhausted, _ := d.endedSources()
		for _, name := range exhausted {
			d.pipe.AdvanceWatermark(name, now) // a finished source delivers no further lines
		}
		caughtUp := d.caughtUp(false)
		d.warmUp(now, caughtUp || d.caughtUp(true))
		d.holdBack()
		d.pipe.evaluate(d.sendConclusions)
		d.sendRestored(now, caughtUp)
		d.evaluateUnknown(now)
		d.outbox.sendOverdue(now)
		d.unsavedOutbox.sendOverdue(now)
		if now.Sub(lastSelf) >= selfEvery || now.Before(lastSelf) {
			lastSelf = now
			d.updateMonitor(now, seen)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *Daemon) updateMonitor(now time.Time, seen *changeLog) {
	st := monitor.State{
		Sources: d.readSources(), Readings: d.sourceReadings(), Rules: d.pipe.Rules(), Agent: d.pipe.concluder.aggregatorState().remote, Losses: d.opt.Cfg.Sources.Losses(), Endpoints: d.endpointStatus(), Broken: d.brokenPacks(),
		Quarantined: d.quarantineCostly(now), Evictions: d.engine.Evictions(), UnreadRules: d.engine.UnreadRules(),
		Trusted: d.pipe.Rules().Namespaces, MismatchedRules: d.agentsBehind(), Agents: map[string]server.Stats{}, Unsaved: d.saver.unsavedSince(),
		Unanswered: d.pipe.concluder.aggregatorState().unanswered, Upstream: d.pipe.concluder.alerts(now), NoStandbySince: d.pair.aloneSince(),
		Unverified: d.unverifiedRules(), Discoveries: d.discoveryStatus(),
	}
	for _, a := range d.agentSources() {
		st.Agents[a.Name()] = a.Stats()
	}
	d.pipe.withCheckpointLock(func() bool { // so that a snapshot contains both the end of an episode and its entry in the history
		changes := d.self.Update(now, st)
		d.addToHistory(changes)
		d.notifyReceivers(changes)
		return d.self.Changed()
	})
	d.countAnswers(now)
	seen.log(d.sourceStatus())
	seen.logPanics(st.Quarantined)
	d.pipe.concluder.report(now, d.reported.Load())
}

// quarantineCostly quarantines rules that cost too much CPU time, and returns all quarantined rules. The engine then
// draws no conclusions from the absence of their lines.
func (d *Daemon) quarantineCostly(now time.Time) []matcher.Quarantined {
	program := d.pipe.rules.Load().Program
	if cpu, ok := inforce.ProcessCPU(); ok && d.guard.IsDue(now) {
		for _, c := range d.guard.FindCostly(now, cpu, program.Costs()) {
			program.Quarantine(c.Rule, matcher.ReasonCost)
			log := d.component("rules")
			log.Error().Str("rule", c.Rule.Alert).Str("reason", string(matcher.ReasonCost)).
				Float64("cpu", c.Share).Msg("rule is quarantined: " + monitor.QuarantineReason(matcher.ReasonCost))
		}
	}
	for _, r := range d.engine.Quarantined() {
		program.Quarantine(r, matcher.ReasonPanic)
	}
	quarantined := program.Quarantined()
	for _, g := range quarantined {
		d.engine.Suspend(g.Rule, now)
	}
	return quarantined
}

// agentsBehind returns the active rules of which some agents have another version.
func (d *Daemon) agentsBehind() map[string]sources.RuleMismatch {
	out := map[string]sources.RuleMismatch{}
	set := d.pipe.Rules()
	for _, src := range d.sources {
		if members := src.Info().Members; members != nil {
			maps.Copy(out, members.MismatchedRules(set))
		}
	}
	return out
}

// holdBack puts conclusions from the absence of lines on hold for rules of which agents have another version, because
// these agents may not report the lines.
func (d *Daemon) holdBack() {
	upTo := map[string]time.Time{}
	for rule, b := range d.agentsBehind() {
		upTo[rule] = b.Since
	}
	d.engine.HoldBack(upTo)
}

func (d *Daemon) agentSources() []*server.Source {
	var out []*server.Source
	for _, s := range d.sources {
		if a, ok := s.(*server.Source); ok {
			out = append(out, a)
		}
	}
	return out
}

// tuneLiterals regularly selects, for each rule, the rarest text that its lines must contain. The prefilter searches
// for these texts. The selection runs in the background, because it takes a while.
func (d *Daemon) tuneLiterals(ctx context.Context) {
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

// caughtUp reports whether every source has read all lines from before the start of this process. With reachableOnly,
// it ignores sources whose peer is unreachable.
func (d *Daemon) caughtUp(reachableOnly bool) bool {
	var names []string
	for _, s := range d.sources {
		if reachableOnly && s.Info().Remote {
			if st := s.Status(); !st.Up && st.Error != "" {
				continue
			}
		}
		if members := s.Info().Members; members != nil {
			names = append(names, members.Members()...)
		} else {
			names = append(names, s.Name())
		}
	}
	return d.pipe.readUpTo(names, d.readingSince)
}

// warmUp ends the warm-up when every source has read all lines from before the start. It also ends the warm-up when
// that takes too long, because an unnecessary alert is better than a missing alert.
func (d *Daemon) warmUp(now time.Time, caughtUp bool) {
	if d.warmUntil.IsZero() || !caughtUp && now.Before(d.warmUntil) {
		return
	}
	d.warmUntil = time.Time{}
	d.engine.EndWarmUp()
	d.log.Info().Bool("caught_up", caughtUp).Msg("the start is complete: crowsnest now decides from the absence of lines")
}

// sendConclusions notifies receivers of new conclusions. Until the restored episodes are sent, it omits conclusions of
// the previous process and episodes that have not fired. A pending episode would make receivers resolve the previous
// episode of the same alert with the wrong time.
func (d *Daemon) sendConclusions(eps []episodes.Episode) {
	d.addToHistory(eps)
	if !d.restoredUntil.IsZero() {
		eps = slices.DeleteFunc(eps, func(ep episodes.Episode) bool {
			return ep.State == episodes.StatePending || ep.State == episodes.StateDropped || ep.FiredBeforeRestore
		})
	}
	d.notifyReceivers(eps)
}

// sendRestored sends the restored episodes when every source has read all lines from before the start. If it sent these
// episodes earlier, an alert that was resolved after the last save would be sent as firing again.
func (d *Daemon) sendRestored(now time.Time, caughtUp bool) {
	if d.restoredUntil.IsZero() || !caughtUp && now.Before(d.restoredUntil) {
		return
	}
	d.restoredUntil = time.Time{}
	d.notifyReceivers(newestStates(d.engine.Episodes(now)))
	if d.sentinel != nil {
		d.notifyReceivers(d.sentinel.OpenAlerts())
	}
}

// newestStates returns the open episode of each fingerprint or, if none is open, the episode that ended last. Open
// episodes come first, followed by the ended episodes in the order of their ends. If the open episode of a fingerprint
// is pending, receivers are not notified of it, so the last ended episode of the fingerprint is also returned, before
// all others.
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

// sourceStatus returns the state of every source, including why it has nothing to read.
func (d *Daemon) sourceStatus() []sources.Status {
	out := d.readSources()
	for i := range out {
		if why, reason := d.self.WhyIdle(out[i].Name); out[i].Up && why != "" {
			out[i].Idle, out[i].IdleReason = why, reason
		}
	}
	return out
}

// sourceReadings returns what is known about each source that reads lines for rules.
func (d *Daemon) sourceReadings() map[string]monitor.Reading {
	out := map[string]monitor.Reading{}
	for i, s := range d.sources {
		out[s.Name()] = monitor.Reading{}
		if s.Info().Members == nil { // the members match their lines themselves
			out[s.Name()] = monitor.Reading{Logs: d.kinds[i].Logs, Lines: d.kinds[i].Logs || d.kinds[i].Lines, Serves: s.Serves}
		}
	}
	return out
}

// readSources returns the state of every source as the source itself reports it. A source that was read to its end
// counts as up. If this process is the standby, readSources returns nil.
func (d *Daemon) readSources() []sources.Status {
	if d.pair.standsBy() {
		return nil // only the leader reads
	}
	exhausted, broken := d.endedSources()
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
