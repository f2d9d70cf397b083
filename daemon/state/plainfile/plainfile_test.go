package plainfile

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever somebody puts in the place of a file, it is neither followed nor waited for, the
// error names it, and a new file replaces it.
func TestOnlyPlainFiles(t *testing.T) {
	for name, put := range map[string]func(path, other string) error{
		"a link":             func(path, other string) error { return os.Symlink(other, path) },
		"not a regular file": func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":           func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"a file with more than one name (hard links)": func(path, other string) error { return os.Link(other, path) },
		"a file with more than 10 bytes":              func(path, _ string) error { return os.WriteFile(path, make([]byte, 11), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
			require.NoError(t, os.WriteFile(other, []byte("precious"), 0o600))
			require.NoError(t, put(path, other))
			_, err := Read(path, 10)
			require.EqualError(t, err, path+" is "+name)
			require.NoError(t, Create(path, []byte("a"), []byte("b")))
			b, err := Read(path, 10)
			require.NoError(t, err)
			require.Equal(t, "ab", string(b))
			b, err = os.ReadFile(other)
			require.NoError(t, err)
			require.Equal(t, "precious", string(b))
		})
	}
	link := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.Symlink("/dev/zero", link))
	_, err := Read(link, 10)
	require.EqualError(t, err, link+" is a link")
	_, err = Read("/dev/zero", 10)
	require.EqualError(t, err, "/dev/zero is not a regular file")
	b, err := Read(write(t, bytes.Repeat([]byte("x"), 10)), 10)
	require.NoError(t, err)
	require.Len(t, b, 10)
	_, err = Read(link+"x", 10)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}
