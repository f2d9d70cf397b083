package history

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/quota"
	"crowsnest/internal/text"
)

const (
	// maxText bounds the summary of an entry, in bytes.
	maxText = 300
	// FlapsWithin is how soon after its end an alert fires again if it flaps.
	FlapsWithin = time.Hour
	// maxExported bounds what Export returns.
	maxExported = 1000
)

// Config bounds a History. All values are positive.
type Config struct {
	MaxEntries int
	MaxBytes   int           // limit of the bytes of all records
	Keep       time.Duration // after the end
	Overhead   int           // bytes of a record beside those that History encodes
}

// History holds ended episodes. It is safe for concurrent use.
//
// When a bound is reached, the namespace with the most entries (or bytes) loses its oldest
// entry of the rule with the most. Infrastructure namespaces have a fifth of the bounds that
// no other namespace can use.
type History struct {
	cfg Config

	mu      sync.Mutex
	pool    *quota.Pool
	groups  map[groupKey]*quota.Group
	items   map[string]*item // items by key of their entry
	alerts  map[uint64][]*item
	next    uint64   // number of the next item
	pending []*item  // not on disk, oldest first
	sorted  []*Entry // newest start first; nil if to be made again
	evicted int64
}

type groupKey struct {
	class quota.Class
	alert string
}

// item is a remembered entry.
type item struct {
	quota.Entry
	of     *Entry
	number uint64 // position in the order in which entries were added
	record []byte // until it is on disk
	gone   bool
}

// New returns an empty history.
func New(cfg Config) *History {
	all := quota.Load{cfg.MaxEntries, cfg.MaxBytes}
	tenants := quota.Load{max(1, cfg.MaxEntries*4/5), max(1, cfg.MaxBytes/5*4)}
	return &History{
		cfg: cfg, pool: quota.NewPool(quota.Bounds{tenants, tenants, all, all}, nil),
		groups: map[groupKey]*quota.Group{}, items: map[string]*item{}, alerts: map[uint64][]*item{},
	}
}

// Add remembers an ended episode. One that is known already, because a restart concluded
// its end again, replaces the known one if it ended otherwise or if more notifications of it
// are known. Add keeps the maps of the
// entry, which must not change.
func (h *History) Add(e Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if it := h.add(&e); it != nil {
		h.pending = append(h.pending, it)
	}
}

// Load adds entries that are on disk, the oldest first, and returns how many records were
// unusable. What was added before stays to be written, and wins over a record of the same
// episode.
func (h *History) Load(records [][]byte) (unusable int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := maps.Clone(h.items)
	for _, r := range records {
		e, err := decode(r)
		if err != nil {
			unusable++
			continue
		}
		if it := known[e.key()]; it != nil {
			if it.of.sameEnd(e) && it.of.Notified <= e.Notified {
				it.record = nil // the record is on disk
			}
			continue
		}
		if it := h.add(e); it != nil {
			it.record = nil
		}
	}
	h.pending = slices.DeleteFunc(h.pending, func(it *item) bool { return it.record == nil })
	return unusable
}

// add returns the item of a new or changed entry, nil if nothing changed.
func (h *History) add(e *Entry) *item {
	key := e.key()
	old := h.items[key]
	if old != nil {
		if old.of.sameEnd(e) && e.Notified <= old.of.Notified {
			return nil
		}
		e.Notified = max(e.Notified, old.of.Notified)
		h.remove(old)
	}
	e.Summary = text.Truncate(e.Summary, maxText)
	h.relate(e)
	it := &item{of: e, number: h.next, record: e.encode()}
	it.Key, it.Size = key, len(it.record)+h.cfg.Overhead
	h.next++
	h.items[key] = it
	h.alerts[e.Fingerprint] = append(h.alerts[e.Fingerprint], it)
	h.sorted = nil
	s := h.group(e)
	s.Put(&it.Entry, e.Party)
	s.Squeeze(&it.Entry)
	return it
}

