package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"crowsnest/daemon/state/plainfile"
)

// ErrLocked reports that another process uses the directory.
var ErrLocked = errors.New("another instance uses this state directory: stop it, or give this one a directory of its own")

// lockEvery is the interval at which Lock tries again while another process holds the lock.
const lockEvery = 100 * time.Millisecond

// HeldLock is a lock of a directory. It is held until Release is called or the process ends, even if the process is killed.
type HeldLock struct{ f *os.File }

// Lock ensures that no other process uses dir. While another process uses it, Lock waits until ctx ends and then
// returns ErrLocked. If ctx has already ended, Lock tries once. Lock returns other errors, such as a read-only
// directory, immediately.
func Lock(ctx context.Context, dir string) (*HeldLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock state: %w", err)
	}
	f, err := plainfile.Open(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state: %w", err)
	}
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		err := flock(f)
		if err == nil {
			// The process ID is only for people, because the open file holds the lock.
			if f.Truncate(0) == nil {
				_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
			}
			return &HeldLock{f: f}, nil
		}
		if !errors.Is(err, ErrLocked) {
			_ = f.Close()
			return nil, fmt.Errorf("lock state: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, ErrLocked)
		case <-tick.C:
		}
	}
}

// Valid reports whether the lock still excludes other processes. It does not if the lock's file was removed.
func (h *HeldLock) Valid() bool {
	mine, err := h.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(h.f.Name())
	return err == nil && os.SameFile(mine, there)
}

// Release releases the lock. The file is not removed, because otherwise two processes could lock two different files of
// the same name.
func (h *HeldLock) Release() error { return h.f.Close() }
