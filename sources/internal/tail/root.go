package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// errRefused is the error for what lies in the tree and must not be read: links,
// pipes, devices.
var errRefused = errors.New("refused: not a regular file reached without links")

// root opens what lies below one directory without following a link below it.
// Who can write into a log directory could otherwise have any file of the node
// read. Safe for concurrent use.
type root struct {
	path string
	mu   sync.RWMutex
	dir  dirHandle // of path; invalid while the directory is not there
}

func newRoot(path string) *root { return &root{path: path, dir: noDir} }

// reopen looks the directory up anew: it may have appeared, or been replaced.
func (r *root) reopen() error {
	d, err := openRoot(r.path)
	r.mu.Lock()
	defer r.mu.Unlock()
	if exhausted(err) {
		return err // the one that is open is better than none
	}
	r.dir.close()
	r.dir = d
	return err
}

func (r *root) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dir.close()
	r.dir = noDir
}

// openAny opens a file or directory below the root.
func (r *root) openAny(rel string) (*os.File, fs.FileInfo, error) {
	r.mu.RLock()
	f, err := r.dir.open(rel, r.abs(rel))
	r.mu.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// open opens a regular file for reading.
func (r *root) open(rel string) (*os.File, fs.FileInfo, error) {
	f, fi, err := r.openAny(rel)
	if err != nil {
		return nil, nil, err
	}
	if !fi.Mode().IsRegular() {
		_ = f.Close()
		return nil, nil, fmt.Errorf("open %s: %w", r.abs(rel), errRefused)
	}
	return f, fi, nil
}

// list returns what is in a directory.
func (r *root) list(rel string) ([]Entry, error) {
	f, fi, err := r.openAny(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !fi.IsDir() {
		return nil, fmt.Errorf("list %s: %w", r.abs(rel), errRefused)
	}
	des, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.abs(rel), err)
	}
	es := make([]Entry, 0, len(des))
	for _, de := range des {
		es = append(es, Entry{Name: de.Name(), Dir: de.IsDir()})
	}
	return es, nil
}

// stamp is only a hint whether a directory changed: it follows links on the way.
func (r *root) stamp(rel string) (stamp, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.dir.stamp(rel, rel)
}

// lstat is only a hint whether something changed: it follows links on the way.
func (r *root) lstat(rel string) (fs.FileInfo, error) { return os.Lstat(r.abs(rel)) }

func (r *root) abs(rel string) string { return filepath.Join(r.path, rel) }
