//go:build !linux

package tail

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// dirHandle keeps reads below one directory. The daemon runs on Linux; this is
// for the tools that share its code elsewhere.
type dirHandle struct{ r *os.Root }

// openRoot opens a directory. Nothing identifies it here: it is taken for the
// same one for as long as it has the path.
func openRoot(path string) (dirHandle, string, error) {
	r, err := os.OpenRoot(path)
	return dirHandle{r}, path, err
}

func (d dirHandle) is(path, _ string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (d dirHandle) close() { _ = d.r.Close() }

func (d dirHandle) open(rel, name string) (*os.File, error) {
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
	fi, err := d.r.Lstat(rel)
	if err != nil {
		return stamp{}, err
	}
	return stamp{fi.ModTime()}, nil
}

func links(fs.FileInfo) uint64 { return 1 }

func exhausted(error) bool { return false }
