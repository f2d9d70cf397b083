package tail

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/sources/internal/logdir"
)

// listWithin is the time after which a search continues without waiting for an operation on a
// directory.
const listWithin = 600 * time.Millisecond

var errHangs = errors.New("listing the directory hangs")

// lister runs the operations of a search on directories, so that a directory that hangs does not delay the search in
// other directories. Only one goroutine may call the function within.
type lister struct {
	onReturn func()      // called when an operation that counted as hanging returns
	returned atomic.Bool // whether an operation that counted as hanging has returned since the last search

	mu   sync.Mutex
	hung map[string]bool // paths with an operation that has not returned
}

// within runs op, an operation on the path below d, and returns its result. It returns
// errHangs if op takes too long, or if an earlier operation on the path has not returned. op
// may still be running then.
func within[T any](l *lister, d *logdir.Dir, path string, op func() T) (out T, err error) {
	l.mu.Lock()
	hangs, many := l.hung[path], len(l.hung) >= maxHung
	l.mu.Unlock()
	if hangs {
		return out, fmt.Errorf("list %s: %w", path, errHangs)
	}
	d.Retain()
	done := make(chan T, 1)
	go func() {
		defer d.Release()
		done <- op()
		l.mu.Lock()
		hung := l.hung[path]
		delete(l.hung, path)
		l.mu.Unlock()
		if hung {
			l.returned.Store(true)
			l.onReturn()
		}
	}()
	if many { // with many hanging operations, the search waits for this one as long as it takes
		return <-done, nil
	}
	timer := time.NewTimer(listWithin)
	defer timer.Stop()
	select {
	case out = <-done:
		return out, nil
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case out = <-done: // the operation returned at the last moment
		return out, nil
	default:
	}
	l.hung[path] = true
	return out, fmt.Errorf("list %s: %w", path, errHangs)
}
