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
	// maxText is the maximum length of a summary in bytes.
	maxText = 300
	// FlapsWithin is the time after the end of an episode within which a new episode of the same alert counts as a
	// flap.
	FlapsWithin = time.Hour
	// reserve determines the part of each limit, 1/reserve, that is kept for infrastructure namespaces.
	reserve = 5
	// maxExported is the maximum number of entries that Export returns.
	maxExported = 1000
)

// Config configures the limits of a History. All values are positive.
type Config struct {
	MaxEntries int
	MaxBytes   int           // maximum total size of all records in bytes
	Retention  time.Duration // time for which an entry is kept after the end of its episode
	Overhead   int           // number of bytes that a stored record takes in addition to the encoded entry
}

// History holds ended episodes. It is safe for concurrent use.
//
// When a limit is reached, the namespace with the most entries (or bytes) loses an entry. This is the oldest entry of
// the rule that has the most entries in that namespace. A fifth of each limit is reserved for infrastructure
// namespaces.
type History struct {
	cfg Config

	mu      sync.Mutex
	pool    *quota.Pool
	groups  map[groupKey]*quota.Group
	items   map[string]*item // items by the key of their entry
	alerts  map[uint64][]*item
	next    uint64   // number of the next item
	pending []*item  // items that are not on disk, the oldest first
	sorted  []*Entry // entries sorted by start, the newest first; nil if they have to be sorted again
	evicted int64
}

type groupKey struct {
	class quota.Class
	alert string
}

func groupOf(e *Entry) groupKey {
	if e.Infrastructure {
		return groupKey{quota.Infrastructure, e.Alert}
	}
	return groupKey{quota.Ordinary, e.Alert}
}

type item struct {
	quota.Entry
	entry  *Entry
	number uint64 // sequence number in the order in which entries were added
	record []byte // encoded entry; nil once the entry is on disk
	gone   bool
}

// New returns an empty history.
func New(cfg Config) *History {
	all := quota.Load{cfg.MaxEntries, cfg.MaxBytes}
	tenants := quota.Load{max(1, cfg.MaxEntries*(reserve-1)/reserve), max(1, cfg.MaxBytes/reserve*(reserve-1))}
	return &History{
		cfg: cfg, pool: quota.NewPool(quota.Bounds{tenants, tenants, all, all}, nil),
		groups: map[groupKey]*quota.Group{}, items: map[string]*item{}, alerts: map[uint64][]*item{},
	}
}

// Add remembers an ended episode. After a restart, the end of a known episode may be concluded again. The new entry
// replaces the known one if it has a different end or more notifications. Add keeps the maps of the entry, which must
// not change afterwards.
func (h *History) Add(e Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if it := h.addEntry(&e); it != nil {
		h.pending = append(h.pending, it)
	}
}

// Load adds entries that are on disk, the oldest first. It returns the number of unusable records. An entry that was
// added before Load must still be written, and takes precedence over a record of the same episode.
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
			if it.entry.sameEnd(e) && it.entry.Notified <= e.Notified {
				it.record = nil // the record is already on disk
			}
			continue
		}
		if it := h.addEntry(e); it != nil {
			it.record = nil
		}
	}
	h.pending = slices.DeleteFunc(h.pending, func(it *item) bool { return it.record == nil })
	return unusable
}

// addEntry adds an entry. It returns the item if the entry is new or changed, and nil otherwise.
func (h *History) addEntry(e *Entry) *item {
	key := e.key()
	old := h.items[key]
	if old != nil {
		if old.entry.sameEnd(e) && e.Notified <= old.entry.Notified {
			return nil
		}
		e.Notified = max(e.Notified, old.entry.Notified)
		h.remove(old)
	}
	e.Summary = text.Truncate(e.Summary, maxText)
	h.linkPrevious(e)
	it := &item{entry: e, number: h.next, record: e.encode()}
	it.Key, it.Size = key, len(it.record)+h.cfg.Overhead
	h.next++
	h.items[key] = it
	h.alerts[e.Fingerprint] = append(h.alerts[e.Fingerprint], it)
	h.sorted = nil
	s := h.group(e)
	s.Put(&it.Entry, e.Tenant)
	s.EvictExcess(&it.Entry)
	return it
}

