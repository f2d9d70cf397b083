package logs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crowsnest/test/kubesim"
)

// way is one way in which the log of a container cannot be read.
type way struct {
	name   string
	root   bool // only root can do it
	breaks func(t *testing.T, c *kubesim.Container) (mend func())
	// pod means that the alert names the pod, because its containers are not known.
	pod bool
}

func ways() []way {
	inPlace := func(place func(t *testing.T, path string)) func(*testing.T, *kubesim.Container) func() {
		return func(t *testing.T, c *kubesim.Container) func() { return aside(t, c.Path(), place) }
	}
	return []way{
		{name: "a directory in its place", breaks: inPlace(func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o755)) })},
		{name: "a pipe in its place", breaks: inPlace(func(t *testing.T, path string) { require.NoError(t, unix.Mkfifo(path, 0o644)) })},
		{name: "a loop of links in its place", breaks: inPlace(func(t *testing.T, path string) { require.NoError(t, os.Symlink(filepath.Base(path), path)) })},
		{name: "a socket in its place", breaks: inPlace(func(t *testing.T, path string) { require.NoError(t, unix.Mknod(path, unix.S_IFSOCK|0o644, 0)) })},
		{name: "an open that fails", breaks: inPlace(denied)},
		{name: "a link to its folder", breaks: func(t *testing.T, c *kubesim.Container) func() {
			return aside(t, c.Dir(), func(t *testing.T, path string) { require.NoError(t, os.Symlink("/var/log", path)) })
		}},
		{name: "a link to the folder of its pod", pod: true, breaks: func(t *testing.T, c *kubesim.Container) func() {
			return aside(t, c.PodDir(), func(t *testing.T, path string) { require.NoError(t, os.Symlink("/var/log", path)) })
		}},
		{name: "a read that hangs", root: true, breaks: func(t *testing.T, c *kubesim.Container) func() {
			return rotated(t, c, unix.FAN_ACCESS_PERM)
		}},
		{name: "an open that hangs", root: true, breaks: func(t *testing.T, c *kubesim.Container) func() {
			return rotated(t, c, unix.FAN_OPEN_PERM)
		}},
		{name: "a listing of its folder that hangs", root: true, breaks: func(t *testing.T, c *kubesim.Container) func() {
			mend := hang(t, c.Dir(), unix.FAN_OPEN_PERM|unix.FAN_ONDIR)
			c.Rotate()
			return mend
		}},
		{name: "a listing of the folder of its pod that hangs", root: true, pod: true, breaks: func(t *testing.T, c *kubesim.Container) func() {
			mend := hang(t, c.PodDir(), unix.FAN_OPEN_PERM|unix.FAN_ONDIR)
			second := filepath.Join(c.PodDir(), "second")
			require.NoError(t, os.Mkdir(second, 0o755)) // it is listed again
			return func() {
				mend()
				require.NoError(t, os.Remove(second))
			}
		}},
	}
}

// rotated rotates a log. Operations on its new file hang.
func rotated(t *testing.T, c *kubesim.Container, operations uint64) (mend func()) {
	t.Helper()
	c.RenameAway()
	f, err := os.Create(c.Path() + ".tmp")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	mend = hang(t, f.Name(), operations)
	require.NoError(t, os.Rename(f.Name(), c.Path()))
	c.Reopen()
	return mend
}

// aside replaces what is at a path until mend is called. The path is never without either.
func aside(t *testing.T, path string, place func(t *testing.T, path string)) (mend func()) {
	t.Helper()
	other := filepath.Join(t.TempDir(), filepath.Base(path))
	place(t, other)
	exchange := func() {
		require.NoError(t, unix.Renameat2(unix.AT_FDCWD, other, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE))
	}
	exchange()
	return exchange
}

// denied puts a file there that this process alone can open.
func denied(t *testing.T, path string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, f.Chmod(0))
	require.NoError(t, f.Close())
	if os.Geteuid() == 0 { // whom no mode keeps out
		watch(t, f.Name(), unix.FAN_OPEN_PERM, func(group *os.File, fd int) { answer(group, fd, unix.FAN_DENY) })
	}
	require.NoError(t, os.Rename(f.Name(), path))
}

// hang makes operations of other processes on a file or directory hang until mend is called.
func hang(t *testing.T, path string, operations uint64) (mend func()) {
	t.Helper()
	var held []int
	end := watch(t, path, operations, func(_ *os.File, fd int) { held = append(held, fd) })
	return sync.OnceFunc(func() {
		end()
		for _, fd := range held {
			_ = unix.Close(fd)
		}
	})
}

// watch calls others for each operation of another process on a file or directory until mend is
// called, which permits what was not answered. Operations of this process are permitted.
func watch(t *testing.T, path string, operations uint64, others func(group *os.File, fd int)) (mend func()) {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.FanotifyMark(fd, unix.FAN_MARK_ADD, operations, unix.AT_FDCWD, path))
	group := os.NewFile(uintptr(fd), "fanotify")
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := group.Read(buf)
			if err != nil {
				return
			}
			for b := buf[:n]; len(b) > 0; {
				e := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[0]))
				if b = b[e.Event_len:]; int(e.Pid) == os.Getpid() {
					answer(group, int(e.Fd), unix.FAN_ALLOW)
				} else {
					others(group, int(e.Fd))
				}
			}
		}
	})
	mend = sync.OnceFunc(func() {
		_ = group.Close() // permits everything
		wg.Wait()
	})
	t.Cleanup(mend)
	return mend
}

// answer permits or denies the operation that came with a descriptor.
func answer(group *os.File, fd int, response uint32) {
	_, _ = group.Write(slices.Concat(binary.NativeEndian.AppendUint32(nil, uint32(fd)), binary.NativeEndian.AppendUint32(nil, response)))
	_ = unix.Close(fd)
}
