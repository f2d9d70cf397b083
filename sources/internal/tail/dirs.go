package tail

import (
	"errors"
	"io/fs"
	"sync"
	"time"
)

// Entry is one name in a directory. An entry that is no directory may be anything:
// its type is checked when it is opened.
type Entry struct {
	Name string
	Dir  bool
	Link bool // a symbolic link, which is never followed
}

// settled is how old a directory's last change must be before an unchanged
// modification time is trusted: the kernel's time stamps are coarse.
const settled = time.Second

// believed is for how long it is trusted at all: not every file system maintains
// these times well.
const believed = 30 * time.Second

// dirs caches listings for as long as the directory's modification time stays the
// same. Safe for concurrent use.
type dirs struct {
	mu  sync.Mutex
	by  map[string]*listing
	gen int64
}

// listing is immutable except used.
type listing struct {
	gen     int64 // differs if the directory was listed again
	entries []Entry
	stamp   stamp
	at      time.Time
	used    bool
}

func newDirs() *dirs { return &dirs{by: map[string]*listing{}} }

// get returns the content of a directory of f, no older than this call.
func (d *dirs) get(f *folder, rel string, now time.Time) (*listing, error) {
	st, err := f.stamp(rel)
	if err != nil {
		d.forget(rel)
		return nil, err
	}
	d.mu.Lock()
	l := d.by[rel]
	if l.valid(st, now) {
		l.used = true
		d.mu.Unlock()
		return l, nil
	}
	d.mu.Unlock()
	es, err := f.list(rel)
	if err != nil {
		d.forget(rel)
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gen++
	l = &listing{gen: d.gen, entries: es, stamp: st, at: now, used: true}
	d.by[rel] = l
	return l, nil
}

// valid reports whether the listing of a directory with this stamp is current.
func (l *listing) valid(st stamp, now time.Time) bool {
	if l == nil || l.stamp != st || l.at.Sub(st.changedAt()) <= settled {
		return false
	}
	age := now.Sub(l.at)
	return age < believed && age > -believed
}

// changed reports whether any of the directories must be listed again.
func (d *dirs) changed(f *folder, rels map[string]bool, now time.Time) bool {
	for rel := range rels {
		st, err := f.stamp(rel)
		d.mu.Lock()
		l := d.by[rel]
		same := err == nil && l.valid(st, now)
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

// sweep drops the listings that were not used since the last sweep.
func (d *dirs) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for rel, l := range d.by {
		if !l.used {
			delete(d.by, rel)
		}
		l.used = false
	}
}
