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

// Alerts about resources of the daemon.
const (
	alertStateNotSaved = "CrowsnestStateNotSaved"
	alertClockSkew     = "CrowsnestClockSkew"
)

const (
	// unsavedAfter is how long saving the state may fail before it is an alert.
	unsavedAfter = 5 * time.Minute
	// skewAlerted is the clock skew of an endpoint that is an alert once it has
	// lasted for skewedFor.
	skewAlerted = 30 * time.Second
	skewedFor   = 2 * time.Minute
)

// monitoringAlerts returns the alerts about state, memory, clocks and dropped
// notifications.
func (d *Daemon) monitoringAlerts(now time.Time) []episodes.Episode {
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

// unsaved is since when saving the state has failed, and why; the zero time: it has
// not.
type unsaved struct {
	since time.Time
	why   error
}

func unsavedAlert(now time.Time, u unsaved) (episodes.Episode, bool) {
	if u.since.IsZero() || now.Sub(u.since) < unsavedAfter {
		return episodes.Episode{}, false
	}
	return selfAlert(alertStateNotSaved, "warning", nil, u.since, map[string]string{
		"summary": "The state of crowsnest is not saved: after a restart it has to read older lines again",
		"description": truncate(fmt.Sprintf("Saving has failed since %s: %v. Detection and alerts continue; saving resumes by itself.",
			u.since.UTC().Format(time.RFC3339), u.why), 1500),
		"remediation": "Check whether the folder of storage.path is full, read-only or used by another instance.",
	}), true
}

// skews holds since when the clock of an endpoint has differed, by endpoint.
type skews map[string]time.Time

// alert records the skew of an endpoint and returns an alert if it has lasted.
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
		"description": fmt.Sprintf("According to its answers, its clock is %v ahead (negative: behind). Alerts are sent with its time; their annotations contain local times.",
			skew.Round(time.Second)),
		"remediation": "Check the time synchronization of both machines.",
	}), true
}

// unsaved returns since when saving the state has failed. A write in progress counts
// as failed.
func (s *saver) unsaved() unsaved {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.failing.since.IsZero():
		return s.failing
	case !s.writing.IsZero():
		return unsaved{s.writing, errors.New("the write has not finished yet")}
	}
	return unsaved{}
}

// hold acquires the lock of the folder if it is not held: another instance had it
// at start, the folder was not writable, or the lock was removed.
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
			s.log.Info().Msg("no other instance uses the state: saving starts now")
		}
	case errors.Is(err, state.ErrLocked):
		s.lockedOut(err)
	}
	// Saving the state reports any other error.
}

// lockedOut records that another instance uses the folder.
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
	s.log.Error().Err(err).Msg("continuing without saving the state; retrying")
}

// release releases the lock.
func (s *saver) release() {
	if s.held != nil {
		_ = s.held.Release() // it only closes a descriptor
		s.held = nil
	}
}