// linkPrevious sets the Flaps of an entry from the previous entry of the same alert. A loaded entry may already have a
// larger number, because it was computed when older entries were still known.
func (h *History) linkPrevious(e *Entry) {
	var before *Entry
	for _, it := range h.alerts[e.Fingerprint] {
		if it.entry.StartsAt.Before(e.StartsAt) && (before == nil || it.entry.StartsAt.After(before.StartsAt)) {
			before = it.entry
		}
	}
	if before == nil {
		return
	}
	if maps.Equal(e.Labels, before.Labels) {
		e.Labels = before.Labels // shares the memory of equal maps
	}
	if e.StartsAt.Sub(before.EndsAt) < FlapsWithin {
		e.Flaps = max(e.Flaps, before.Flaps+1)
	}
}

func (h *History) group(e *Entry) *quota.Group {
	key := groupOf(e)
	s := h.groups[key]
	if s == nil {
		s = quota.NewGroup(nil, key.class, h.pool, 2*h.cfg.MaxEntries, func(x *quota.Entry, _ string) {
			h.evicted++
			h.forgetItem(h.items[x.Key])
		})
		h.groups[key] = s
	}
	return s
}

func (h *History) remove(it *item) {
	h.group(it.entry).Remove(&it.Entry)
	h.forgetItem(it)
}

// forgetItem removes an item from the history after it was removed from its group.
func (h *History) forgetItem(it *item) {
	it.gone, it.record, h.sorted = true, nil, nil
	delete(h.items, it.Key)
	fp := it.entry.Fingerprint
	if rest := slices.DeleteFunc(h.alerts[fp], func(o *item) bool { return o == it }); len(rest) > 0 {
		h.alerts[fp] = rest
	} else {
		delete(h.alerts, fp)
	}
	key := groupOf(it.entry)
	if s := h.groups[key]; s != nil && s.Used() == 0 {
		delete(h.groups, key)
	}
}

// All returns the entries that ended within Config.Retention before now. It also returns entries that ended after now,
// because the clock may have been set back. The entry with the newest start comes first. The slice is shared and
// read-only.
func (h *History) All(now time.Time) []*Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sorted == nil {
		h.sorted = make([]*Entry, 0, len(h.items))
		for _, it := range h.items {
			h.sorted = append(h.sorted, it.entry)
		}
		slices.SortFunc(h.sorted, NewestFirst)
	}
	oldest := now.Add(-h.cfg.Retention)
	expired := func(e *Entry) bool { return e.EndsAt.Before(oldest) }
	if slices.ContainsFunc(h.sorted, expired) {
		return slices.DeleteFunc(slices.Clone(h.sorted), expired)
	}
	return h.sorted[:len(h.sorted):len(h.sorted)]
}

// EntriesOf returns the entries that All returns for one alert.
func (h *History) EntriesOf(fingerprint uint64, now time.Time) []*Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := now.Add(-h.cfg.Retention)
	var out []*Entry
	for _, it := range h.alerts[fingerprint] {
		if !it.entry.EndsAt.Before(oldest) {
			out = append(out, it.entry)
		}
	}
	slices.SortFunc(out, NewestFirst)
	return out
}

// NewestFirst compares entries by their start, the newest first. Different entries are never equal.
func NewestFirst(a, b *Entry) int {
	return cmp.Or(b.StartsAt.Compare(a.StartsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// Stats describes a history.
type Stats struct {
	Entries int
	Bytes   int   // total size of the records
	Evicted int64 // number of entries that were evicted for lack of room since the start of the process
	Pending int   // number of entries that are not on disk
}

// Stats returns the current numbers.
func (h *History) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Stats{Entries: len(h.items), Evicted: h.evicted, Pending: len(h.pending)}
	for _, used := range h.pool.Used {
		out.Bytes += used[quota.InSize]
	}
	return out
}
