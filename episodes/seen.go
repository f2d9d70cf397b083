package episodes

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// fingerprints remembers the newest lines to find repeats. It is an LRU cache
// without an allocation and a pointer per entry: each line of a storm is one.
type fingerprints struct {
	max   int
	slots []seenSlot
	// heads are the first slots of the chains of a hash table; -1: none. Its size
	// is a power of two and grows with the slots.
	heads []int32
	// factor is random: nobody can write lines that meet in one chain.
	factor  uint64
	newest  int32
	oldest  int32
	evicted int64
}

type seenSlot struct {
	id           uint64
	chain        int32 // the next slot of the chain, -1: none
	newer, older int32 // -1: none
}

const firstHeads = 256

func newFingerprints(limit int) *fingerprints {
	f := &fingerprints{max: min(limit, math.MaxInt32), factor: rand.Uint64() | 1, newest: -1, oldest: -1}
	f.grow(firstHeads)
	return f
}

// head is the chain of an ID.
func (f *fingerprints) head(id uint64) *int32 {
	return &f.heads[(id*f.factor)>>32&uint64(len(f.heads)-1)]
}

// add remembers an ID as the newest and tells whether it was known.
func (f *fingerprints) add(id uint64) (known bool) {
	head := f.head(id)
	for i := *head; i >= 0; i = f.slots[i].chain {
		if f.slots[i].id == id {
			if i != f.newest {
				f.unlink(i)
				f.link(i)
			}
			return true
		}
	}
	i := int32(len(f.slots))
	switch {
	case len(f.slots) == f.max:
		i = f.oldest
		f.evict(i)
		f.evicted++
	case len(f.slots) == len(f.heads):
		f.grow(2 * len(f.heads))
		head = f.head(id)
		fallthrough
	default:
		f.slots = append(f.slots, seenSlot{})
	}
	f.slots[i].id, f.slots[i].chain = id, *head
	*head = i
	f.link(i)
	return false
}

// link makes a slot the newest.
func (f *fingerprints) link(i int32) {
	s := &f.slots[i]
	s.newer, s.older = -1, f.newest
	if f.newest >= 0 {
		f.slots[f.newest].newer = i
	} else {
		f.oldest = i
	}
	f.newest = i
}

// unlink is the inverse of link for any slot.
func (f *fingerprints) unlink(i int32) {
	s := &f.slots[i]
	if s.newer >= 0 {
		f.slots[s.newer].older = s.older
	} else {
		f.newest = s.older
	}
	if s.older >= 0 {
		f.slots[s.older].newer = s.newer
	} else {
		f.oldest = s.newer
	}
}

// evict takes a slot out of its chain and of the order.
func (f *fingerprints) evict(i int32) {
	f.unlink(i)
	at := f.head(f.slots[i].id)
	for *at != i {
		at = &f.slots[*at].chain
	}
	*at = f.slots[i].chain
}

// grow makes the hash table anew.
func (f *fingerprints) grow(n int) {
	f.heads = make([]int32, n)
	for i := range f.heads {
		f.heads[i] = -1
	}
	for i := range f.slots {
		head := f.head(f.slots[i].id)
		f.slots[i].chain, *head = *head, int32(i)
	}
}

// save returns what is remembered, oldest first, 8 bytes each, little endian.
func (f *fingerprints) save() []byte {
	out := make([]byte, 0, 8*len(f.slots))
	for i := f.oldest; i >= 0; i = f.slots[i].newer {
		out = binary.LittleEndian.AppendUint64(out, f.slots[i].id)
	}
	return out
}

// load remembers what was saved, as the newest.
func (f *fingerprints) load(in []byte) {
	for ; len(in) >= 8; in = in[8:] {
		f.add(binary.LittleEndian.Uint64(in))
	}
}
