package quota

import (
	"iter"
	"slices"
)

// Holding is what a tenant has in a group: a ring of entries in order of use. An account is
// the sum of a tenant's holdings of one class in a pool, and has no entries itself.
type Holding struct {
	Tenant  string
	class   Class
	load    Load
	used    uint64 // Pool.clock at the last use
	group   *Group
	account *Holding
	parts   holdings // holdings of the account, not by tenant
	ring    Entry    // its next is the least recently used entry
}

// Entry is embedded in each thing that a pool bounds. Key and ID are for its owner.
type Entry struct {
	Key        string
	ID         uint64
	Size       int
	holding    *Holding // nil if the entry is in no group
	prev, next *Entry
}

// Tenant returns the tenant that the entry is charged to. The entry must be in a group.
func (x *Entry) Tenant() string { return x.holding.Tenant }

// Owner returns the owner of the entry's group.
func (x *Entry) Owner() any { return x.holding.group.owner }

// Placed reports whether the entry is in a group.
func (x *Entry) Placed() bool { return x.holding != nil }

// Entries yields the entries of a holding, the least recently used first.
func (h *Holding) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for x := h.ring.next; x != &h.ring && yield(x); x = x.next {
		}
	}
}

// push makes an entry the newest of the holding.
func (h *Holding) push(x *Entry) {
	x.holding, x.prev, x.next = h, h.ring.prev, &h.ring
	x.prev.next, x.next.prev = x, x
	p := h.group.pool
	p.clock++
	h.used, h.account.used = p.clock, p.clock
}

// unlink removes an entry from its holding.
func (x *Entry) unlink() {
	x.prev.next, x.next.prev = x.next, x.prev
	x.holding, x.prev, x.next = nil, nil, nil
}

// charge adds entries and sizes, which may be negative, to the counters of a holding.
func (h *Holding) charge(entries, size int) {
	h.group.sides[h.class.side()].used += entries
	for by, n := range (Load{entries, size}) {
		h.load[by] += n
		h.account.load[by] += n
		h.group.pool.Used[h.class][by] += n
	}
}

// evict evicts the oldest entry except keep, and reports whether there is one.
func (h *Holding) evict(keep *Entry) bool {
	x := h.ring.next
	if x == keep {
		x = x.next
	}
	if x == &h.ring {
		return false
	}
	h.group.Remove(x)
	h.group.evicted(x, h.Tenant)
	return true
}

// holdings is a set of holdings.
type holdings struct {
	tenants map[string]*Holding // nil if several holdings belong to one tenant
	all     []*Holding
	used    int // entries, counted for a group only
}

func (s *holdings) add(h *Holding) {
	s.all = append(s.all, h)
	if s.tenants != nil {
		s.tenants[h.Tenant] = h
	}
}

func (s *holdings) remove(h *Holding) {
	last := len(s.all) - 1
	s.all[slices.Index(s.all, h)], s.all[last] = s.all[last], nil
	s.all = s.all[:last]
	delete(s.tenants, h.Tenant)
}

// entries returns the number of entries of a tenant.
func (s *holdings) entries(tenant string) int {
	if h := s.tenants[tenant]; h != nil {
		return h.load[InEntries]
	}
	return 0
}

// heaviest returns the holding with the greatest load, and of equal ones the least recently
// used. It returns nil if there is none.
func (s *holdings) heaviest(by int) (most *Holding) {
	for _, h := range s.all {
		if most == nil || h.load[by] > most.load[by] || h.load[by] == most.load[by] && h.used < most.used {
			most = h
		}
	}
	return most
}
