package fair

import (
	"container/heap"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Seen remembers the fingerprints of the newest lines to find repeats. It is an LRU cache
// without an allocation or a pointer per entry, because each line of a storm is an entry.
// Like a room it is shared among parties: the one with the most loses its oldest. A quarter
// is reserved for infrastructure.
type Seen struct {
	max   int
	infra func(party string) bool // nil means that no party is infrastructure
	slots []seenSlot
	// heads are the first slots of the chains of a hash table; -1: none. Its size
	// is a power of two and grows with the slots, so that nearly all chains have one slot:
	// each further one is a miss of the CPU cache.
	heads []int32
	// factor is random, so that no one can write lines that collide in one chain.
	factor  uint64
	parties map[string]*seenParty
	numbers []*seenParty // by number; those without slots are reused
	free    []int32      // their numbers
	// ranks are of the parties that are no infrastructure and of those that are. They are in
	// order only while all slots are in use, because nothing is evicted before.
	ranks   [2]ranking
	used    [2]int     // slots, in the order of ranks
	last    *seenParty // of the line before
	clock   uint64
	touched int32 // keeps what Touch loads from being optimized away
	Evicted int64 // fingerprints
}

// seenParty is what one party has, a list in order of use.
type seenParty struct {
	node
	party          string
	number         int32
	side           int   // index in Seen.ranks
	newest, oldest int32 // -1: none
}

type seenSlot struct {
	id           uint64
	chain        int32 // the next slot of the chain, -1: none
	newer, older int32 // of the party, -1: none
	party        int32 // its number
}

const (
	firstHeads   = 256
	headsPerSlot = 4
)

// NewSeen makes an empty memory of at most limit fingerprints.
func NewSeen(limit int, infra func(party string) bool) *Seen {
	f := &Seen{max: min(limit, math.MaxInt32), infra: infra, factor: rand.Uint64() | 1, parties: map[string]*seenParty{}}
	f.grow(firstHeads)
	return f
}

// head is the chain of an ID.
func (f *Seen) head(id uint64) *int32 {
	return &f.heads[(id*f.factor)>>32&uint64(len(f.heads)-1)]
}

// Add remembers an ID as the newest of a party and reports whether it was known.
func (f *Seen) Add(id uint64, party string) (known bool) {
	head := f.head(id)
	for i := *head; i >= 0; i = f.slots[i].chain {
		if f.slots[i].id == id {
			if p := f.numbers[f.slots[i].party]; i != p.newest {
				f.unlink(p, i)
				f.link(p, i)
			}
			return true
		}
	}
	p := f.of(party)
	i := int32(len(f.slots))
	switch {
	case len(f.slots) == f.max:
		i = f.evict(p)
	case headsPerSlot*len(f.slots) == len(f.heads):
		f.grow(2 * len(f.heads))
		head = f.head(id)
		fallthrough
	default:
		f.slots = append(f.slots, seenSlot{})
		p.load[InEntries]++
		f.used[p.side]++
		if len(f.slots) == f.max {
			heap.Init(&f.ranks[0])
			heap.Init(&f.ranks[1])
		}
	}
	f.slots[i].id, f.slots[i].chain = id, *head
	*head = i
	f.link(p, i)
	return false
}

// Touch loads what Add is about to need for these IDs into the CPU cache. Add waits for each
// load; the loads of Touch overlap. It changes nothing.
func (f *Seen) Touch(ids []uint64) {
	sum := int32(0)
	for _, id := range ids {
		sum += *f.head(id)
	}
	if f.last != nil && len(f.slots) == f.max { // most likely the same party loses as many
		i := f.last.oldest
		for range ids {
			if i < 0 {
				break
			}
			sum += *f.head(f.slots[i].id)
			i = f.slots[i].newer
		}
	}
	f.touched = sum
}

// of returns the account of a party. The caller must charge it.
func (f *Seen) of(party string) *seenParty {
	f.clock++
	if p := f.last; p != nil && p.party == party {
		p.used = f.clock
		return p
	}
	p := f.parties[party]
	if p == nil {
		p = &seenParty{party: strings.Clone(party), number: int32(len(f.numbers)), newest: -1, oldest: -1}
		if n := len(f.free); n > 0 {
			p.number, f.free = f.free[n-1], f.free[:n-1]
			f.numbers[p.number] = p
		} else {
			f.numbers = append(f.numbers, p)
		}
		p.seen = p
		if f.infra != nil && f.infra(party) {
			p.side = 1
		}
		f.parties[p.party] = p
		f.ranks[p.side].add(&p.node)
	}
	p.used, f.last = f.clock, p
	return p
}

// charge adds n slots to a party. One that has none is forgotten.
func (f *Seen) charge(p *seenParty, n int) {
	rank := &f.ranks[p.side]
	f.used[p.side] += n
	if p.load[InEntries] += n; p.load[InEntries] > 0 {
		rank.fix(&p.node)
		return
	}
	rank.remove(&p.node)
	delete(f.parties, p.party)
	f.numbers[p.number] = nil
	f.free = append(f.free, p.number)
}

// link makes a slot the newest of a party.
func (f *Seen) link(p *seenParty, i int32) {
	s := &f.slots[i]
	s.newer, s.older, s.party = -1, p.newest, p.number
	if p.newest >= 0 {
		f.slots[p.newest].newer = i
	} else {
		p.oldest = i
	}
	p.newest = i
}

// unlink is the inverse of link for any slot of a party.
func (f *Seen) unlink(p *seenParty, i int32) {
	s := &f.slots[i]
	if s.newer >= 0 {
		f.slots[s.newer].older = s.older
	} else {
		p.newest = s.older
	}
	if s.older >= 0 {
		f.slots[s.older].newer = s.newer
	} else {
		p.oldest = s.newer
	}
}

// loser returns the ranking of the party that loses a slot: infrastructure loses none of its
// reserve.
func (f *Seen) loser() *ranking {
	others, infra := &f.ranks[0], &f.ranks[1]
	if f.used[1] == 0 || f.used[0] > 0 && (f.used[1] <= f.max/4 || others.maxLoad() > infra.maxLoad()) {
		return others
	}
	return infra
}

// evict frees a slot for a party and charges the party: the oldest slot of the party with
// the most, or its own oldest if it has as many.
func (f *Seen) evict(to *seenParty) int32 {
	p, rank := to, f.loser()
	if rank != &f.ranks[to.side] || to.load[InEntries] < rank.maxLoad() {
		p = rank.first().seen
	}
	i := p.oldest
	f.unlink(p, i)
	at := f.head(f.slots[i].id)
	for *at != i {
		at = &f.slots[*at].chain
	}
	*at = f.slots[i].chain
	if p != to {
		f.charge(to, 1)
		f.charge(p, -1)
	}
	f.Evicted++
	return i
}

// grow rebuilds the hash table.
func (f *Seen) grow(n int) {
	f.heads = make([]int32, n)
	for i := range f.heads {
		f.heads[i] = -1
	}
	for i := range f.slots {
		head := f.head(f.slots[i].id)
		f.slots[i].chain, *head = *head, int32(i)
	}
}

// Share is how many of the saved fingerprints belong to a party.
type Share struct {
	Party string `json:"p,omitempty"`
	N     int    `json:"n"`
}

// Reclass learns anew which parties are infrastructure.
func (f *Seen) Reclass() {
	if f.infra == nil {
		return
	}
	for _, p := range f.parties {
		f.ranks[p.side].remove(&p.node)
		f.used[p.side] -= p.load[InEntries]
		p.side = 0
		if f.infra(p.party) {
			p.side = 1
		}
		f.ranks[p.side].add(&p.node)
		f.used[p.side] += p.load[InEntries]
	}
}

// Save returns what is remembered, 8 bytes each, little endian, party after
// party, each from the oldest.
func (f *Seen) Save() (out []byte, shares []Share) {
	out = make([]byte, 0, 8*len(f.slots))
	for _, party := range slices.Sorted(maps.Keys(f.parties)) {
		p := f.parties[party]
		shares = append(shares, Share{party, p.load[InEntries]})
		for i := p.oldest; i >= 0; i = f.slots[i].newer {
			out = binary.LittleEndian.AppendUint64(out, f.slots[i].id)
		}
	}
	return out, shares
}

// Load adds saved fingerprints as the newest. Those that no share covers belong to no
// party.
func (f *Seen) Load(in []byte, shares []Share) {
	for ; len(in) >= 8; in = in[8:] {
		for len(shares) > 0 && shares[0].N <= 0 {
			shares = shares[1:]
		}
		party := ""
		if len(shares) > 0 {
			party = shares[0].Party
			shares[0].N--
		}
		f.Add(binary.LittleEndian.Uint64(in), party)
	}
}

// Len returns the number of fingerprints.
func (f *Seen) Len() int { return len(f.slots) }
