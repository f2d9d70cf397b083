package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tempFolder is a temporary folder. It stays locked while its process lives.
type tempFolder struct {
	path string
	lock *os.File
}

// makeFolder creates a temporary folder below TMPDIR. It also removes folders that killed
// processes left there.
func makeFolder() (*tempFolder, error) {
	const name = "crowsnest-"
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), name+"[0-9]*"))
	for _, path := range old {
		if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeDir|0o700 {
			continue
		}
		if t, err := lockFolder(path); err == nil {
			_ = t.remove()
		}
	}
	for range 10 {
		path, err := os.MkdirTemp("", name)
		if err != nil {
			return nil, fmt.Errorf("create a temporary folder: %w; set TMPDIR to a folder that can be written", err)
		}
		if t, err := lockFolder(path); err == nil {
			return t, nil
		}
	}
	return nil, errors.New("cannot keep a temporary folder, because other processes remove it; set TMPDIR to another folder")
}

// lockFolder locks a folder. It returns an error if a living process holds the lock, or if
// another process has just removed the folder.
func lockFolder(path string) (*tempFolder, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &tempFolder{path, f}, nil
}

func (t *tempFolder) remove() error {
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}
