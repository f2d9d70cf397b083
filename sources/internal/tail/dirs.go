package tail

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Entry is one name in a directory. What is not a directory may be anything: it
// is looked at when it is opened.
type Entry struct {
	Name string
	Dir  bool
}

// settled is how old a directory's last change must be before an unchanged
// modification time is believed: the kernel's time stamps are coarse.
const settled = time.Second

// dirs remembers listings for as long as the directory's modification time
// stays the same. Safe for concurrent use.
type dirs struct {
	root *root
	mu   sync.Mutex
	by   map[string]*listing
	gen  int64
}

// listing is immutable but for stale and used.
type listing struct {
	gen     int64 // differs if the directory was listed anew
	entries []Entry
	fi      fs.FileInfo
	at      time.Time
	stale   bool
	used    bool
}

func newDirs(r *root) *dirs { return &dirs{root: r, by: map[string]*listing{}} }

// get returns what is in the directory, looked at no earlier than this call.
func (d *dirs) get(rel string, now time.Time) (*listing, error) {
	fi, err := d.root.lstat(rel)
	if err != nil {
		d.forget(rel)
		return nil, err
	}
	d.mu.Lock()
	l := d.by[rel]
	if l != nil && l.valid(fi) {
		l.used = true
		d.mu.Unlock()
		return l, nil
	}
	d.mu.Unlock()
	es, err := d.root.list(rel)
	if err != nil {
		d.forget(rel)
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gen++
	l = &listing{gen: d.gen, entries: es, fi: fi, at: now, used: true}
	d.by[rel] = l
	return l, nil
}

func (l *listing) valid(fi fs.FileInfo) bool {
	return !l.stale && os.SameFile(l.fi, fi) && l.fi.ModTime().Equal(fi.ModTime()) && l.at.Sub(fi.ModTime()) > settled
}

// changed tells whether any of the directories must be listed anew.
func (d *dirs) changed(rels map[string]bool) bool {
	for rel := range rels {
		fi, err := d.root.lstat(rel)
		d.mu.Lock()
		l := d.by[rel]
		same := err == nil && l != nil && l.valid(fi)
		if same {
			l.used = true
		}
		d.mu.Unlock()
		if !same && !(errors.Is(err, fs.ErrNotExist) && l == nil) {
			return true
		}
	}
	return false
}

func (d *dirs) forget(rel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.by, rel)
}

// distrust has every directory listed anew at its next use, and drops those
// that were not used since the last time.
func (d *dirs) distrust() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for rel, l := range d.by {
		if !l.used {
			delete(d.by, rel)
			continue
		}
		l.stale, l.used = true, false
	}
}
