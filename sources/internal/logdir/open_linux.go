package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handle is an O_PATH descriptor of a directory.
type handle int

// O_NONBLOCK is set because opening a pipe without a writer would otherwise block.
const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC

// openRoot opens a directory. It also returns an ID that is unique while the directory is open.
func openRoot(path string) (handle, string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", fmt.Errorf("open %s: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, "", fmt.Errorf("stat %s: %w", path, err)
	}
	return handle(fd), dirID(&st), nil
}

func dirID(st *unix.Stat_t) string { return fmt.Sprintf("%x:%x", st.Dev, st.Ino) }

func (d handle) isAt(path, id string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && dirID(&st) == id
}

func (d handle) close() { _ = unix.Close(int(d)) }

// stamp identifies the state of a directory. It changes when a name in the directory changes,
// or when the directory is replaced.
type stamp struct {
	dev, ino uint64
	changed  int64 // modification time in Unix nanoseconds
}

func (s stamp) changedAt() time.Time { return time.Unix(0, s.changed) }

// stamp returns the stamp of the directory at rel. A stamp is only a hint that something changed, because the system
// call follows links.
func (d handle) stamp(rel string) (stamp, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(d), rel, &st, unix.AT_SYMLINK_NOFOLLOW)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fstatat(int(d), rel, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return stamp{}, &os.PathError{Op: "stat", Path: rel, Err: err}
	}
	return stamp{dev: uint64(st.Dev), ino: st.Ino, changed: st.Mtim.Nano()}, nil //nolint:unconvert // the type of Dev differs between processors
}

// open opens rel below d. It opens one component of the path after the other, because it must not follow links.
func (d handle) open(rel, name string) (*os.File, error) {
	fd, err := d.walk(rel)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("open %s: %w", name, ErrRefused)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	// O_NOATIME prevents updates of atime, which would cost disk writes. Only the owner and root may set it.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK|unix.O_NOATIME)
	return os.NewFile(uintptr(fd), name), nil
}

func (d handle) walk(rel string) (int, error) {
	at := int(d)
	parts := strings.Split(rel, "/")
	for i, p := range parts {
		fd, err := -1, error(unix.EXDEV)
		flags := readFlags
		if i < len(parts)-1 {
			flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		}
		if p != ".." && p != "" {
			for err = unix.EINTR; errors.Is(err, unix.EINTR); {
				fd, err = unix.Openat(at, p, flags, 0)
			}
		}
		if at != int(d) {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = fd
	}
	return at, nil
}

// LinkCount returns the number of names (hard links) of a file.
func LinkCount(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // the type differs between processors
	}
	return 1
}

// IsOutOfDescriptors reports whether err means that the process or the system has no free descriptor.
func IsOutOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
