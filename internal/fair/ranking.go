package fair

import "container/heap"

// node is ranked by its load. One of account, cell and seen is set: the one that embeds it.
type node struct {
	account *account
	cell    *Cell
	seen    *seenParty
	load    Load
	used    uint64 // when it was used last
	places  [3]place
}

// place is where a node is in one ranking.
type place struct {
	index int
	used  uint64 // node.used when the ranking was last fixed, or earlier
}

// The places of a node: in the rankings of the account or room by entries and by lines, and
// in the ranking of the shelf.
const inShelf = 2

// ranking finds the node with the greatest load, and of equal ones the least recently used.
type ranking struct {
	nodes []*node
	by    int // index in the load
	place int // index in the places of each node
}

func newRankings() [2]ranking {
	return [2]ranking{{by: InEntries, place: InEntries}, {by: InLines, place: InLines}}
}

// first returns the first node. A use only moves a node back, so its place is updated when
// it comes first.
func (r *ranking) first() *node {
	for {
		n := r.nodes[0]
		p := &n.places[r.place]
		if p.used == n.used {
			return n
		}
		p.used = n.used
		heap.Fix(r, 0)
	}
}

// maxLoad is the load of the first node.
func (r *ranking) maxLoad() int { return r.nodes[0].load[r.by] }

func (r *ranking) add(n *node)    { heap.Push(r, n) }
func (r *ranking) remove(n *node) { heap.Remove(r, n.places[r.place].index) }
func (r *ranking) fix(n *node)    { heap.Fix(r, n.places[r.place].index) }

// Len is for container/heap, as are the methods below.
func (r *ranking) Len() int { return len(r.nodes) }

// Less puts the greatest load first.
func (r *ranking) Less(i, k int) bool {
	a, b := r.nodes[i], r.nodes[k]
	if x, y := a.load[r.by], b.load[r.by]; x != y {
		return x > y
	}
	return a.places[r.place].used < b.places[r.place].used
}

// Swap also updates the places of the nodes.
func (r *ranking) Swap(i, k int) {
	r.nodes[i], r.nodes[k] = r.nodes[k], r.nodes[i]
	r.nodes[i].places[r.place].index = i
	r.nodes[k].places[r.place].index = k
}

// Push adds a node.
func (r *ranking) Push(x any) {
	n := x.(*node)
	n.places[r.place] = place{len(r.nodes), n.used}
	r.nodes = append(r.nodes, n)
}

// Pop removes the last node.
func (r *ranking) Pop() any {
	last := len(r.nodes) - 1
	n := r.nodes[last]
	r.nodes[last] = nil
	r.nodes = r.nodes[:last]
	return n
}
