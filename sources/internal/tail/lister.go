package tail

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/sources/internal/logdir"
)

// listWithin is how long an operation on a directory may take before the search goes on
// without it.
const listWithin = 600 * time.Millisecond

var errHangs = errors.New("a listing of it does not return")

// lister runs the operations of a search on directories, so that one that hangs does not
// hide the others. Only one goroutine calls do.
type lister struct {
	ready    func()      // called when an operation returns after all
	returned atomic.Bool // one did, since the last search

	mu   sync.Mutex
	hung map[string]bool // paths with an operation that has not returned
}

func newLister(ready func()) *lister { return &lister{ready: ready, hung: map[string]bool{}} }

// do runs an operation on what is at a path below d. It returns errHangs if the operation
// takes too long, or if an earlier one on the path has not returned; op may still run then.
func (l *lister) do(d *logdir.Dir, path string, op func()) error {
	l.mu.Lock()
	hangs, many := l.hung[path], len(l.hung) >= maxHung
	l.mu.Unlock()
	if hangs {
		return fmt.Errorf("list %s: %w", path, errHangs)
	}
	d.Hold()
	done := make(chan struct{})
	go func() {
		defer d.Release()
		op()
		close(done)
		l.end(path)
	}()
	if many { // this search waits, and all of them count as hanging
		<-done
		return nil
	}
	timer := time.NewTimer(listWithin)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-done: // just now
		return nil
	default:
	}
	l.hung[path] = true
	return fmt.Errorf("list %s: %w", path, errHangs)
}

// end records that an operation has returned.
func (l *lister) end(path string) {
	l.mu.Lock()
	hung := l.hung[path]
	delete(l.hung, path)
	l.mu.Unlock()
	if hung {
		l.returned.Store(true)
		l.ready()
	}
}
