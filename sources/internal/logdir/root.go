// Package logdir opens, lists and watches directories of logs. It follows no link
// below a root: otherwise anyone who can write into a log directory could have any file
// of the node read.
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

// ErrRefused is the error for links, pipes, devices and whatever else in the tree must
// not be read.
var ErrRefused = errors.New("refused: not a regular file reached without links")

// Entry is one name in a directory. An entry that is no directory may be anything:
// its type is checked when it is opened.
type Entry struct {
	Name string
	Dir  bool
	Link bool // a symbolic link, which is never followed
}

// Root is the directory that currently has a path.
// Safe for concurrent use.
type Root struct {
	Path string
	// Fault, in tests, runs before each operation, and may block or fail it.
	Fault func(op, path string) error

	mu  sync.Mutex
	cur *Dir // nil if there is none
}

// Dir is one directory that Root.Path named when it was opened. Everything seen
// through one Dir is of the same file tree, whatever is mounted or renamed meanwhile.
// Safe for concurrent use.
type Dir struct {
	ID      string      // ID of the directory and its file system
	Trusted atomic.Bool // a missing file was removed; otherwise the file may be in another tree

	root   *Root
	handle handle
	refs   atomic.Int32 // references of the root and of each borrower; the last one closes handle
}

// Reopen opens the directory again: it may have appeared, or been replaced. The same
// directory keeps its trust.
func (r *Root) Reopen() error {
	h, id, err := openRoot(r.Path)
	if Exhausted(err) {
		return err // the one that is open is better than none
	}
	var d *Dir
	if err == nil {
		d = &Dir{ID: id, root: r, handle: h}
		d.refs.Store(1)
	}
	r.swap(d)
	return err
}

// Close closes the directory when its last borrower releases it.
func (r *Root) Close() { r.swap(nil) }

func (r *Root) swap(d *Dir) {
	r.mu.Lock()
	old := r.cur
	if d != nil && old != nil && old.ID == d.ID {
		d.Trusted.Store(old.Trusted.Load())
	}
	r.cur = d
	r.mu.Unlock()
	old.Release()
}

// Moved reports whether another directory, or none, has the path now.
func (r *Root) Moved() bool {
	d := r.Borrow()
	defer d.Release()
	return d == nil || !d.handle.is(r.Path, d.ID)
}

// Borrow returns the open directory, nil if there is none. The caller must release
// it.
func (r *Root) Borrow() *Dir {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur != nil {
		r.cur.refs.Add(1)
	}
	return r.cur
}

// Hold is another Borrow of a borrowed directory.
func (d *Dir) Hold() { d.refs.Add(1) }

// Release ends a Borrow. d may be nil.
func (d *Dir) Release() {
	if d != nil && d.refs.Add(-1) == 0 {
		d.handle.close()
	}
}

// Try runs the fault of a test.
func (r *Root) Try(op, rel string) error {
	if r.Fault == nil {
		return nil
	}
	return r.Fault(op, r.Abs(rel))
}

// Lstat is only a hint whether something changed: it follows links on the way,
// and another tree may have the path by now.
func (r *Root) Lstat(rel string) (fs.FileInfo, error) { return os.Lstat(r.Abs(rel)) }

// Abs returns the path of what is at rel below the root.
func (r *Root) Abs(rel string) string { return filepath.Join(r.Path, rel) }

// openAny opens a file or directory below the root.
func (d *Dir) openAny(op, rel string, ok func(fs.FileMode) bool) (*os.File, fs.FileInfo, error) {
	if err := d.root.Try(op, rel); err != nil {
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

// List returns the content of a directory.
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
