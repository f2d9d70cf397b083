package kube

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"crowsnest/internal/pause"
)

const (
	// proveEvery is the interval at which a Watcher proves its progress.
	proveEvery = 5 * time.Second
	// settleFor is the silence of a watch after which it has nothing more to send. Watches
	// deliver within milliseconds; one that has a backlog is not silent.
	settleFor = 2 * time.Second
	// proveTries is the number of failures after which the watch is given up, too.
	proveTries = 2
	// proveWithin bounds one question, so that a server that hangs is noticed.
	proveWithin = 10 * time.Second
)

// prove calls Progress as long as the watch is open, until asking has failed several
// times.
//
// A watch proves nothing while it is silent: nothing may have happened, or nothing may
// have arrived. Bookmarks do not suffice, because API servers send them once a minute, and
// never for resources without a watch cache, such as Events. Therefore the server is asked
// for its current version, by a list of one object that it has to read consistently from
// etcd. Everything up to the time of the question is read as soon as the watch has
// delivered that version or a later one, or has been silent for settleFor after the
// answer: a version that belongs to another kind of object never arrives here.
func (w *Watcher) prove(ctx context.Context) error {
	for failed := 0; pause.Sleep(ctx, pause.Jitter(proveEvery), nil); {
		at := w.Clock()
		w.mu.Lock()
		seen := w.seen
		w.mu.Unlock()
		version, err := w.current(ctx)
		switch {
		case err == nil && version > 0 && version < seen:
			return &Error{Code: http.StatusGone, Message: "its versions went back; its storage was probably restored from a backup"}
		case err == nil:
			failed = 0
			for ctx.Err() == nil && !w.proved(ctx, at, version) {
			}
		default:
			if failed++; failed >= proveTries {
				return err
			}
		}
	}
	return nil
}

// current returns the newest version that the API server knows.
func (w *Watcher) current(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	var list struct {
		Metadata listMeta `json:"metadata"`
	}
	err := w.Client.Get(ctx, w.Path, url.Values{"limit": {"1"}}, &list)
	return VersionNumber(list.Metadata.Version), err
}

// proved reports whether the watch has delivered a version, and calls Progress if so. It
// waits for settleFor if the version was not delivered yet, or the Handler is busy.
func (w *Watcher) proved(ctx context.Context, at time.Time, version uint64) bool {
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
	w.passed()
	w.Progress(at)
	return true
}

// VersionNumber returns a version of an object as a number, 0 if it is none. A greater
// number is a later version of the objects of one kind.
func VersionNumber(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
