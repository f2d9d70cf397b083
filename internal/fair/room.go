// Package fair divides bounded memory among namespaces. With a bound alone, the busiest one
// would push out all others. So every entry is charged to a party, the namespace of its
// stream, and the party with the most loses first.
//
// Nothing in it is safe for concurrent use.
package fair

// Class says which reserves an entry may use. A later class also has those of the classes
// before it.
type Class int

// The classes. Infrastructure is added to the class of a shelf for the entries of parties
// that are infrastructure.
const (
	Ordinary Class = iota
	Critical
	Infrastructure
	Classes = 2 * Infrastructure
)

// Load counts entries, and lines in them.
type Load [2]int

// The indexes of a Load.
const (
	InEntries = iota
	InLines
)

// Room bounds the entries of all rules. When it is full, the party with the most loses one:
// of its rule with the most entries, the least recently used. So a party with less than an
// equal share loses nothing, and one busy rule of a party costs its other rules nothing.
//
// A class may also use what the classes before it leave free, until they need it.
type Room struct {
	bounds   Bounds
	infra    func(party string) bool // nil means that no party is infrastructure
	Used     [Classes]Load           // do not change it
	accounts [Classes]map[string]*account
	ranks    [Classes][2]ranking // rankings of the accounts
	clock    uint64              // counts uses
}

// Bounds has for each class what it and the classes before it may have together. So the
// difference to the class before is a reserve that those cannot take.
type Bounds [Classes]Load

// Reserve returns the bounds of a room of a size, in which infrastructure has a reserve, and
// critical rules of both have a quarter more.
func Reserve(size, infrastructure Load) (b Bounds) {
	for by := range size {
		n, infra := size[by], infrastructure[by]
		for c, more := range []int{n, n / 4, infra, infra / 4} {
			b[c][by] = more
			if c > 0 {
				b[c][by] += b[c-1][by]
			}
		}
	}
	return b
}

// account is what a party has in a room, for one class of rules.
type account struct {
	node
	cells [2]ranking
}

// Cell holds what a party has on one shelf: a list of entries in order of use.
type Cell struct {
	node
	Party          string
	class          Class
	shelf          *Shelf
	account        *account
	oldest, newest *Entry
}

// Entry is embedded in each thing that needs room.
type Entry struct {
	Key          string
	Lines        int
	cell         *Cell // nil: it is on no shelf
	older, newer *Entry
}

// NewRoom makes an empty room.
func NewRoom(b Bounds, infra func(party string) bool) *Room {
	r := &Room{bounds: b, infra: infra}
	for c := range Classes {
		r.accounts[c] = map[string]*account{}
		r.ranks[c] = newRankings()
	}
	return r
}

// squeeze evicts until the room is within its bounds. It does not evict keep.
func (r *Room) squeeze(keep *Entry) {
	for by := range r.bounds[Ordinary] {
		for {
			c, over := r.over(by)
			if !over || !r.ranks[c][by].first().account.cells[by].first().cell.evict(keep) {
				break
			}
		}
	}
}

// over reports whether the room is over a bound, and which class must lose something: the one
// that exceeds its reserve.
func (r *Room) over(by int) (Class, bool) {
	used := 0
	for c := range Classes {
		if used += r.Used[c][by]; used > r.bounds[c][by] {
			return c, true
		}
	}
	return Ordinary, false
}

// classOf returns the class of what a party has on the shelf.
func (s *Shelf) classOf(party string) Class {
	if s.room.infra != nil && s.room.infra(party) {
		return s.class + Infrastructure
	}
	return s.class
}

// Entries is how many entries a party has in the room.
func (r *Room) Entries(c Class, party string) int {
	if a := r.accounts[c][party]; a != nil {
		return a.load[InEntries]
	}
	return 0
}

// charge adds entries and lines, which may be negative, to a cell.
func (c *Cell) charge(entries, lines int) {
	s, a := c.shelf, c.account
	r := s.room
	s.used[c.side()] += entries
	for by, n := range (Load{entries, lines}) {
		c.load[by] += n
		a.load[by] += n
		r.Used[c.class][by] += n
		if n != 0 {
			a.cells[by].fix(&c.node)
			r.ranks[c.class][by].fix(&a.node)
		}
	}
	if entries != 0 {
		s.cells[c.side()].fix(&c.node)
	}
}

// use records that an entry of the cell is used.
func (c *Cell) use() {
	r := c.shelf.room
	r.clock++
	c.used, c.account.used = r.clock, r.clock
}

// push makes an entry the newest of the cell.
func (c *Cell) push(x *Entry) {
	x.cell, x.older, x.newer = c, c.newest, nil
	if c.newest != nil {
		c.newest.newer = x
	} else {
		c.oldest = x
	}
	c.newest = x
}

// unlink is the inverse of push for any entry of the cell.
func (c *Cell) unlink(x *Entry) {
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		c.newest = x.older
	}
	if x.older != nil {
		x.older.newer = x.newer
	} else {
		c.oldest = x.newer
	}
	x.cell, x.older, x.newer = nil, nil, nil
}

// evict evicts the oldest entry except keep, and reports whether there is one.
func (c *Cell) evict(keep *Entry) bool {
	x := c.oldest
	if x == keep {
		x = x.newer
	}
	if x == nil {
		return false
	}
	s := c.shelf
	s.Remove(x)
	s.evicted(x, c.Party)
	return true
}

// Total returns how many entries there are.
func (r *Room) Total() (n int) {
	for _, used := range r.Used {
		n += used[InEntries]
	}
	return n
}

// Parties returns how many parties have an entry in the room.
func (r *Room) Parties(c Class) int { return len(r.accounts[c]) }
