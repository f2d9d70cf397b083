package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// errRefused is the error for what lies in the tree and must not be read: links,
// pipes, devices.
var errRefused = errors.New("refused: not a regular file reached without links")

// root is the directory that has one path, whichever that is at the moment.
// Safe for concurrent use.
type root struct {
	path  string
	fault func(op, path string) error // in tests: runs before each operation, and may block or fail it
	mu    sync.Mutex
	cur   *folder // nil: there is none
}

// folder is one directory that root.path named when it was opened. It opens what
// lies below it without following a link: who can write into a log directory
// could otherwise have any file of the node read. Everything seen through one
// folder is of the same file tree, whatever is mounted or renamed meanwhile.
// Safe for concurrent use.
type folder struct {
	*root
	dir     dirHandle
	id      string       // of the directory and its file system
	refs    atomic.Int32 // of the root and of each borrower; the last one closes dir
	trusted atomic.Bool  // what is missing in it was removed; else it may be another tree's
}

func newRoot(path string) *root { return &root{path: path} }

// reopen opens the directory again: it may have appeared, or been replaced. The same
// directory keeps its trust.
func (r *root) reopen() error {
	dir, id, err := openRoot(r.path)
	if exhausted(err) {
		return err // the one that is open is better than none
	}
	var f *folder
	if err == nil {
		f = &folder{root: r, dir: dir, id: id}
		f.refs.Store(1)
	}
	r.mu.Lock()
	old := r.cur
	if f != nil && old != nil && old.id == id {
		f.trusted.Store(old.trusted.Load())
	}
	r.cur = f
	r.mu.Unlock()
	old.giveBack()
	return err
}

// moved reports whether another directory, or none, has the path now.
func (r *root) moved() bool {
	f := r.borrow()
	defer f.giveBack()
	return f == nil || !f.dir.is(r.path, f.id)
}

// borrow returns the open directory, nil if there is none. The caller must release
// it.
func (r *root) borrow() *folder {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur != nil {
		r.cur.refs.Add(1)
	}
	return r.cur
}

func (f *folder) giveBack() {
	if f != nil && f.refs.Add(-1) == 0 {
		f.dir.close()
	}
}

func (r *root) close() {
	r.mu.Lock()
	old := r.cur
	r.cur = nil
	r.mu.Unlock()
	old.giveBack()
}

// openAny opens a file or directory below the root.
func (f *folder) openAny(op, rel string) (*os.File, fs.FileInfo, error) {
	if err := f.try(op, rel); err != nil {
		return nil, nil, err
	}
	h, err := f.dir.open(rel, f.abs(rel))
	if err != nil {
		return nil, nil, err
	}
	fi, err := h.Stat()
	if err != nil {
		_ = h.Close()
		return nil, nil, err
	}
	return h, fi, nil
}

// try runs the fault of a test.
func (r *root) try(op, rel string) error {
	if r.fault == nil {
		return nil
	}
	return r.fault(op, r.abs(rel))
}

// open opens a regular file for reading.
func (f *folder) open(rel string) (*os.File, fs.FileInfo, error) {
	h, fi, err := f.openAny("open", rel)
	if err != nil {
		return nil, nil, err
	}
	if !fi.Mode().IsRegular() {
		_ = h.Close()
		return nil, nil, fmt.Errorf("open %s: %w", f.abs(rel), errRefused)
	}
	return h, fi, nil
}

// list returns the content of a directory.
func (f *folder) list(rel string) ([]Entry, error) {
	h, fi, err := f.openAny("list", rel)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if !fi.IsDir() {
		return nil, fmt.Errorf("list %s: %w", f.abs(rel), errRefused)
	}
	des, err := h.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", f.abs(rel), err)
	}
	es := make([]Entry, 0, len(des))
	for _, de := range des {
		es = append(es, Entry{Name: de.Name(), Dir: de.IsDir(), Link: de.Type()&fs.ModeSymlink != 0})
	}
	return es, nil
}

// stamp is only a hint whether a directory changed: it follows links on the way.
func (f *folder) stamp(rel string) (stamp, error) { return f.dir.stamp(rel, rel) }

// lstat is only a hint whether something changed: it follows links on the way,
// and another tree may have the path by now.
func (r *root) lstat(rel string) (fs.FileInfo, error) { return os.Lstat(r.abs(rel)) }

func (r *root) abs(rel string) string { return filepath.Join(r.path, rel) }
