package episodes

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// shelf is what one rule has in a room, bounded by itself as well.
type shelf struct {
	rs      *ruleState
	room    *room
	max     int // entries
	used    int
	class   class
	parties map[string]*cell
	cells   ranking
	// evicted is called after an entry of a party was evicted.
	evicted func(x *entry, party string)
}

func newShelf(rs *ruleState, r *room, maximum int, evicted func(*entry, string)) *shelf {
	return &shelf{
		rs: rs, room: r, max: maximum, class: classOf(rs.rule), parties: map[string]*cell{},
		cells: ranking{by: inEntries, place: inShelf}, evicted: evicted,
	}
}

// put charges an entry to a party, as its newest.
func (s *shelf) put(x *entry, party string) {
	c := s.parties[party]
	if c == nil {
		c = s.open(strings.Clone(party))
	}
	c.push(x)
	c.use()
	c.charge(1, x.lines)
}

// remove is the inverse of put.
func (s *shelf) remove(x *entry) {
	c := x.cell
	c.unlink(x)
	c.charge(-1, -x.lines)
	if c.oldest == nil {
		s.close(c)
	}
}

// open makes the cell of a party, and its account if it has none.
func (s *shelf) open(party string) *cell {
	r := s.room
	a := r.accounts[s.class][party]
	if a == nil {
		a = &account{cells: newRankings()}
		a.account = a
		r.accounts[s.class][party] = a
		for by := range r.max {
			r.ranks[s.class][by].add(&a.node)
		}
	}
	c := &cell{party: party, shelf: s, account: a}
	c.cell = c
	s.parties[party] = c
	s.cells.add(&c.node)
	for by := range r.max {
		a.cells[by].add(&c.node)
	}
	return c
}

// close is the inverse of open.
func (s *shelf) close(c *cell) {
	r, a := s.room, c.account
	delete(s.parties, c.party)
	s.cells.remove(&c.node)
	for by := range r.max {
		a.cells[by].remove(&c.node)
	}
	if len(a.cells[inEntries].nodes) > 0 {
		return
	}
	delete(r.accounts[s.class], c.party)
	for by := range r.max {
		r.ranks[s.class][by].remove(&a.node)
	}
}

// use records that a line of a party needs the entry. An entry that several parties
// need is charged to the one with the least load: no party can make another lose an
// entry by writing the same lines.
func (s *shelf) use(x *entry, party string) {
	c := x.cell
	if c.party != party && s.room.entries(s.class, party)+1 < c.account.load[inEntries] {
		s.remove(x)
		s.put(x, party)
		return
	}
	if c.newest != x {
		c.unlink(x)
		c.push(x)
	}
	c.use()
}

// resize notes how many lines an entry has.
func (s *shelf) resize(x *entry, lines int) {
	if d := lines - x.lines; d != 0 {
		x.lines = lines
		x.cell.charge(0, d)
	}
}

// squeeze evicts until the shelf and its room are within their bounds. keep
// stays.
func (s *shelf) squeeze(keep *entry) {
	for s.used > s.max && s.cells.first().cell.evict(keep) {
	}
	s.room.squeeze(keep)
}

// entries is how many entries a party has on the shelf.
func (s *shelf) entries(party string) int {
	if c := s.parties[party]; c != nil {
		return c.load[inEntries]
	}
	return 0
}

// all yields the entries with their parties, in order of the parties and, for
// each, of use.
func (s *shelf) all() iter.Seq2[*entry, string] {
	return func(yield func(*entry, string) bool) {
		for _, party := range slices.Sorted(maps.Keys(s.parties)) {
			for x := s.parties[party].oldest; x != nil; x = x.newer {
				if !yield(x, party) {
					return
				}
			}
		}
	}
}

// reclass moves everything into another class.
func (s *shelf) reclass(c class) {
	if c == s.class {
		return
	}
	type kept struct {
		x     *entry
		party string
	}
	var all []kept
	for x, party := range s.all() {
		all = append(all, kept{x, party})
	}
	for _, k := range all {
		s.remove(k.x)
	}
	s.class = c
	for _, k := range all {
		s.put(k.x, k.party)
	}
}

// cache is a shelf of values by key.
type cache[V any] struct {
	*shelf
	items map[string]*item[V]
}

type item[V any] struct {
	entry
	value V
}

// newCache makes a cache. evicted is called with what was evicted.
func newCache[V any](rs *ruleState, r *room, maximum int, evicted func(key string, v V, party string)) *cache[V] {
	k := &cache[V]{items: map[string]*item[V]{}}
	k.shelf = newShelf(rs, r, maximum, func(x *entry, party string) {
		v := k.items[x.key].value
		delete(k.items, x.key)
		evicted(x.key, v, party)
	})
	return k
}

// add puts a value for a party, in place of what the key had. lines is its size.
func (k *cache[V]) add(key, party string, v V, lines int) *item[V] {
	x := k.items[key]
	if x == nil {
		x = &item[V]{entry: entry{key: key, lines: lines}, value: v}
		k.items[key] = x
		k.put(&x.entry, party)
	} else {
		x.value = v
		k.use(&x.entry, party)
		k.resize(&x.entry, lines)
	}
	k.squeeze(&x.entry)
	return x
}

// delete removes a key, if it is there.
func (k *cache[V]) delete(key string) {
	if x := k.items[key]; x != nil {
		k.remove(&x.entry)
		delete(k.items, key)
	}
}

// purge removes everything.
func (k *cache[V]) purge() {
	for _, x := range k.items {
		k.remove(&x.entry)
	}
	clear(k.items)
}

// values yields the items with their parties, in the order of all.
func (k *cache[V]) values() iter.Seq2[*item[V], string] {
	return func(yield func(*item[V], string) bool) {
		for x, party := range k.all() {
			if !yield(k.items[x.key], party) {
				return
			}
		}
	}
}
