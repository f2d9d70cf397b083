package tail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// heardFor is for how long the kernel's silence about a directory is taken for
// a look at it.
const heardFor = lookEvery

// dirs remembers listings for as long as the directory's modification time
// stays the same. Where the kernel tells of changes, its silence is as good as
// looking, and costs nothing. Safe for concurrent use.
type dirs struct {
	root *root
	mu   sync.Mutex
	by   map[string]*listing
	gen  int64

	watched func(dir string) bool // nil: nothing is
	heard   time.Time             // up to which everything that was told is known
	told    int64                 // how often something was
}

// listing is immutable but for what is below at.
type listing struct {
	gen     int64 // differs if the directory was listed anew
	entries []Entry
	fi      fs.FileInfo
	at      time.Time
	stale   bool
	used    bool
	silent  bool // a change would have been told since it was last looked at
}

func newDirs(r *root) *dirs { return &dirs{root: r, by: map[string]*listing{}} }

// get returns what was in the directory at a time, which is at most heardFor
// before now.
func (d *dirs) get(rel string, now time.Time) (l *listing, at time.Time, err error) {
	d.mu.Lock()
	if l = d.by[rel]; d.silent(l, now) {
		at = d.heard
		d.mu.Unlock()
		return l, at, nil
	}
	d.mu.Unlock()
	l, err = d.look(rel, now)
	return l, now, err
}

// silent tells that the directory was not changed up to d.heard. The caller
// holds the lock.
func (d *dirs) silent(l *listing, now time.Time) bool {
	if l == nil || !l.silent || l.stale || d.heard.Before(l.at) || d.heard.After(now) || now.Sub(d.heard) >= heardFor {
		return false
	}
	l.used = true
	return true
}

// look returns what is in the directory, looked at no earlier than this call.
func (d *dirs) look(rel string, now time.Time) (*listing, error) {
	watched, told := d.listens(rel)
	fi, err := d.root.lstat(rel)
	if err != nil {
		d.forget(rel)
		return nil, err
	}
	d.mu.Lock()
	l := d.by[rel]
	if l != nil && (l.valid(fi) || watched && l.silent && l.same(fi)) {
		l.used, l.stale, l.silent = true, false, watched && told == d.told
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
	l = &listing{gen: d.gen, entries: es, fi: fi, at: now, used: true, silent: watched && told == d.told}
	d.by[rel] = l
	return l, nil
}

// listens tells whether changes of the directory are told from now on, and how
// many were before.
func (d *dirs) listens(rel string) (watched bool, told int64) {
	d.mu.Lock()
	ask := d.watched
	told = d.told
	d.mu.Unlock()
	return ask != nil && ask(d.root.abs(rel)), told
}

// listen has the directories asked about their watches; nil: there are none.
func (d *dirs) listen(watched func(dir string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched, d.heard = watched, time.Time{}
}

// hear notes that everything that happened up to a time was told.
func (d *dirs) hear(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = at
}

// tell notes that a directory was changed; with all, that anything in it and
// below it may have been.
func (d *dirs) tell(dir string, all bool) {
	rel, err := filepath.Rel(d.root.abs("."), dir)
	if dir == "" {
		rel, err = ".", nil
	}
	if err != nil {
		return // of another tree
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told++
	if l := d.by[rel]; l != nil {
		l.silent = false
	}
	if !all {
		return
	}
	for at, l := range d.by {
		if rel == "." || strings.HasPrefix(at, rel+"/") {
			l.silent = false
		}
	}
}

func (l *listing) valid(fi fs.FileInfo) bool {
	return !l.stale && l.same(fi) && l.at.Sub(fi.ModTime()) > settled
}

func (l *listing) same(fi fs.FileInfo) bool {
	return os.SameFile(l.fi, fi) && l.fi.ModTime().Equal(fi.ModTime())
}

// changed tells whether any of the directories must be listed anew.
func (d *dirs) changed(rels map[string]bool, now time.Time) bool {
	for rel := range rels {
		d.mu.Lock()
		silent := d.silent(d.by[rel], now)
		d.mu.Unlock()
		if silent {
			continue
		}
		watched, told := d.listens(rel)
		fi, err := d.root.lstat(rel)
		d.mu.Lock()
		l := d.by[rel]
		same := err == nil && l != nil && l.valid(fi)
		if same {
			l.used, l.silent = true, watched && told == d.told
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

// distrust has every directory listed anew at its next use, or looked at where
// the kernel told of no change, and drops those that were not used since the last
// time.
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
