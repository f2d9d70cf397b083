package daemon

import (
	"context"
	"sync/atomic"
	"time"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/internal/pause"
)

const (
	suppressionsEvery = 10 * time.Second
	suppressionsTime  = 5 * time.Second // time limit for the answers of one cluster of Alertmanagers
)

// suppressions knows the open alerts of which Alertmanager notifies nobody. It is safe for concurrent use.
type suppressions struct {
	wake   chan struct{} // requests to read them now
	newest atomic.Pointer[readSuppressions]
}

type readSuppressions struct {
	reasons map[episodes.Fingerprint]*history.Suppression // nil for an alert that only some clusters suppress
	problem string                                        // reason why the suppressed alerts are not known; empty if they are
}

func newSuppressions() *suppressions {
	s := &suppressions{wake: make(chan struct{}, 1)}
	s.newest.Store(&readSuppressions{})
	return s
}

// reason returns why Alertmanager notifies nobody of an open alert. It returns nil if Alertmanager notifies somebody,
// or if this is not known.
func (s *suppressions) reason(fp episodes.Fingerprint) *history.Suppression {
	return s.newest.Load().reasons[fp]
}

func (s *suppressions) problem() string { return s.newest.Load().problem }

func (s *suppressions) readNow() {
	select {
	case s.wake <- struct{}{}:
	default: // a request is pending
	}
}

// watchSuppressions asks the Alertmanagers until ctx ends. It asks only while alerts are open.
func (d *Daemon) watchSuppressions(ctx context.Context) {
	if len(d.alertmanagers()) == 0 {
		return
	}
	for {
		if found := d.readSuppressions(ctx); ctx.Err() == nil {
			d.suppressions.newest.Store(found)
		}
		if !pause.Sleep(ctx, suppressionsEvery, d.suppressions.wake) {
			return
		}
	}
}

// readSuppressions returns the alerts that every cluster of Alertmanagers suppresses, because one cluster is enough to
// notify.
func (d *Daemon) readSuppressions(ctx context.Context) *readSuppressions {
	var open []episodes.Episode
	for _, e := range d.episodesView() {
		if (e.State == episodes.StateFiring || e.State == episodes.StatePending) && !e.Silent && !e.Heartbeat {
			open = append(open, e)
		}
	}
	out := &readSuppressions{}
	if len(open) == 0 {
		return out
	}
	for i, am := range d.alertmanagers() {
		ctx, cancel := context.WithTimeout(ctx, suppressionsTime)
		found, err := am.Suppressed(ctx, open)
		cancel()
		if err != nil {
			return &readSuppressions{problem: am.Name() + ": " + err.Error()}
		}
		if i == 0 {
			out.reasons = found
		}
		for fp, reason := range out.reasons {
			out.reasons[fp] = reason.Weaker(found[fp])
		}
	}
	return out
}
