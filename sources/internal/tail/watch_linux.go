package tail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher turns what the kernel says of directories into hints. It uses inotify
// itself because it must not be told of writes: with thousands of lines a
// second they would be most of the events, and every file is polled anyway.
type watcher struct {
	tell  func(dir string, all bool) // all: and anything below it; "" is above everything
	fail  func(error)                // told when no directory can be watched any more; must not wait for who adds
	f     *os.File
	fd    int
	taken sync.Mutex // held while what the kernel says is read and told
	buf   []byte

	mu   sync.Mutex
	dirs map[int32]string
	wds  map[string]watch
	full bool // no watch can be added any more
}

type watch struct {
	wd    int32
	local bool // nothing changes in it that this kernel does not tell of
}

const watchMask = unix.IN_CREATE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

func newWatcher(tell func(dir string, all bool), fail func(error)) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return &watcher{
		tell: tell, fail: fail, f: os.NewFile(uintptr(fd), "inotify"), fd: fd, buf: make([]byte, 16<<10),
		dirs: map[int32]string{}, wds: map[string]watch{},
	}, nil
}

// add watches a directory, once; with again it looks whether the path still is
// that directory. root: the path itself may be a link.
func (w *watcher) add(dir string, root, again bool) {
	if w == nil {
		return
	}
	if other := w.addOnce(dir, root, again); other != "" {
		w.tell(other, false)
	}
}

// addOnce returns another path of the same directory, if there is one: the
// kernel tells of one of them, so both have to be looked at.
func (w *watcher) addOnce(dir string, root, again bool) (other string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.wds[dir]
	if known && !again || !known && w.full {
		return ""
	}
	mask := uint32(watchMask)
	if !root {
		mask |= unix.IN_DONT_FOLLOW
	}
	n, err := unix.InotifyAddWatch(w.fd, dir, mask)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
		w.full = true // polling finds what happens
		w.fail(fmt.Errorf("watch %s: %w", dir, err))
		return ""
	}
	wd := int32(n)
	if known && err == nil && wd == old.wd {
		return ""
	}
	if known {
		w.drop(dir, old.wd)
	}
	if err != nil {
		return ""
	}
	other = w.dirs[wd]
	w.dirs[wd], w.wds[dir] = dir, watch{wd, other == "" && local(dir)}
	if other != "" {
		w.wds[other] = watch{wd: wd}
	}
	return other
}

// drop forgets a watch. The caller holds the lock.
func (w *watcher) drop(dir string, wd int32) {
	if w.dirs[wd] == dir {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // the directory may be gone, and the watch with it
		delete(w.dirs, wd)
	}
	delete(w.wds, dir)
}

// watches tells that whatever changes in the directory from now on is told.
func (w *watcher) watches(dir string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wds[dir].local
}

// local tells that a directory is on a file system that only this machine
// writes to, and whose directories are the ones that are watched: not those of a
// network, of another process (FUSE) or of layers (overlay).
func local(dir string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return false
	}
	switch int64(fs.Type) & 0xFFFFFFFF {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}

// run tells what happens, at once, until close.
func (w *watcher) run() {
	c, err := w.f.SyscallConn()
	if err != nil {
		return // closed already
	}
	_ = c.Read(func(uintptr) bool { // until it is closed
		w.drain()
		return false
	})
}

// drain has told what happened before the call when it returns.
func (w *watcher) drain() {
	if w == nil {
		return
	}
	w.taken.Lock()
	defer w.taken.Unlock()
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
			w.event(wd, mask)
		}
	}
}

func (w *watcher) event(wd int32, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.tell("", true)
		return
	}
	self := mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0
	w.mu.Lock()
	dir := w.dirs[wd]
	if dir != "" && self { // its path, and what is below it, may be other directories now
		w.full = false
		for d, watch := range w.wds {
			if d == dir || strings.HasPrefix(d, dir+"/") {
				w.drop(d, watch.wd)
			}
		}
	}
	w.mu.Unlock()
	if dir != "" {
		w.tell(dir, self)
	}
}

func (w *watcher) close() { _ = w.f.Close() }
