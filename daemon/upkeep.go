package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/state"
)

// Alerts of what the program lives on.
const (
	alertStateNotSaved = "CrowsnestStateNotSaved"
	alertClockSkew     = "CrowsnestClockSkew"
)

const (
	// unsavedAfter is how long the state may not be saved.
	unsavedAfter = 5 * time.Minute
	// skewAlerted is by how much the clock of an Alertmanager may differ for
	// longer than skewedFor.
	skewAlerted = 30 * time.Second
	skewedFor   = 2 * time.Minute
)

// upkeepAlerts returns an alert for each thing that the program lives on and that
// is not as it should be.
func (d *Daemon) upkeepAlerts(now time.Time) []episodes.Episode {
	var out []episodes.Episode
	if e, ok := unsavedAlert(now, d.saver.unsaved()); ok {
		out = append(out, e)
	}
	if e, ok := crowdedAlert(now, d.engine.Evictions()); ok {
		out = append(out, e)
	}
	for _, s := range d.sinks {
		for _, e := range s.Status() {
			if alert, ok := d.skewed.alert(now, e); ok {
				out = append(out, alert)
			}
			if alert, ok := d.dropped.alert(now, e); ok {
				out = append(out, alert)
			}
		}
	}
	return out
}

// unsaved is since when the state is not saved, and why. The zero time: it is.
type unsaved struct {
	since time.Time
	why   error
}

func unsavedAlert(now time.Time, u unsaved) (episodes.Episode, bool) {
	if u.since.IsZero() || now.Sub(u.since) < unsavedAfter {
		return episodes.Episode{}, false
	}
	return selfAlert(alertStateNotSaved, "warning", nil, u.since, map[string]string{
		"summary": "The state of crowsnest is not saved: a restart would look back instead of going on",
		"description": cutText(fmt.Sprintf("It is not saved since %s: %v. Detection and alerts go on; saving resumes by itself.",
			u.since.UTC().Format(time.RFC3339), u.why), 1500),
		"remediation": "Look whether the folder of storage.path is full, read-only or used by another instance.",
	}), true
}

// skews are since when the clocks of endpoints differ.
type skews map[string]time.Time

// alert notes whether a clock differs and returns the alert if it does for long.
func (s skews) alert(now time.Time, e sinks.EndpointStatus) (episodes.Episode, bool) {
	skew := time.Duration(e.ClockSkew * float64(time.Second))
	if !e.Up || skew.Abs() < skewAlerted {
		delete(s, e.Endpoint)
		return episodes.Episode{}, false
	}
	since, known := s[e.Endpoint]
	if !known {
		since = now
		s[e.Endpoint] = now
	}
	if now.Sub(since) < skewedFor {
		return episodes.Episode{}, false
	}
	return selfAlert(alertClockSkew, "warning", map[string]string{"endpoint": e.Endpoint}, since, map[string]string{
		"summary": "The clocks of crowsnest and of " + e.Endpoint + " differ",
		"description": fmt.Sprintf("Its clock is %v ahead of ours (negative: behind), as its answers say. Alerts are told by its clock; the times in them are ours.",
			skew.Round(time.Second)),
		"remediation": "Look at the time synchronisation of both machines.",
	}), true
}

// unsaved returns since when the state is not saved. A write that does not come
// to an end counts as one that failed.
func (s *saver) unsaved() unsaved {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.failing.since.IsZero():
		return s.failing
	case !s.writing.IsZero():
		return unsaved{s.writing, errors.New("writing it takes that long")}
	}
	return unsaved{}
}

// hold takes the lock of the folder if it is not held: another instance had it
// at the start, the folder was not writable, or the lock was removed.
func (s *saver) hold() {
	if s.dir == "" || s.held != nil && s.held.Valid() {
		return
	}
	once, cancel := context.WithCancel(context.Background())
	cancel()
	held, err := state.Lock(once, s.dir)
	switch {
	case err == nil:
		s.release()
		s.held = held
		if s.off.Swap(false) {
			s.pipe.changed.Store(true)
			s.log.Info().Msg("no other instance uses the state any more: it is saved from now on")
		}
	case errors.Is(err, state.ErrLocked):
		s.lockedOut(err)
	}
	// Any other error comes up again when the state is saved.
}

// lockedOut notes that another instance uses the folder.
func (s *saver) lockedOut(err error) {
	if s.off.Swap(true) {
		return
	}
	now := s.pipe.now()
	s.mu.Lock()
	if s.failing.since.IsZero() {
		s.failing.since = now
	}
	s.failing.why = err
	s.mu.Unlock()
	s.log.Error().Err(err).Msg("going on without saved state; trying again")
}

// release gives the lock up.
func (s *saver) release() {
	if s.held != nil {
		_ = s.held.Release() // closing a descriptor: there is nothing to do about it
		s.held = nil
	}
}