// relate compares an entry with the newest one of its alert that started before it. One
// that was loaded may have known more of them.
func (h *History) relate(e *Entry) {
	var before *Entry
	for _, it := range h.alerts[e.Fingerprint] {
		if it.of.StartsAt.Before(e.StartsAt) && (before == nil || it.of.StartsAt.After(before.StartsAt)) {
			before = it.of
		}
	}
	if before == nil {
		return
	}
	if maps.Equal(e.Labels, before.Labels) {
		e.Labels = before.Labels // to share its memory
	}
	if e.StartsAt.Sub(before.EndsAt) < FlapsWithin {
		e.Flaps = max(e.Flaps, before.Flaps+1)
	}
}

// group returns the group of the rule of an entry.
func (h *History) group(e *Entry) *quota.Group {
	key := groupKey{quota.Ordinary, e.Alert}
	if e.Infrastructure {
		key.class = quota.Infrastructure
	}
	s := h.groups[key]
	if s == nil {
		s = quota.NewGroup(nil, key.class, h.pool, 2*h.cfg.MaxEntries, func(x *quota.Entry, _ string) {
			h.evicted++
			h.forget(h.items[x.Key])
		})
		h.groups[key] = s
	}
	return s
}

// remove forgets an item that is in its group.
func (h *History) remove(it *item) {
	h.group(it.of).Remove(&it.Entry)
	h.forget(it)
}

// forget forgets an item that is in no group any more.
func (h *History) forget(it *item) {
	it.gone, it.record, h.sorted = true, nil, nil
	delete(h.items, it.Key)
	fp := it.of.Fingerprint
	if rest := slices.DeleteFunc(h.alerts[fp], func(o *item) bool { return o == it }); len(rest) > 0 {
		h.alerts[fp] = rest
	} else {
		delete(h.alerts, fp)
	}
	key := groupKey{quota.Ordinary, it.of.Alert}
	if it.of.Infrastructure {
		key.class = quota.Infrastructure
	}
	if s := h.groups[key]; s != nil && s.Used() == 0 {
		delete(h.groups, key)
	}
}

// All returns the entries that ended within Config.Keep before now, or after it: the clock
// may have been set back. The newest start comes first. The slice is shared and read-only.
func (h *History) All(now time.Time) []*Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sorted == nil {
		h.sorted = make([]*Entry, 0, len(h.items))
		for _, it := range h.items {
			h.sorted = append(h.sorted, it.of)
		}
		slices.SortFunc(h.sorted, NewestFirst)
	}
	oldest := now.Add(-h.cfg.Keep)
	expired := func(e *Entry) bool { return e.EndsAt.Before(oldest) }
	if slices.ContainsFunc(h.sorted, expired) {
		return slices.DeleteFunc(slices.Clone(h.sorted), expired)
	}
	return h.sorted[:len(h.sorted):len(h.sorted)]
}

// Of returns the entries of one alert, as All does.
func (h *History) Of(fingerprint uint64, now time.Time) []*Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := now.Add(-h.cfg.Keep)
	var out []*Entry
	for _, it := range h.alerts[fingerprint] {
		if !it.of.EndsAt.Before(oldest) {
			out = append(out, it.of)
		}
	}
	slices.SortFunc(out, NewestFirst)
	return out
}

// NewestFirst orders entries by their start, the newest first, and so that no two are equal.
func NewestFirst(a, b *Entry) int {
	return cmp.Or(b.StartsAt.Compare(a.StartsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// Stats describes a history.
type Stats struct {
	Entries int
	Bytes   int   // size of the entries' records
	Evicted int64 // entries that were forgotten for lack of room, since the start
	Pending int   // entries that are not on disk
}

// Stats returns the sizes.
func (h *History) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Stats{Entries: len(h.items), Evicted: h.evicted, Pending: len(h.pending)}
	for _, used := range h.pool.Used {
		out.Bytes += used[quota.InSize]
	}
	return out
}
