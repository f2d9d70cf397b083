package alertmanager

import (
	"context"
	"slices"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/sinks"
)

// maxMissing is the largest number of Alertmanagers that are kept although the lookups no longer find them.
const maxMissing = 32

// missingMargin is added to the longest time for which an end may wait.
const missingMargin = time.Minute

// keepMissing is the time for which an Alertmanager is notified after the lookups no longer find it. An Alertmanager
// that is missing because its pod restarts, or because one answer is incomplete, is usually found again sooner. Until
// then, the sink keeps its state. The time suffices to send the end of an alert, which may wait for MinFiring.
func (c Config) keepMissing() time.Duration {
	return missingMargin + max(*c.MinFiring, c.ResendDelay)
}

// all returns the Alertmanagers that are notified. The list is read-only.
func (s *Sink) all() members {
	s.shared.Lock()
	defer s.shared.Unlock()
	return s.endpoints
}

// setEndpoints replaces the list of Alertmanagers. The caller holds the mutex.
func (s *Sink) setEndpoints(list members) {
	s.endpoints = list
	for _, e := range list {
		e.members = list
	}
	list.linkPeers()
}

// discover looks up Alertmanagers until ctx ends. start runs an Alertmanager's sender.
func (s *Sink) discover(ctx context.Context, d *discovery, start func(*endpoint)) {
	for more := true; more; more = pause.Sleep(ctx, d.every, nil) {
		found, err := d.lookUp(ctx, s.resolver)
		if ctx.Err() != nil {
			return
		}
		now := s.now()
		s.shared.Lock()
		failed := !d.failing.IsZero()
		d.record(found, err, now)
		s.updateMembers(now, start)
		s.shared.Unlock()
		switch log := s.log.With().Str("discovery", d.name).Logger(); {
		case err != nil && !failed:
			log.Warn().Err(err).Int("alertmanagers", len(d.targets)).Msg("the lookup of Alertmanagers failed; alerts go to those that the last lookup found")
		case err == nil && failed:
			log.Info().Msg("the lookup of Alertmanagers works again")
		}
	}
}

// updateMembers adds the Alertmanagers that were found, and ends the senders of those that have
// been missing for long. The caller holds the mutex.
func (s *Sink) updateMembers(now time.Time, start func(*endpoint)) {
	found := map[string]Target{}
	for _, d := range s.discoveries {
		for _, t := range d.targets {
			found[t.Name] = t
		}
	}
	var missing []*endpoint
	for _, e := range s.endpoints {
		t, isFound := found[e.name]
		delete(found, e.name)
		switch {
		case e.isStatic || e.isLeaving:
		case isFound:
			e.missingSince = time.Time{}
			e.move(t)
		default:
			if e.missingSince.IsZero() {
				e.missingSince = now
			}
			missing = append(missing, e)
		}
	}
	slices.SortFunc(missing, func(a, b *endpoint) int { return a.missingSince.Compare(b.missingSince) })
	for i, e := range missing {
		if now.Sub(e.missingSince) >= s.cfg.keepMissing() || i < len(missing)-maxMissing {
			e.isLeaving = true
			e.Log.Info().Msg("alertmanager is gone: it is no longer notified")
			e.stop()
		}
	}
	for _, d := range s.discoveries {
		for _, t := range d.targets {
			if _, isNew := found[t.Name]; isNew {
				delete(found, t.Name)
				start(s.addMember(t, now))
			}
		}
	}
}

// addMember adds an Alertmanager that was found. Like one that was added to the configuration, it is sent the open
// alerts, and the ends that no other Alertmanager accepted. The caller holds the mutex.
func (s *Sink) addMember(t Target, now time.Time) *endpoint {
	e := newEndpoint(t, s)
	e.Log.Info().Msg("alertmanager was found: sending the open alerts")
	states, marks := s.states(), map[string][]sinks.Mark{}
	for name, st := range states {
		marks[name] = st.Export(now).Marks
	}
	e.State().Import(sinks.SavedState{Marks: forNew(marks)}, now)
	for _, st := range states {
		e.State().Notify(st.Episodes(), now)
	}
	s.unsent = nil
	s.setEndpoints(append(slices.Clone(s.endpoints), e))
	return e
}

// states returns the messages of each Alertmanager by its name. Until the first Alertmanager is found, the map has a
// single state, with an empty name. The caller holds the mutex.
func (s *Sink) states() map[string]*sinks.State {
	out := map[string]*sinks.State{}
	for _, e := range s.endpoints {
		out[e.name] = e.State()
	}
	if s.unsent != nil {
		out[""] = s.unsent
	}
	return out
}

// removeMember removes an Alertmanager whose sender has ended. The remaining Alertmanagers are sent the ends that the
// removed one did not accept.
func (s *Sink) removeMember(gone *endpoint) {
	s.shared.Lock()
	list := slices.DeleteFunc(slices.Clone(s.endpoints), func(e *endpoint) bool { return e == gone })
	for _, e := range list {
		e.State().TakeOver(gone.State())
	}
	s.setEndpoints(list)
	s.shared.Unlock()
	for _, e := range list {
		e.Wake()
	}
}

// Discoveries returns the states of the lookups that find Alertmanagers, in the order of the configuration.
func (s *Sink) Discoveries() []sinks.DiscoveryStatus {
	s.shared.Lock()
	defer s.shared.Unlock()
	var out []sinks.DiscoveryStatus
	for _, d := range s.discoveries {
		out = append(out, d.status(s.cfg.Name))
	}
	return out
}
