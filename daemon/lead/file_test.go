package lead

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever can write to the shared folder can neither make a process write to other files, nor
// block it, nor fill its memory; the error says which file is what.
func TestHostileSharedFolder(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	link := func(to string) func(string) error {
		return func(path string) error { return os.Symlink(to, path) }
	}
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	hard := func(path string) error { return os.Link(precious, path) }
	large := func(path string) error {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(path, 1<<40)
	}
	for _, x := range []struct {
		name  string
		put   func(path string) error
		wrong string // "" means that Put replaces it
	}{
		{"leader.json.tmp", link(precious), ""},
		{"leader.json.tmp", hard, ""},
		{"leader.json.tmp", fifo, ""},
		{"leader.json", link("/dev/zero"), "a link"},
		{"leader.json", link(precious), "a link"},
		{"leader.json", fifo, "not a regular file"},
		{"leader.json", large, "a file with more than 65536 bytes"},
		{"lock", link(precious), "a link"},
		{"lock", link("/dev/zero"), "a link"},
		{"lock", hard, "a file with more than one name (hard links)"},
		{"lock", fifo, "not a regular file"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, x.name)
		require.NoError(t, x.put(path))
		_, err := NewFileStore(dir).Put(t.Context(), Record{Holder: "a"}, "")
		if x.wrong == "" {
			require.NoError(t, err)
			rec, _, err := NewFileStore(dir).Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, "a", rec.Holder)
		} else {
			require.ErrorContains(t, err, path+" is "+x.wrong)
		}
		b, err := os.ReadFile(precious)
		require.NoError(t, err)
		require.Equal(t, "precious", string(b))
	}
}
