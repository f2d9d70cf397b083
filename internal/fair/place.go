package fair

import "iter"

// Bound is a bound that leaves no place for an entry.
type Bound int

// The bounds.
const (
	noBound Bound = iota
	OfParty       // what one party may have in the room
	OfShelf
	OfRoom
)

// Place finds a place for one more entry of a party, which may have perParty in the room.
// It returns the cells that must lose an entry first, or the bound that leaves no place. At
// a bound, the party (or within one party, the shelf) with more entries loses one. No entry
// is displaced for a party that has as many.
func (s *Shelf) Place(party string, perParty int) (displaced []*Cell, full Bound) {
	own, class := s.entries(party), s.classOf(party)
	side := class.side()
	if a := s.room.accounts[class][party]; a != nil && party != "" && a.load[InEntries] >= perParty {
		c := a.cells[InEntries].heaviest(own)
		if c == nil {
			return nil, OfParty
		}
		displaced = append(displaced, c)
	}
	var c *Cell
	switch {
	case s.used[side] >= s.max:
		c, full = s.cells[side].heaviest(own), OfShelf
	case displaced == nil && s.room.isFull(class):
		c, full = s.room.heaviest(class, party, own), OfRoom
	default:
		return displaced, noBound
	}
	if c == nil {
		return nil, full
	}
	return append(displaced, c), noBound
}

// isFull reports whether there is no room for one more entry of a class.
func (r *Room) isFull(c Class) bool {
	used := 0
	for x := range Classes {
		if used += r.Used[x][InEntries]; x >= c && used >= r.bounds[x][InEntries] {
			return true
		}
	}
	return false
}

// heaviest returns the cell with the most entries if it has more than own+1, else nil.
func (r *ranking) heaviest(own int) *Cell {
	if len(r.nodes) == 0 {
		return nil
	}
	if n := r.first(); n.load[InEntries] > own+1 {
		return n.cell
	}
	return nil
}

// heaviest returns the cell that must lose an entry if a party with own entries on the same
// shelf gets one more; nil: no cell has enough more.
func (r *Room) heaviest(c Class, party string, own int) *Cell {
	if r.Used[c][InEntries] == 0 {
		return nil
	}
	a := r.ranks[c][InEntries].first().account
	if a == r.accounts[c][party] {
		return a.cells[InEntries].heaviest(own)
	}
	if a.load[InEntries] <= r.Entries(c, party)+1 {
		return nil
	}
	return a.cells[InEntries].first().cell
}

// Longest returns the entry with the most lines of the party that has the most lines in
// one shelf, nil if the lines of the room are within its bound.
func (r *Room) Longest() *Entry {
	c, over := r.over(InLines)
	if !over {
		return nil
	}
	x := r.ranks[c][InLines].first().account.cells[InLines].first().cell.oldest
	for y := x; y != nil; y = y.newer {
		if y.Lines > x.Lines {
			x = y
		}
	}
	return x
}

// Party returns the party that is charged for the entry, which must be on a shelf.
func (x *Entry) Party() string { return x.cell.Party }

// Owner returns the owner of the shelf that the entry is on.
func (x *Entry) Owner() any { return x.cell.shelf.owner }

// Placed reports whether the entry is on a shelf.
func (x *Entry) Placed() bool { return x.cell != nil }

// Entries yields the entries of the cell from the one that was used least recently.
func (c *Cell) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for x := c.oldest; x != nil; x = x.newer {
			if !yield(x) {
				return
			}
		}
	}
}
