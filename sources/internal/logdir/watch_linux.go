package logdir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Watcher collects inotify events of directories. It does not subscribe to events of writes, which would be most of the
// events, because every file is polled anyway. To choose the events, it uses inotify without a library. A nil Watcher
// watches nothing.
type Watcher struct {
	hints *hints
	fail  func(error)
	f     *os.File
	fd    int
	read  sync.Mutex // held while events are read and added to hints
	buf   []byte
	mu    sync.Mutex
	dirs  map[int32]string
	wds   map[string]int32
	full  bool // whether no more watches can be added
}

const watchMask = unix.IN_CREATE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// NewWatcher returns a Watcher. It calls kick when Take has something to return, and fail when
// no more directories can be watched. Neither function may wait for a method of the Watcher.
func NewWatcher(kick func(), fail func(error)) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return &Watcher{
		hints: &hints{kick: kick, dirs: map[string]bool{}}, fail: fail, f: os.NewFile(uintptr(fd), "inotify"), fd: fd, buf: make([]byte, 64<<10),
		dirs: map[int32]string{}, wds: map[string]int32{},
	}, nil
}

// Add watches a directory, unless it is already watched, and reports whether it is watched. If
// root is set, the path itself may be a link.
func (w *Watcher) Add(dir string, root bool) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.wds[dir]; ok || w.full {
		return ok
	}
	mask := uint32(watchMask)
	if !root {
		mask |= unix.IN_DONT_FOLLOW
	}
	wd, err := unix.InotifyAddWatch(w.fd, dir, mask)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
		w.full = true // polling still finds every change in the directories that are not watched
		w.fail(fmt.Errorf("watch %s: %w", dir, err))
	}
	if err != nil {
		return false
	}
	w.dirs[int32(wd)], w.wds[dir] = dir, int32(wd)
	return true
}

// Run adds hints as events arrive, until Close.
func (w *Watcher) Run() {
	c, err := w.f.SyscallConn()
	if err != nil {
		return // the Watcher is already closed
	}
	_ = c.Read(func(uintptr) bool {
		w.Drain()
		return false // wait for more events
	})
}

// Drain waits until all events that occurred before the call were added to the hints.
func (w *Watcher) Drain() {
	if w == nil {
		return
	}
	w.read.Lock()
	defer w.read.Unlock()
	for {
		n, err := unix.Read(w.fd, w.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if size > len(b) {
				break
			}
			b = b[size:]
			w.handleEvent(wd, mask)
		}
	}
}

func (w *Watcher) handleEvent(wd int32, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.hints.add("")
		return
	}
	w.mu.Lock()
	dir := w.dirs[wd]
	if mask&unix.IN_IGNORED != 0 {
		delete(w.dirs, wd)
		delete(w.wds, dir)
		w.full = false
	}
	w.mu.Unlock()
	if dir != "" {
		w.hints.add(dir)
	}
}

// Close ends Run.
func (w *Watcher) Close() { _ = w.f.Close() }
