package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"crowsnest/internal/pause"
)

const (
	// SlowRetry is the interval of retries when only an operator can fix the problem.
	SlowRetry = 30 * time.Second

	// FirstRetry is the wait after a first failure.
	FirstRetry = 500 * time.Millisecond

	// earlyRefusals is how many consecutive 403 are retried like other errors, once the list
	// was allowed. An API server that has just started answers 403 until it has read its roles.
	earlyRefusals = 5
)

// Handler receives what a Watcher reads. Calls do not overlap. An error ends the list or
// the watch in progress, which then starts again.
type Handler interface {
	// Listing is called before a list starts, also before one that replaces a list that
	// failed. Objects that are not passed to Changed before the next call of Listed no
	// longer exist.
	Listing()
	// Changed is called with each object of a list, and with each object that was added
	// or changed after it. An object may come again unchanged. Changed must not keep its
	// argument.
	Changed(object json.RawMessage) error
	// Deleted is called with the last state of an object that was deleted after the list,
	// or that no longer matches a selector of the query. It must not keep its argument.
	Deleted(ctx context.Context, object json.RawMessage) error
	// Listed is called when a list is complete.
	Listed(ctx context.Context)
	// Passed is called when the API server has answered. What was passed to Failed is
	// over.
	Passed()
	// Failed is called with each error. lasting means that retrying immediately did not
	// help, so the error should be reported.
	Failed(err error, lasting bool)
}

// Watcher lists the objects at one path of the API and watches them from there, for as
// long as Run lasts. It keeps no object. A list is repeated only if the API server no
// longer knows the version to watch from (410), or after Resync.
type Watcher struct {
	Client *Client
	// Path is that of the list, such as /api/v1/pods; Query holds its selectors.
	Path  string
	Query url.Values
	// Clock is time.Now, or that of a test.
	Clock   func() time.Time
	Handler Handler
	// Resync is when everything is listed again although no watch failed. Zero means never.
	Resync time.Duration
	// From is a version of an earlier run to watch from. If it is empty, Run lists first.
	From string
	// Rewound is called before a list if the API server has an older version than was read,
	// because its storage was restored from a backup. It may be nil.
	Rewound func()
	// Progress is called with times up to which the Handler has got everything that the
	// API server had; see prove. Calls do not overlap with calls of the Handler, and
	// times do not decrease unless the clock does. If it is nil, no progress is proved.
	Progress func(at time.Time)

	version string // to watch from; empty if a list is due
	listed  time.Time
	tries   int // consecutive failures; guarded by mu
	code    int // HTTP status of the latest failure, 0 without a response; guarded by mu
	alike   int // consecutive failures with that status; guarded by mu

	calls sync.Mutex // held during the calls that a watch and its proof of progress make

	mu    sync.Mutex
	state State
	reads int // counts before and after each message of a watch
	seen  uint64
}

// State is the state of a Watcher.
type State struct {
	Synced bool // a list was complete
	Open   bool // the watch is open
	// LastRead is when the last message of the API server, or the last list, was read.
	LastRead time.Time
}

// State returns the state. It is safe for concurrent use and does not wait for the
// Handler.
func (w *Watcher) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Run lists and watches until ctx ends. It waits for the calls in progress.
func (w *Watcher) Run(ctx context.Context) {
	w.version, w.listed = w.From, w.Clock()
	w.seen = VersionNumber(w.From)
	for ctx.Err() == nil {
		began := w.Clock()
		err := w.step(ctx)
		w.set(func(s *State) { s.Open = false })
		if ctx.Err() != nil {
			return
		}
		wait := w.outcome(err)
		if err == nil && w.Clock().Sub(began) < time.Second {
			wait = time.Second // the server ends every watch immediately
		}
		pause.Sleep(ctx, wait, nil)
	}
}

// step lists if that is due, then watches once.
func (w *Watcher) step(ctx context.Context) error {
	now := w.Clock()
	if w.version == "" || w.Resync > 0 && now.Sub(w.listed) >= w.Resync {
		if err := w.list(ctx, now); err != nil {
			return err
		}
		w.listed = now
	}
	return w.watch(ctx)
}

