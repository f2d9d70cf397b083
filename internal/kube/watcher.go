package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"crowsnest/internal/pause"
)

const (
	// SlowRetry is the retry interval for a problem that only an operator can fix.
	SlowRetry = 30 * time.Second

	// FirstRetry is the time to wait after the first failure.
	FirstRetry = 500 * time.Millisecond

	// earlyRefusals is the number of consecutive responses with status 403 that are retried like other errors if the
	// list was allowed before. An API server that has just started answers 403 until it has read its roles.
	earlyRefusals = 5
)

// Handler receives the objects that a Watcher reads. Calls do not overlap. If a call returns an error, the list or
// watch ends and starts again.
type Handler interface {
	// Listing is called before a list starts, and also before a list that failed is repeated. An object that is not
	// passed to Changed between the last Listing and the next Listed no longer exists.
	Listing()
	// Changed is called with each object of a list, and with each object that is added or changed later. The same state
	// of an object may be passed again. Changed must not keep a reference to its argument.
	Changed(object json.RawMessage) error
	// Deleted is called with the last state of an object that was deleted, or that no longer matches a selector of the
	// query. It must not keep a reference to its argument.
	Deleted(ctx context.Context, object json.RawMessage) error
	// Listed is called when a list is complete.
	Listed(ctx context.Context)
	// Passed is called when the API server has answered successfully, which means that the error passed to Failed is
	// over.
	Passed()
	// Failed is called with each error. lasting means that an immediate retry did not help, so the error should be
	// reported.
	Failed(err error, lasting bool)
}

// Watcher lists the objects at one path of the API and then watches them, as long as Run lasts. It stores no objects.
// It repeats the list only after Resync, or if the API server no longer knows the version from which to watch (status
// 410).
type Watcher struct {
	Client *Client
	// Path is the path of the list, such as /api/v1/pods. Query holds the selectors of the list.
	Path  string
	Query url.Values
	// Clock is time.Now or a clock for tests.
	Clock   func() time.Time
	Handler Handler
	// Resync is the interval at which all objects are listed again even if no watch has failed. Zero means never.
	Resync time.Duration
	// StartVersion is the resource version of an earlier run from which Run watches. If it is empty, Run lists first.
	StartVersion string
	// Rewound is called before a list if the API server's version is older than a version that was read before, because
	// its storage was restored from a backup. It may be nil.
	Rewound func()
	// Progress is called with a time up to which the Handler has received all changes (see proveProgress). Calls do not
	// overlap with calls of the Handler. The times do not decrease unless the clock is set back. If Progress is nil,
	// progress is not proved.
	Progress func(at time.Time)

	version string // resource version from which to watch; empty if a list is due
	listed  time.Time
	tries   int // number of consecutive failures; guarded by mu
	code    int // HTTP status of the last failure, or 0 if there was no response; guarded by mu
	alike   int // number of consecutive failures with the same status; guarded by mu

	calls sync.Mutex // held during calls of the Handler and of Progress

	mu    sync.Mutex
	state State
	reads int // counter that increases before and after each message of a watch is handled
	seen  uint64
}

// State is the state of a Watcher.
type State struct {
	Synced bool // whether a list was completed
	Open   bool // whether the watch is open
	// LastRead is the time when the last message of the API server, or the last list, was read.
	LastRead time.Time
}

// State returns the state. It is safe for concurrent use and does not wait for the Handler.
func (w *Watcher) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Run lists and watches until ctx ends. Before it returns, it waits for calls that are in progress.
func (w *Watcher) Run(ctx context.Context) {
	w.version, w.listed = w.StartVersion, w.Clock()
	w.seen = VersionNumber(w.StartVersion)
	for ctx.Err() == nil {
		began := w.Clock()
		err := w.listAndWatch(ctx)
		w.updateState(func(s *State) { s.Open = false })
		if ctx.Err() != nil {
			return
		}
		wait := w.handleOutcome(err)
		if err == nil && w.Clock().Sub(began) < time.Second {
			wait = time.Second // the server ends every watch immediately
		}
		pause.Sleep(ctx, wait, nil)
	}
}

func (w *Watcher) listAndWatch(ctx context.Context) error {
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
	if w.Rewound != nil && w.seen > 0 {
		version, err := w.currentVersion(ctx)
		if err != nil {
			return err
		}
		if version < w.seen {
			w.seen = 0
			w.Rewound()
		}
	}
	w.Handler.Listing()
	version, err := w.Client.List(ctx, w.Path, w.Query, w.Handler.Changed)
	if err != nil {
		return err
	}
	w.noteProgress()
	w.version = version
	w.Handler.Listed(ctx)
	w.updateState(func(s *State) { s.Synced, s.LastRead, w.seen = true, w.Clock(), VersionNumber(version) })
	if w.Progress != nil {
		w.Progress(now)
	}
	return nil
}

// Version returns the resource version up to which the Handler has received all changes. In Handler.Listed it is the
// version of the list. Later it is the version of the last event or bookmark. It may be called only from calls of the
// Handler and of Progress.
func (w *Watcher) Version() string { return w.version }

