package events

import (
	"context"
	"encoding/json"
	"time"

	"crowsnest/kube"
)

const path = "/apis/events.k8s.io/v1"

// watcher reads the Events of one namespace, or of all.
type watcher struct {
	kube.Watcher
	s         *Source
	namespace string // "": all

	listing bool
	since   time.Time // of the list in progress: older Events are not read; zero: all are

	// Guarded by s.mu.
	position position
	proved   time.Time // up to which this run has read
	passed   bool      // the API server has answered
	problem  string
}

// position is up to where Events were read.
type position struct {
	Version string    `json:"version"` // "": nothing was read yet
	At      time.Time `json:"at"`      // when it was the newest version, with a precision of a minute
}

func newWatcher(s *Source, namespace string) *watcher {
	w := &watcher{s: s, namespace: namespace}
	w.Watcher = kube.Watcher{Client: s.client, Path: path + "/events", Clock: s.cfg.Clock, Handler: w, Progress: w.progress, Rewound: w.rewound}
	if namespace != "" {
		w.Path = path + "/namespaces/" + namespace + "/events"
	}
	return w
}

// rewound is called when versions began again: those before mean nothing.
func (w *watcher) rewound() { w.s.set(func() { w.position.Version = "" }) }

// Listing implements kube.Handler.
func (w *watcher) Listing() {
	w.listing, w.since = true, time.Time{}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.position.Version == "" {
		w.since = w.s.cfg.Clock().Add(-w.s.cfg.LookBack)
	}
}

// Changed implements kube.Handler. It reports an Event that it cannot read and skips it:
// the next one may be readable.
func (w *watcher) Changed(raw json.RawMessage) error {
	if e, err := readEvent(raw); err == nil {
		w.take(e)
	} else {
		w.s.set(func() { w.s.lose(reasonUnreadable, err.Error()) })
	}
	return nil
}

// take writes the line of an Event that was not read before.
func (w *watcher) take(e *event) {
	now := w.s.cfg.Clock()
	w.s.mu.Lock()
	read := w.listing && e.version() > 0 && e.version() <= kube.VersionNumber(w.position.Version)
	read = read || e.count() <= w.s.counts.get(e.Metadata.UID) || e.newest(now).Before(w.since)
	w.s.mu.Unlock()
	if read {
		w.move(e.Metadata.Version)
		return
	}
	w.s.write(e, now, func() {
		w.s.counts.set(e.Metadata.UID, e.count())
		if !w.listing {
			w.position.Version = e.Metadata.Version
		}
	})
}

// Deleted implements kube.Handler. The API server deletes Events when they are old.
func (w *watcher) Deleted(_ context.Context, raw json.RawMessage) error {
	if e, err := readEvent(raw); err == nil {
		w.move(e.Metadata.Version)
	}
	return nil
}

// move sets the position. A list is in no order of versions: its own is the next position.
func (w *watcher) move(version string) {
	if !w.listing && version != "" {
		w.s.set(func() { w.position.Version = version })
	}
}

// Listed implements kube.Handler.
func (w *watcher) Listed(context.Context) {
	w.listing, w.since = false, time.Time{}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if at := w.position.At; !at.IsZero() && w.s.cfg.Clock().Sub(at) > keptFor {
		w.s.lose(reasonExpired, w.Path)
	}
	w.position.Version = w.Version()
}

// progress is called with times up to which everything was read.
func (w *watcher) progress(at time.Time) {
	w.s.set(func() {
		w.proved = at
		w.position = position{w.Version(), at.Truncate(time.Minute).UTC()}
	})
	w.s.progressed()
}

// Passed implements kube.Handler.
func (w *watcher) Passed() { w.s.set(func() { w.passed, w.problem = true, ""; w.s.note() }) }

// Failed implements kube.Handler.
func (w *watcher) Failed(err error, lasting bool) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if kube.Expired(err) {
		w.s.status.Errors["expired"]++
	} else {
		w.s.status.Errors["watch"]++
	}
	if lasting {
		w.problem = explain(err)
	}
	w.s.note()
}
