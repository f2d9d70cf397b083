//go:build e2e

package pair

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
)

// stoppable builds a program whose clock stands still while the file named by
// CROWSNEST_STOPPED_CLOCK exists.
func stoppable(t *testing.T) string {
	t.Helper()
	return variant(t, "daemon/daemon.go", "d.now = time.Now\n", "d.now = stoppedClock\n", "stoppedclock.go")
}

// newer builds a program that writes states which this version cannot read.
func newer(t *testing.T) string {
	t.Helper()
	return variant(t, "daemon/snapshot.go", "const snapshotVersion = 1\n", "const snapshotVersion = 2\n", "")
}

// variant builds a program with one change in a file, and with a file of testdata that joins
// its package.
func variant(t *testing.T, file, was, is, joins string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(root, filepath.FromSlash(file))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), was), "%s has changed", file)
	changed := filepath.Join(dir, "changed.go")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(text), was, is, 1)), 0o600))
	files := map[string]string{path: changed}
	if joins != "" {
		files[filepath.Join(filepath.Dir(path), joins)] = filepath.Join(root, "test/pair/testdata", joins)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, overlay, 0o600))
	program := filepath.Join(dir, "crowsnest")
	require.NoError(t, daemon.Build(program, "-overlay", list))
	return program
}