// watch passes the events after w.version to the Handler, and proves progress, until the watch ends.
func (w *Watcher) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var proving sync.WaitGroup
	q := url.Values{"resourceVersion": {w.version}}
	maps.Copy(q, w.Query)
	err := w.Client.Watch(ctx, w.Path, q, func() {
		w.updateState(func(s *State) { s.Open, s.Synced = true, true })
		if w.Progress == nil {
			w.noteProgress()
			return
		}
		proving.Go(func() { cancel(w.proveProgress(ctx)) })
	}, func(e Event) error { return w.handleEvent(ctx, e) })
	if cause := context.Cause(ctx); cause != nil {
		err = cause // the reason why the watch was cancelled
	}
	cancel(nil)
	proving.Wait()
	return err
}

func (w *Watcher) handleEvent(ctx context.Context, e Event) error {
	w.noteRead()
	defer w.noteRead()
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
	w.updateState(func(*State) { w.seen = max(w.seen, VersionNumber(w.version)) })
	return nil
}

// noteRead records that a message was received, or that the Handler has handled a message.
func (w *Watcher) noteRead() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.LastRead = w.Clock()
	w.reads++
}

func (w *Watcher) updateState(f func(*State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.state)
}

func (w *Watcher) noteProgress() {
	w.updateState(func(*State) { w.tries, w.alike = 0, 0 })
	w.Handler.Passed()
}

// handleOutcome reports the result of a list or watch to the Handler. It returns the time to wait before the next one.
func (w *Watcher) handleOutcome(err error) time.Duration {
	if err == nil {
		return 0
	}
	code := StatusCode(err)
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
	case IsExpired(err):
		// The server answers, so earlier failures are no reason to wait.
		w.version, wait, lasting = "", max(pause.Backoff(FirstRetry, SlowRetry, alike), time.Second), alike > 2
	case code == http.StatusUnauthorized && tries == 1:
		wait, lasting = FirstRetry, false // the next request reads the credentials again, so there is no reason to wait long
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

const (
	// proveEvery is the interval at which a Watcher proves its progress.
	proveEvery = 5 * time.Second
	// settleFor is the time without messages after which a watch has delivered all changes. Watches deliver within
	// milliseconds. A watch with a backlog keeps sending.
	settleFor = 2 * time.Second
	// proveTries is the number of consecutive failures to prove progress after which the watch is cancelled.
	proveTries = 2
	// proveWithin is the time limit of one request for the current version, so that a server that hangs is noticed.
	proveWithin = 10 * time.Second
)

// proveProgress calls Progress while the watch is open. It returns an error after several consecutive requests to the
// server have failed.
//
// A watch without messages proves nothing, because either nothing has happened or nothing has arrived. Bookmarks are
// not sufficient. API servers send them only once a minute, and never for resources without a watch cache, such as
// Events. Therefore proveProgress requests the current resource version, with a list of one object that the server must
// read consistently from etcd. As soon as the watch has delivered this version or a later one, all changes up to the
// time of the request were read. If the version belongs to an object of another kind, the watch never delivers it.
// Therefore it is also sufficient that the watch sends nothing for settleFor after the response.
func (w *Watcher) proveProgress(ctx context.Context) error {
	for failed := 0; pause.Sleep(ctx, pause.Jitter(proveEvery), nil); {
		at := w.Clock()
		w.mu.Lock()
		seen := w.seen
		w.mu.Unlock()
		version, err := w.currentVersion(ctx)
		switch {
		case err == nil && version > 0 && version < seen:
			return &Error{Code: http.StatusGone, Message: "its resource versions went backwards; its storage was probably restored from a backup"}
		case err == nil:
			failed = 0
			for ctx.Err() == nil && !w.checkProof(ctx, at, version) {
			}
		default:
			if failed++; failed >= proveTries {
				return err
			}
		}
	}
	return nil
}

func (w *Watcher) currentVersion(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	var list struct {
		Metadata listMeta `json:"metadata"`
	}
	err := w.Client.Get(ctx, w.Path, url.Values{"limit": {"1"}}, &list)
	return VersionNumber(list.Metadata.Version), err
}

// checkProof calls Progress with t and returns true if the watch has delivered everything up to a version. Otherwise it
// does so if the watch then sends nothing for settleFor. If the Handler is busy, checkProof waits for settleFor and
// returns false.
func (w *Watcher) checkProof(ctx context.Context, t time.Time, version uint64) bool {
	w.mu.Lock()
	before, done := w.reads, version > 0 && w.seen >= version
	w.mu.Unlock()
	if !done && !pause.Sleep(ctx, settleFor, nil) {
		return false
	}
	if !w.calls.TryLock() {
		pause.Sleep(ctx, settleFor, nil)
		return false
	}
	defer w.calls.Unlock()
	w.mu.Lock()
	silent := w.reads == before
	w.mu.Unlock()
	if !done && !silent || ctx.Err() != nil {
		return false
	}
	w.noteProgress()
	w.Progress(t)
	return true
}

// VersionNumber returns a resource version as a number, or 0 if it is not a number. For objects of one kind, a larger
// number means a later version.
func VersionNumber(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