func (w *Watcher) list(ctx context.Context, now time.Time) error {
	if err := w.rewind(ctx); err != nil {
		return err
	}
	w.Handler.Listing()
	version, err := w.Client.List(ctx, w.Path, w.Query, w.Handler.Changed)
	if err != nil {
		return err
	}
	w.passed()
	w.version = version
	w.Handler.Listed(ctx)
	w.set(func(s *State) { s.Synced, s.LastRead, w.seen = true, w.Clock(), VersionNumber(version) })
	if w.Progress != nil {
		w.Progress(now)
	}
	return nil
}

// rewind calls Rewound if the server has an older version than was read.
func (w *Watcher) rewind(ctx context.Context) error {
	if w.Rewound == nil || w.seen == 0 {
		return nil
	}
	version, err := w.current(ctx)
	if err == nil && version < w.seen {
		w.seen = 0
		w.Rewound()
	}
	return err
}

// Version returns the version up to which the Handler has got everything: in
// Handler.Listed that of the list, then that of the latest event or bookmark. Only calls of
// the Handler and of Progress may use it.
func (w *Watcher) Version() string { return w.version }

// watch passes on the events after w.version until the watch ends. While it is open, it
// proves progress.
func (w *Watcher) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var proving sync.WaitGroup
	q := url.Values{"resourceVersion": {w.version}}
	maps.Copy(q, w.Query)
	err := w.Client.Watch(ctx, w.Path, q, func() {
		w.set(func(s *State) { s.Open, s.Synced = true, true })
		if w.Progress == nil {
			w.passed()
			return
		}
		proving.Go(func() { cancel(w.prove(ctx)) })
	}, func(e Event) error { return w.event(ctx, e) })
	if cause := context.Cause(ctx); cause != nil {
		err = cause // why the watch was given up
	}
	cancel(nil)
	proving.Wait()
	return err
}

func (w *Watcher) event(ctx context.Context, e Event) error {
	w.read()
	defer w.read()
	w.calls.Lock()
	defer w.calls.Unlock()
	var o struct {
		Metadata struct {
			Version string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(e.Object, &o)
	switch {
	case err != nil:
		return fmt.Errorf("read an object of %s: %w", w.Path, err)
	case e.Type == "ADDED" || e.Type == "MODIFIED":
		err = w.Handler.Changed(e.Object)
	case e.Type == "DELETED":
		err = w.Handler.Deleted(ctx, e.Object)
	}
	if err != nil {
		return err
	}
	w.version = cmp.Or(o.Metadata.Version, w.version)
	w.set(func(*State) { w.seen = max(w.seen, VersionNumber(w.version)) })
	return nil
}

// read records that a message was received, or that the Handler has taken it.
func (w *Watcher) read() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.LastRead = w.Clock()
	w.reads++
}

func (w *Watcher) set(f func(*State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.state)
}

func (w *Watcher) passed() {
	w.set(func(*State) { w.tries, w.alike = 0, 0 })
	w.Handler.Passed()
}

// outcome reports how a step ended, and returns how long to wait.
func (w *Watcher) outcome(err error) time.Duration {
	if err == nil {
		return 0
	}
	code := Code(err)
	w.mu.Lock()
	w.tries++
	if code != w.code {
		w.code, w.alike = code, 0
	}
	w.alike++
	tries, alike, synced := w.tries, w.alike, w.state.Synced
	w.mu.Unlock()
	wait, lasting := pause.Backoff(FirstRetry, SlowRetry, tries), tries > 1 || !synced
	switch {
	case Expired(err):
		// The server answers, so earlier failures are no reason to wait.
		w.version, wait, lasting = "", max(pause.Backoff(FirstRetry, SlowRetry, alike), time.Second), alike > 2
	case code == http.StatusUnauthorized && tries == 1:
		wait, lasting = FirstRetry, false // the credentials are read again
	case synced && code == http.StatusForbidden && alike <= earlyRefusals:
		wait, lasting = pause.Backoff(FirstRetry, SlowRetry, alike), false
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		wait, lasting = pause.Jitter(SlowRetry), true
	case code == http.StatusTooManyRequests:
		wait = max(wait, RetryAfter(err))
	}
	w.Handler.Failed(err, lasting)
	return wait
}
