package quota

import (
	"iter"
	"slices"
)

// Holding is the part of a group that belongs to one tenant. It is a ring of entries in the order of their last use. A
// Holding also serves as an account, which is the sum of a tenant's holdings of one class in a pool. An account has no
// entries itself.
type Holding struct {
	Tenant  string
	class   Class
	load    Load
	used    uint64 // value of Pool.clock at the last use
	group   *Group
	account *Holding
	parts   holdings // holdings that an account sums up, which are not indexed by tenant
	ring    Entry    // head of the ring; its next is the least recently used entry
}

// Entry is embedded in each value that a pool limits. Key and ID are for the owner of the value.
type Entry struct {
	Key        string
	ID         uint64
	Size       int
	holding    *Holding // holding of the entry; nil if the entry is in no group
	prev, next *Entry
}

// Tenant returns the tenant to which the entry is charged. The entry must be in a group.
func (x *Entry) Tenant() string { return x.holding.Tenant }

// Owner returns the owner of the entry's group.
func (x *Entry) Owner() any { return x.holding.group.owner }

// IsPlaced reports whether the entry is in a group.
func (x *Entry) IsPlaced() bool { return x.holding != nil }

// Entries yields the entries of a holding, the least recently used one first.
func (h *Holding) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for x := h.ring.next; x != &h.ring && yield(x); x = x.next {
		}
	}
}

// push makes an entry the most recently used one of the holding.
func (h *Holding) push(x *Entry) {
	x.holding, x.prev, x.next = h, h.ring.prev, &h.ring
	x.prev.next, x.next.prev = x, x
	p := h.group.pool
	p.clock++
	h.used, h.account.used = p.clock, p.clock
}

func (x *Entry) unlink() {
	x.prev.next, x.next.prev = x.next, x.prev
	x.holding, x.prev, x.next = nil, nil, nil
}

// addLoad adds a number of entries and their size to the counters of a holding. Both may be negative.
func (h *Holding) addLoad(entries, size int) {
	h.group.sides[h.class.sideIndex()].used += entries
	for by, n := range (Load{entries, size}) {
		h.load[by] += n
		h.account.load[by] += n
		h.group.pool.Used[h.class][by] += n
	}
}

// evict evicts the least recently used entry other than keep. It returns false if there is none.
func (h *Holding) evict(keep *Entry) bool {
	x := h.ring.next
	if x == keep {
		x = x.next
	}
	if x == &h.ring {
		return false
	}
	h.group.Remove(x)
	h.group.onEvict(x, h.Tenant)
	return true
}

// holdings is a set of holdings, with an index by tenant.
type holdings struct {
	tenants map[string]*Holding // holdings by tenant; nil if a tenant may have several holdings
	all     []*Holding
	used    int // number of entries; only for the holdings of a group
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

func (s *holdings) entries(tenant string) int {
	if h := s.tenants[tenant]; h != nil {
		return h.load[InEntries]
	}
	return 0
}

// heaviestHolding returns the holding with the largest load. If several have the same load, it returns the least
// recently used one. It returns nil if there is none.
func (s *holdings) heaviestHolding(measure int) (most *Holding) {
	for _, h := range s.all {
		if most == nil || h.load[measure] > most.load[measure] || h.load[measure] == most.load[measure] && h.used < most.used {
			most = h
		}
	}
	return most
}
