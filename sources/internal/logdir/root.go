// Package logdir opens, lists and watches directories of logs. It follows no link below a root, because otherwise
// anyone who can write into a log directory could have any file of the node read.
package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// ErrRefused is the error for links, pipes, devices and everything else that must not be read.
var ErrRefused = errors.New("refused: not a regular file reached without links")

// Entry is one name in a directory. An entry that is not a directory may be any kind of file. Open checks the kind.
type Entry struct {
	Name string
	Dir  bool
	Link bool // whether it is a symbolic link, which is never followed
}

// Root is a path and the directory that is currently at this path. Safe for concurrent use.
type Root struct {
	Path string
	// Fault is set by tests. It runs before each operation, and may block it or make it fail.
	Fault func(op, path string) error

	mu  sync.Mutex
	cur *Dir // the open directory; nil if there is none
}

// Dir is the directory that was at Root.Path when it was opened. All files of one Dir belong to the same file tree,
// even if the path is mounted over or renamed. It is safe for concurrent use.
type Dir struct {
	ID      string      // identity of the directory and its file system
	Trusted atomic.Bool // whether a missing file counts as removed; otherwise the file may be in another directory tree

	root   *Root
	handle handle
	refs   atomic.Int32 // number of borrowers, plus one for the root; the last release closes handle
}

// Reopen opens the directory again, because it may have appeared or been replaced. It keeps
// Trusted if the directory is still the same one.
func (r *Root) Reopen() error {
	h, id, err := openRoot(r.Path)
	if IsOutOfDescriptors(err) {
		return err // the directory that is already open stays in use
	}
	var d *Dir
	if err == nil {
		d = &Dir{ID: id, root: r, handle: h}
		d.refs.Store(1)
	}
	r.replaceDir(d)
	return err
}

// Close closes the directory when its last borrower releases it.
func (r *Root) Close() { r.replaceDir(nil) }

func (r *Root) replaceDir(d *Dir) {
	r.mu.Lock()
	old := r.cur
	if d != nil && old != nil && old.ID == d.ID {
		d.Trusted.Store(old.Trusted.Load())
	}
	r.cur = d
	r.mu.Unlock()
	old.Release()
}

// Moved reports whether the path now belongs to another directory, or to none.
func (r *Root) Moved() bool {
	d := r.Borrow()
	defer d.Release()
	return d == nil || !d.handle.isAt(r.Path, d.ID)
}

// Borrow returns the open directory, or nil if there is none. The caller must release it.
func (r *Root) Borrow() *Dir {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur != nil {
		r.cur.refs.Add(1)
	}
	return r.cur
}

// Retain counts another borrower of a directory that is already borrowed.
func (d *Dir) Retain() { d.refs.Add(1) }

// Release ends a Borrow or a Retain. d may be nil.
func (d *Dir) Release() {
	if d != nil && d.refs.Add(-1) == 0 {
		d.handle.close()
	}
}

// InjectFault runs Fault, if a test has set it.
func (r *Root) InjectFault(op, rel string) error {
	if r.Fault == nil {
		return nil
	}
	return r.Fault(op, r.Abs(rel))
}

// Lstat returns information about the file at rel. The result is only a hint that something changed, because Lstat
// follows links on the way, and another tree may have been mounted at the path.
func (r *Root) Lstat(rel string) (fs.FileInfo, error) { return os.Lstat(r.Abs(rel)) }

// Abs returns the absolute path of rel, which is relative to the root.
func (r *Root) Abs(rel string) string { return filepath.Join(r.Path, rel) }

// openAny opens a file or directory below the root. ok decides whether a file with its mode may be opened.
func (d *Dir) openAny(op, rel string, ok func(fs.FileMode) bool) (*os.File, fs.FileInfo, error) {
	if err := d.root.InjectFault(op, rel); err != nil {
		return nil, nil, err
	}
	f, err := d.handle.open(rel, d.root.Abs(rel))
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !ok(fi.Mode()) {
		err = fmt.Errorf("%s %s: %w", op, d.root.Abs(rel), ErrRefused)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// Open opens a regular file for reading.
func (d *Dir) Open(rel string) (*os.File, fs.FileInfo, error) {
	return d.openAny("open", rel, fs.FileMode.IsRegular)
}

// List returns the entries of a directory.
func (d *Dir) List(rel string) ([]Entry, error) {
	f, _, err := d.openAny("list", rel, fs.FileMode.IsDir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	des, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.root.Abs(rel), err)
	}
	es := make([]Entry, 0, len(des))
	for _, de := range des {
		es = append(es, Entry{Name: de.Name(), Dir: de.IsDir(), Link: de.Type()&fs.ModeSymlink != 0})
	}
	return es, nil
}
