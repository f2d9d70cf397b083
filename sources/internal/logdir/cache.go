package logdir

import (
	"errors"
	"io/fs"
	"sync"
	"time"
)

// Settled is how old a directory's last change must be before an unchanged
// modification time is trusted: the kernel's time stamps are coarse.
const Settled = time.Second

// maxAge is the age at which a listing is read again in any case: not every file
// system maintains modification times well.
const maxAge = 30 * time.Second

// Cache keeps listings for as long as the directory's modification time stays the
// same. Safe for concurrent use.
type Cache struct {
	mu  sync.Mutex
	by  map[string]*Listing
	gen int64
}

// Listing is the content of a directory.
type Listing struct {
	Gen     int64 // differs if the directory was listed again
	Entries []Entry

	stamp stamp
	at    time.Time
	used  bool // under Cache.mu
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{by: map[string]*Listing{}} }

// Get returns the content of a directory below d, no older than this call.
func (c *Cache) Get(d *Dir, rel string, now time.Time) (*Listing, error) {
	st, err := d.handle.stamp(rel, rel)
	if l, _ := c.current(rel, st, err, now); l != nil {
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
	c.by[rel] = l
	return l, nil
}

// current returns the cached listing of a directory with this stamp, nil if it must be
// listed again, and whether there was one.
func (c *Cache) current(rel string, st stamp, err error, now time.Time) (current *Listing, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.by[rel]
	if err != nil || l == nil || l.stamp != st || l.at.Sub(st.changedAt()) <= Settled {
		return nil, l != nil
	}
	if age := now.Sub(l.at); age >= maxAge || age <= -maxAge {
		return nil, true
	}
	l.used = true
	return l, true
}

// Changed reports whether any of the directories must be listed again.
func (c *Cache) Changed(d *Dir, rels map[string]bool, now time.Time) bool {
	for rel := range rels {
		st, err := d.handle.stamp(rel, rel)
		if l, known := c.current(rel, st, err, now); l == nil && (known || !errors.Is(err, fs.ErrNotExist)) {
			return true
		}
	}
	return false
}

// Len returns how many listings are cached.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.by)
}

// Forget drops the listing of a directory.
func (c *Cache) Forget(rel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, rel)
}

// Sweep drops the listings that were not used since the last sweep.
func (c *Cache) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rel, l := range c.by {
		if !l.used {
			delete(c.by, rel)
		}
		l.used = false
	}
}
