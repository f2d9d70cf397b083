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
	// settleFor is the time without messages after which a watch has nothing more to send.
	// Watches deliver within milliseconds. A watch with a backlog keeps sending.
	settleFor = 2 * time.Second
	// proveTries is the number of successive failures after which the watch is given up.
	proveTries = 2
	// proveWithin is the time limit of one question, so that a server that hangs is noticed.
	proveWithin = 10 * time.Second
)

// proveProgress calls Progress while the watch is open. It returns an error when questions to
// the server have failed several times in a row.
//
// A watch without messages proves nothing. Either nothing has happened, or nothing has arrived.
// Bookmarks are not sufficient. API servers send them only once a minute, and never for
// resources without a watch cache, such as Events. Therefore the server is asked for its
// current version, by a list of one object that it must read consistently from etcd. As soon as
// the watch has delivered this version or a later one, everything up to the time of the
// question was read. If the version belongs to another kind of object, the watch never delivers
// it. Therefore a watch that is silent for settleFor after the answer is also sufficient.
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

// currentVersion returns the newest version that the API server knows.
func (w *Watcher) currentVersion(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	var list struct {
		Metadata listMeta `json:"metadata"`
	}
	err := w.Client.Get(ctx, w.Path, url.Values{"limit": {"1"}}, &list)
	return VersionNumber(list.Metadata.Version), err
}

// checkProof reports whether the watch has delivered everything up to a version, and then calls
// Progress with the time t. If the version has not been delivered, or if the Handler is busy,
// it first waits for settleFor.
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
	w.notePassed()
	w.Progress(t)
	return true
}

// VersionNumber returns a resource version as a number, or 0 if it is not one. Among objects of
// one kind, a larger number means a later version.
func VersionNumber(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
