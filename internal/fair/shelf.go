package fair

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Shelf holds what one rule has in a room. It also has a bound of its own, once for parties
// that are infrastructure and once for all others.
type Shelf struct {
	owner   any
	room    *Room
	max     int    // entries on each side
	used    [2]int // entries on each side
	class   Class  // the class of ordinary parties
	parties map[string]*Cell
	cells   [2]ranking // rankings of the cells of each side
	// evicted is called after an entry of a party was evicted.
	evicted func(x *Entry, party string)
}

// NewShelf makes an empty shelf of at most maximum entries.
func NewShelf(owner any, c Class, r *Room, maximum int, evicted func(*Entry, string)) *Shelf {
	return &Shelf{
		owner: owner, room: r, max: maximum, class: c, parties: map[string]*Cell{},
		cells: [2]ranking{{by: InEntries, place: inShelf}, {by: InEntries, place: inShelf}}, evicted: evicted,
	}
}

// side is 1 for infrastructure, else 0.
func (c Class) side() int {
	if c >= Infrastructure {
		return 1
	}
	return 0
}

func (c *Cell) side() int { return c.class.side() }

// Used returns the number of entries.
func (s *Shelf) Used() int { return s.used[0] + s.used[1] }

// Put charges an entry to a party, as its newest.
func (s *Shelf) Put(x *Entry, party string) {
	c := s.parties[party]
	if c == nil {
		c = s.open(strings.Clone(party))
	}
	c.push(x)
	c.use()
	c.charge(1, x.Lines)
}

// Remove is the inverse of Put.
func (s *Shelf) Remove(x *Entry) {
	c := x.cell
	c.unlink(x)
	c.charge(-1, -x.Lines)
	if c.oldest == nil {
		s.close(c)
	}
}

// open makes the cell of a party, and its account if it has none.
func (s *Shelf) open(party string) *Cell {
	r, class := s.room, s.classOf(party)
	a := r.accounts[class][party]
	if a == nil {
		a = &account{cells: newRankings()}
		a.account = a
		r.accounts[class][party] = a
		for by := range a.cells {
			r.ranks[class][by].add(&a.node)
		}
	}
	c := &Cell{Party: party, class: class, shelf: s, account: a}
	c.cell = c
	s.parties[party] = c
	s.cells[c.side()].add(&c.node)
	for by := range a.cells {
		a.cells[by].add(&c.node)
	}
	return c
}

// close is the inverse of open.
func (s *Shelf) close(c *Cell) {
	r, a := s.room, c.account
	delete(s.parties, c.Party)
	s.cells[c.side()].remove(&c.node)
	for by := range a.cells {
		a.cells[by].remove(&c.node)
	}
	if len(a.cells[InEntries].nodes) > 0 {
		return
	}
	delete(r.accounts[c.class], c.Party)
	for by := range a.cells {
		r.ranks[c.class][by].remove(&a.node)
	}
}

// Use records that a line of a party needs the entry. An entry that several parties
// need is charged to infrastructure, or to the one with the least load: no party can make
// another lose an entry by writing the same lines.
func (s *Shelf) Use(x *Entry, party string) {
	c := x.cell
	if c.Party != party && s.prefers(party, c) {
		s.Remove(x)
		s.Put(x, party)
		return
	}
	if c.newest != x {
		c.unlink(x)
		c.push(x)
	}
	c.use()
}

// prefers reports whether a party should be charged for what a cell is charged for.
func (s *Shelf) prefers(party string, c *Cell) bool {
	if class := s.classOf(party); class != c.class {
		return class > c.class
	}
	return s.room.Entries(c.class, party)+1 < c.account.load[InEntries]
}

// Resize notes how many lines an entry has.
func (s *Shelf) Resize(x *Entry, lines int) {
	if d := lines - x.Lines; d != 0 {
		x.Lines = lines
		x.cell.charge(0, d)
	}
}

// Squeeze evicts until the shelf and its room are within their bounds. It does not evict
// keep.
func (s *Shelf) Squeeze(keep *Entry) {
	for side, n := range s.used {
		for ; n > s.max && s.cells[side].first().cell.evict(keep); n-- {
		}
	}
	s.room.squeeze(keep)
}

// entries is how many entries a party has on the shelf.
func (s *Shelf) entries(party string) int {
	if c := s.parties[party]; c != nil {
		return c.load[InEntries]
	}
	return 0
}

// all yields the entries with their parties, sorted by party, then in order of use.
func (s *Shelf) all() iter.Seq2[*Entry, string] {
	return func(yield func(*Entry, string) bool) {
		for _, party := range slices.Sorted(maps.Keys(s.parties)) {
			for x := s.parties[party].oldest; x != nil; x = x.newer {
				if !yield(x, party) {
					return
				}
			}
		}
	}
}

// Reclass sets the class, and charges everything anew: other parties may be infrastructure
// than before.
func (s *Shelf) Reclass(c Class) {
	type kept struct {
		x     *Entry
		party string
	}
	var all []kept
	for x, party := range s.all() {
		all = append(all, kept{x, party})
	}
	for _, k := range all {
		s.Remove(k.x)
	}
	s.class = c
	for _, k := range all {
		s.Put(k.x, k.party)
	}
}

// Cache is a shelf of values by key.
type Cache[V any] struct {
	*Shelf
	Items map[string]*Item[V]
}

// Item is one value of a Cache.
type Item[V any] struct {
	Entry
	Value V
}

// NewCache makes an empty cache. evicted is called after a value was evicted.
func NewCache[V any](owner any, c Class, r *Room, maximum int, evicted func(key string, v V, party string)) *Cache[V] {
	k := &Cache[V]{Items: map[string]*Item[V]{}}
	k.Shelf = NewShelf(owner, c, r, maximum, func(x *Entry, party string) {
		v := k.Items[x.Key].Value
		delete(k.Items, x.Key)
		evicted(x.Key, v, party)
	})
	return k
}

// Add sets the value of a key and charges it to a party. lines is its size.
func (k *Cache[V]) Add(key, party string, v V, lines int) *Item[V] {
	x := k.Items[key]
	if x == nil {
		x = &Item[V]{Entry: Entry{Key: key, Lines: lines}, Value: v}
		k.Items[key] = x
		k.Put(&x.Entry, party)
	} else {
		x.Value = v
		k.Use(&x.Entry, party)
		k.Resize(&x.Entry, lines)
	}
	k.Squeeze(&x.Entry)
	return x
}

// Delete removes a key, if it is there.
func (k *Cache[V]) Delete(key string) {
	if x := k.Items[key]; x != nil {
		k.Remove(&x.Entry)
		delete(k.Items, key)
	}
}

// Purge removes everything.
func (k *Cache[V]) Purge() {
	for _, x := range k.Items {
		k.Remove(&x.Entry)
	}
	clear(k.Items)
}

// Values yields the items with their parties, in the order of all.
func (k *Cache[V]) Values() iter.Seq2[*Item[V], string] {
	return func(yield func(*Item[V], string) bool) {
		for x, party := range k.all() {
			if !yield(k.Items[x.Key], party) {
				return
			}
		}
	}
}
