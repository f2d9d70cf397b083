package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"crowsnest/episodes"
)

const (
	// settle is how long after a start sources may take to open before an absence
	// that began in the process before counts.
	settle = 15 * time.Second
	// confirmWithin is how long an alert of the process before may stay without
	// being confirmed or resolved. It is longer than any self-alert waits before it
	// fires, but for those about absence, whose begin is saved.
	confirmWithin = 6 * time.Minute
	// seenSaved is how far the saved time at which something was seen may be behind.
	seenSaved = 30 * time.Second
)

// selfSaved is what outlives the process of the alerts about itself.
type selfSaved struct {
	Away     map[string]time.Time `json:"away,omitempty"` // since when sources are not seen
	Idle     map[string]time.Time `json:"idle,omitempty"` // since when they have nothing to watch
	Seen     time.Time            `json:"seen,omitzero"`  // when something was seen last
	Answered time.Time            `json:"answered,omitzero"`
	Open     []savedAlert         `json:"open,omitempty"`
}

// savedAlert is one open alert.
type savedAlert struct {
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"starts_at"`
}

// Export returns what has to outlive the process.
func (a *selfAlerts) Export() ([]byte, error) {
	a.mu.Lock()
	out := selfSaved{Away: maps.Clone(a.away), Idle: maps.Clone(a.idle), Seen: a.lastSeen, Answered: a.lastAnswer}
	for _, open := range []map[episodes.Fingerprint]episodes.Episode{a.open, a.restored} {
		for _, e := range open {
			out.Open = append(out.Open, savedAlert{Alert: e.Alert, Labels: e.Labels, Annotations: e.Annotations, StartsAt: e.StartsAt})
		}
	}
	a.savedSeen, a.changed = a.lastSeen, false
	a.mu.Unlock()
	return json.Marshal(out)
}

// Import takes what Export returned, before the first update. Times ahead of the
// start become the start. An alert that was open is neither fired nor resolved
// until it is confirmed, or known to be over.
func (a *selfAlerts) Import(b []byte) error {
	var in selfSaved
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read self-alerts: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, t := range in.Away {
		a.away[name] = earlier(t, a.start)
	}
	for name, t := range in.Idle {
		a.idle[name] = earlier(t, a.start)
	}
	a.lastSeen, a.lastAnswer = earlier(in.Seen, a.start), earlier(in.Answered, a.start)
	for _, s := range in.Open {
		e := selfAlert(s.Alert, s.Labels["severity"], s.Labels, earlier(s.StartsAt, a.start), s.Annotations)
		a.restored[e.Fingerprint] = e
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// dirty reports whether Export would return something new that is worth saving.
func (a *selfAlerts) dirty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed || a.lastSeen.Sub(a.savedSeen) >= seenSaved
}

// overdue removes the alerts of the process before that were not confirmed in
// time, or whose source is seen again, and returns them. The caller holds mu.
func (a *selfAlerts) overdue(now time.Time) []episodes.Episode {
	var over []episodes.Episode
	for fp, e := range a.restored {
		since, away := a.away[e.Labels["source"]]
		fired := away && a.longSince(now, since)
		if now.Sub(a.start) >= confirmWithin || e.Alert == alertBlind && !fired && now.Sub(a.start) >= settle ||
			e.Alert == AlertHeartbeat && now.Sub(a.start) >= settle {
			over = append(over, e)
			delete(a.restored, fp)
		}
	}
	return over
}

// longSince reports whether something that began at since has lasted for
// blindAfter, and was given the time to come up again after a restart.
func (a *selfAlerts) longSince(now, since time.Time) bool {
	return now.Sub(since) >= a.blindAfter && now.Sub(a.start) >= min(settle, a.blindAfter)
}

// answered returns when the aggregator answered last, t if that is known in this
// process. Before the first answer of all it is when that was first waited for.
func (a *selfAlerts) answered(t time.Time) time.Time {
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

// notSeen returns since when each source is not seen.
func (a *selfAlerts) notSeen() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.away)
}
