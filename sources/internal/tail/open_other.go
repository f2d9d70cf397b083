//go:build !linux

package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// dirHandle keeps reads below one directory. The daemon runs on Linux; this is
// for the tools that share its code elsewhere.
type dirHandle struct{ r *os.Root }

var noDir = dirHandle{}

func openRoot(path string) (dirHandle, error) {
	r, err := os.OpenRoot(path)
	return dirHandle{r}, err
}

func (d dirHandle) close() {
	if d.r != nil {
		_ = d.r.Close()
	}
}

func (d dirHandle) open(rel, name string) (*os.File, error) {
	if d.r == nil {
		return nil, fmt.Errorf("open %s: %w", name, os.ErrNotExist)
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i := range parts {
		fi, err := d.r.Lstat(filepath.Join(parts[:i+1]...))
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() && !fi.Mode().IsRegular() {
			return nil, fmt.Errorf("open %s: %w", name, errRefused)
		}
	}
	return d.r.Open(rel)
}

// stamp changes when a directory gets other names.
type stamp struct{ changed time.Time }

func (s stamp) changedAt() time.Time { return s.changed }

func (d dirHandle) stamp(rel, name string) (stamp, error) {
	if d.r == nil {
		return stamp{}, fmt.Errorf("look at %s: %w", name, os.ErrNotExist)
	}
	fi, err := d.r.Lstat(rel)
	if err != nil {
		return stamp{}, err
	}
	return stamp{fi.ModTime()}, nil
}

func exhausted(error) bool { return false }
