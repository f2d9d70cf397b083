package episodes

// Memory that log lines fill is bounded. With a bound alone, the namespace that writes
// most would push out all others, so each bound is a room that is shared: every entry is
// charged to a party, the namespace of its stream.

// class separates the rules that have a reserve from the others.
type class int

const (
	ordinary class = iota
	critical
	classes
)

// load is how much there is of something: entries, and lines in them.
type load [2]int

const (
	inEntries = iota
	inLines
)

// room bounds the entries of all rules. When it is full, the party that has the
// most loses the entry that it used least recently, of the rule of which it has
// the most. So a party with less than an equal share loses nothing, and one
// busy rule of a party costs its other rules nothing.
//
// Critical rules have a reserve beyond max that no other rule can use. They may
// also use what others leave free, until others need it.
type room struct {
	max, reserve load
	used         [classes]load
	accounts     [classes]map[string]*account
	ranks        [classes][2]ranking // of the accounts
	clock        uint64              // counts uses
}

// account is what a party has in a room, for one class of rules.
type account struct {
	node
	cells [2]ranking
}

// cell is what a party has of one shelf: a list of entries in order of use.
type cell struct {
	node
	party          string
	shelf          *shelf
	account        *account
	oldest, newest *entry
}

// entry is one thing that needs room. It is part of what it stands for.
type entry struct {
	key          string
	lines        int
	cell         *cell // nil: it is in no room
	older, newer *entry
}

func newRoom(maximum load) *room {
	r := &room{max: maximum, reserve: load{maximum[inEntries] / 4, maximum[inLines] / 4}}
	for c := range classes {
		r.accounts[c] = map[string]*account{}
		r.ranks[c] = newRankings()
	}
	return r
}

// squeeze evicts until the room is within its bounds. keep stays.
func (r *room) squeeze(keep *entry) {
	for by := range r.max {
		for {
			c, over := r.over(by)
			if !over || !r.ranks[c][by].first().account.cells[by].first().cell.evict(keep) {
				break
			}
		}
	}
}

// over reports whether there is too much, and of which class. If it is of the
// critical one, that has more than its reserve.
func (r *room) over(by int) (class, bool) {
	switch used := r.used[ordinary][by]; {
	case used > r.max[by]:
		return ordinary, true
	case used+r.used[critical][by] > r.max[by]+r.reserve[by]:
		return critical, true
	}
	return ordinary, false
}

// entries is how many entries a party has in the room.
func (r *room) entries(c class, party string) int {
	if a := r.accounts[c][party]; a != nil {
		return a.load[inEntries]
	}
	return 0
}

// charge adds n entries and lines to a cell, which may be less than nothing.
func (c *cell) charge(entries, lines int) {
	s, a := c.shelf, c.account
	r := s.room
	s.used += entries
	for by, n := range (load{entries, lines}) {
		c.load[by] += n
		a.load[by] += n
		r.used[s.class][by] += n
		if n != 0 {
			a.cells[by].fix(&c.node)
			r.ranks[s.class][by].fix(&a.node)
		}
	}
	if entries != 0 {
		s.cells.fix(&c.node)
	}
}

// use notes that an entry of the cell is used.
func (c *cell) use() {
	r := c.shelf.room
	r.clock++
	c.used, c.account.used = r.clock, r.clock
}

// push makes an entry the newest of the cell.
func (c *cell) push(x *entry) {
	x.cell, x.older, x.newer = c, c.newest, nil
	if c.newest != nil {
		c.newest.newer = x
	} else {
		c.oldest = x
	}
	c.newest = x
}

// unlink is the inverse of push for any entry of the cell.
func (c *cell) unlink(x *entry) {
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

// evict evicts the oldest entry but keep, and reports whether there is one.
func (c *cell) evict(keep *entry) bool {
	x := c.oldest
	if x == keep {
		x = x.newer
	}
	if x == nil {
		return false
	}
	s := c.shelf
	s.remove(x)
	s.evicted(x, c.party)
	return true
}

// total is how many entries there are.
func (r *room) total() int { return r.used[ordinary][inEntries] + r.used[critical][inEntries] }
