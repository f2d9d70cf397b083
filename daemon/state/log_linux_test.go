package state

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A full disk costs nothing that was there, and what failed can be written later.
func TestLogOnAFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	l := requireLog(t, dir, nil)
	require.NoError(t, l.Append(records(0, 3)))
	filler := filepath.Join(dir, "filler")
	big := [][]byte{bytes.Repeat([]byte{'y'}, 20<<10), bytes.Repeat([]byte{'z'}, 20<<10)}
	require.NoError(t, os.WriteFile(filler, make([]byte, 32<<10), 0o600))
	for range 3 {
		require.ErrorIs(t, l.Append(big), unix.ENOSPC)
		require.ErrorIs(t, l.Replace(append(records(0, 3), big...)), unix.ENOSPC)
		require.NoFileExists(t, filepath.Join(dir, "log.tmp"))
		requireLog(t, dir, records(0, 3))
	}
	require.NoError(t, os.Remove(filler))
	require.NoError(t, l.Append(big))
	requireLog(t, dir, append(records(0, 3), big...))
}
