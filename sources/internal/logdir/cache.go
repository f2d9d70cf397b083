package logdir

import (
	"errors"
	"io/fs"
	"sync"
	"time"
)

// Settled is the age from which on a directory's modification time is trusted. A younger modification time may hide
// another change, because the kernel's timestamps are coarse.
const Settled = time.Second

// maxAge is the age at which a listing is read again even if the modification time is
// unchanged, because some file systems do not maintain it reliably.
const maxAge = 30 * time.Second

// Cache keeps the listing of a directory until the directory's modification time changes. It is
// safe for concurrent use.
type Cache struct {
	mu     sync.Mutex
	byPath map[string]*Listing
	gen    int64
}

// Listing is the content of a directory.
type Listing struct {
	Gen     int64 // generation, a number that changes each time the directory is listed
	Entries []Entry

	stamp stamp
	at    time.Time
	used  bool // whether the listing was used since the last Sweep; guarded by Cache.mu
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{byPath: map[string]*Listing{}} }

// Get returns the entries of the directory at rel below d. They are current. A directory that
// has not changed since the last call is not read again.
func (c *Cache) Get(d *Dir, rel string, now time.Time) (*Listing, error) {
	st, err := d.handle.stamp(rel)
	if l, _ := c.lookUp(rel, st, err, now); l != nil {
		return l, nil
	}
	var es []Entry
	if err == nil {
		es, err = d.List(rel)
	}
	if err != nil {
		c.Forget(rel)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen++
	l := &Listing{Gen: c.gen, Entries: es, stamp: st, at: now, used: true}
	c.byPath[rel] = l
	return l, nil
}

// lookUp returns the cached listing of a directory with this modification stamp, or nil if the directory must be listed
// again. It also reports whether a listing was cached.
func (c *Cache) lookUp(rel string, st stamp, err error, now time.Time) (current *Listing, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.byPath[rel]
	if err != nil || l == nil || l.stamp != st || l.at.Sub(st.changedAt()) <= Settled {
		return nil, l != nil
	}
	if age := now.Sub(l.at); age >= maxAge || age <= -maxAge {
		return nil, true
	}
	l.used = true
	return l, true
}

// Changed reports whether at least one of the directories must be listed again.
func (c *Cache) Changed(d *Dir, rels map[string]bool, now time.Time) bool {
	for rel := range rels {
		st, err := d.handle.stamp(rel)
		if l, known := c.lookUp(rel, st, err, now); l == nil && (known || !errors.Is(err, fs.ErrNotExist)) {
			return true
		}
	}
	return false
}

// Len returns how many listings are cached.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byPath)
}

// Forget drops the listing of a directory.
func (c *Cache) Forget(rel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byPath, rel)
}

// Sweep drops the listings that were not used since the last call of Sweep.
func (c *Cache) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rel, l := range c.byPath {
		if !l.used {
			delete(c.byPath, rel)
		}
		l.used = false
	}
}
