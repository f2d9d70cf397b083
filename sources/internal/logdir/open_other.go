//go:build !linux

package logdir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// handle confines reads to one directory. The daemon runs on Linux only. This implementation
// serves the commands on other systems.
type handle struct{ r *os.Root }

// openRoot opens a directory. The ID that it returns is the path, because this system has no better one.
func openRoot(path string) (handle, string, error) {
	r, err := os.OpenRoot(path)
	return handle{r}, path, err
}

func (d handle) isAt(path, _ string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (d handle) close() { _ = d.r.Close() }

func (d handle) open(rel, name string) (*os.File, error) {
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i := range parts {
		fi, err := d.r.Lstat(filepath.Join(parts[:i+1]...))
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() && !fi.Mode().IsRegular() {
			return nil, fmt.Errorf("open %s: %w", name, ErrRefused)
		}
	}
	return d.r.Open(rel)
}

// stamp changes when a name in the directory is added or removed.
type stamp struct{ changed time.Time }

func (s stamp) changedAt() time.Time { return s.changed }

func (d handle) stamp(rel string) (stamp, error) {
	fi, err := d.r.Lstat(rel)
	if err != nil {
		return stamp{}, err
	}
	return stamp{fi.ModTime()}, nil
}

// LinkCount returns 1, because the number of hard links is not known on this system.
func LinkCount(fs.FileInfo) uint64 { return 1 }

// IsOutOfDescriptors returns false, because the error cannot be recognised on this system.
func IsOutOfDescriptors(error) bool { return false }
