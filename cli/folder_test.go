package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that was killed leaves its folder; the next one removes it, and nothing else.
func TestFolders(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, err := makeFolder()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(killed.path, "log"), []byte("x"), 0o600))
	living, err := makeFolder()
	require.NoError(t, err)
	require.DirExists(t, killed.path)
	other := filepath.Join(os.TempDir(), "crowsnest-1")
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.Chmod(other, 0o755))
	require.NoError(t, killed.lock.Close())
	next, err := makeFolder()
	require.NoError(t, err)
	require.NoDirExists(t, killed.path)
	require.DirExists(t, living.path)
	require.DirExists(t, other)
	require.NoError(t, next.remove())
	require.NoDirExists(t, next.path)
}
