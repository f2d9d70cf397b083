package monitor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/episodes"
)

const (
	// settle is how long sources may take to open after a start. The outage of a source in the previous process counts
	// only after that time.
	settle = 15 * time.Second
	// confirmWithin is how long an alert of the previous process stays open without being confirmed or resolved. It is
	// longer than the delay before any alert fires, except alerts about outages. For these, the start of the outage is
	// saved.
	confirmWithin = 6 * time.Minute
	// seenSaved is the maximum age of the saved time at which any source was last read.
	seenSaved = 30 * time.Second
)

// savedAlerts is the state that survives a restart.
type savedAlerts struct {
	Away     map[string]time.Time `json:"away,omitempty"`  // start of the current outage of each source
	Idle     map[string]time.Time `json:"idle,omitempty"`  // start of the time in which each source has had nothing to read
	Lined    []string             `json:"lined,omitempty"` // sources that have had a line
	Seen     time.Time            `json:"seen,omitzero"`   // time at which any source was last read
	Answered time.Time            `json:"answered,omitzero"`
	Open     []savedAlert         `json:"open,omitempty"`
}

type savedAlert struct {
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"starts_at"`
}

// Export returns the state for the next process.
func (a *Alerts) Export() ([]byte, error) {
	a.mu.Lock()
	out := savedAlerts{Away: maps.Clone(a.outageStarts), Idle: maps.Clone(a.idle), Lined: slices.Sorted(maps.Keys(a.lined)), Seen: a.lastSeen, Answered: a.lastAnswer}
	for _, open := range []map[episodes.Fingerprint]episodes.Episode{a.open, a.restored} {
		for _, e := range open {
			out.Open = append(out.Open, savedAlert{Alert: e.Alert, Labels: e.Labels, Annotations: e.Annotations, StartsAt: e.StartsAt})
		}
	}
	a.savedSeen, a.changed = a.lastSeen, false
	a.mu.Unlock()
	return json.Marshal(out)
}

// Import reads the result of Export. It must be called before the first Update. Times after the start of this process
// are replaced by its start. The alerts that were open stay open and send nothing until they are confirmed or known to
// be over.
func (a *Alerts) Import(b []byte) error {
	var in savedAlerts
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read self-alerts: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, t := range in.Away {
		a.outageStarts[name] = a.notBeforeStart(t)
	}
	for name, t := range in.Idle {
		a.idle[name] = a.notBeforeStart(t)
	}
	for _, name := range in.Lined {
		a.lined[name] = true
	}
	a.lastSeen, a.lastAnswer = a.notBeforeStart(in.Seen), a.notBeforeStart(in.Answered)
	for _, s := range in.Open {
		e := newAnnotated(s.Alert, s.Labels["severity"], s.Labels, a.notBeforeStart(s.StartsAt), s.Annotations)
		a.restored[e.Fingerprint] = e
	}
	return nil
}

// notBeforeStart returns t, but at most the start of this process.
func (a *Alerts) notBeforeStart(t time.Time) time.Time {
	if t.Before(a.start) {
		return t
	}
	return a.start
}

// Changed reports whether the state has changed enough since the last Export to be saved again.
func (a *Alerts) Changed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed || a.lastSeen.Sub(a.savedSeen) >= seenSaved
}

// dropUnconfirmed removes and returns the alerts of the previous process that were not confirmed in time, or whose
// source is read again. The caller must hold mu.
func (a *Alerts) dropUnconfirmed(now time.Time) []episodes.Episode {
	var over []episodes.Episode
	for fp, e := range a.restored {
		since, away := a.outageStarts[e.Labels["source"]]
		fired := away && a.longSince(now, since)
		_, idle := a.idle[e.Labels["source"]]
		settled := now.Sub(a.start) >= settle &&
			(e.Alert == alertBlind && !fired || e.Alert == alertIdle && !idle && e.Labels["component"] == "" || e.Alert == alertHeartbeat)
		if settled || now.Sub(a.start) >= confirmWithin {
			over = append(over, e)
			delete(a.restored, fp)
		}
	}
	return over
}

// longSince reports whether an outage has lasted for blindAfter and sources had enough time to open after the start.
func (a *Alerts) longSince(now, since time.Time) bool {
	return now.Sub(since) >= a.blindAfter && now.Sub(a.start) >= min(settle, a.blindAfter)
}

// NoteAnswer records t as the time of the aggregator's newest answer, and returns the newest known time. Before the
// first answer, this is the start of the process that first waited for an answer.
func (a *Alerts) NoteAnswer(t time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !t.IsZero():
		a.lastAnswer = t
	case a.lastAnswer.IsZero():
		a.lastAnswer, a.changed = a.start, true
	}
	return a.lastAnswer
}

// Outages returns the start of the current outage of each source that is not read, by name.
func (a *Alerts) Outages() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.outageStarts)
}
