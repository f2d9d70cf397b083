// Package quota shares bounded memory among tenants, which are namespaces: the tenant that
// uses the most loses its least recently used entry first, so nobody loses anything below an
// equal share. A Pool is such a memory, a Group is the part of it that one rule uses, and a
// Holding is what one tenant has in a group.
//
// Nothing in this package is safe for concurrent use.
package quota

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Class says which reserves an entry may use. A class may also use the reserves of the
// classes before it, until these need them.
type Class int

// The classes. Infrastructure is added to the class of a group for tenants that are
// infrastructure.
const (
	Ordinary Class = iota
	Critical
	Infrastructure
	Classes = 2 * Infrastructure
)

// side is 1 for infrastructure, else 0.
func (c Class) side() int { return int(c / Infrastructure) }

// Load counts entries, and the sum of their sizes.
type Load [2]int

// The indexes of a Load.
const (
	InEntries = iota
	InSize
)

// Bounds has for each class the most that it and the classes before it may use together, so
// the difference to the class before is a reserve.
type Bounds [Classes]Load

// Reserve returns the bounds of a pool in which infrastructure has a reserve, and critical
// rules have a quarter more.
func Reserve(ordinary, infrastructure Load) (b Bounds) {
	for by := range ordinary {
		sum := 0
		for c, n := range [Classes]int{ordinary[by], ordinary[by] / 4, infrastructure[by], infrastructure[by] / 4} {
			sum += n
			b[c][by] = sum
		}
	}
	return b
}

// ReserveQuarter returns the bounds of a pool in which infrastructure has a quarter more, and
// critical rules have no reserve.
func ReserveQuarter(ordinary Load) Bounds {
	all := Load{ordinary[0] + ordinary[0]/4, ordinary[1] + ordinary[1]/4}
	return Bounds{ordinary, ordinary, all, all}
}

// Pool bounds the entries of several groups. When it is full, the tenant with the most
// loses the least recently used entry of the group where it has the most, so a busy rule of a
// tenant costs the other rules of the tenant nothing.
type Pool struct {
	Used     [Classes]Load // read-only outside this package
	bounds   Bounds
	infra    func(tenant string) bool // nil means that no tenant is infrastructure
	accounts [Classes]holdings
	clock    uint64 // number of uses
}

// NewPool returns an empty pool. infra may be nil, and reports whether a tenant is
// infrastructure.
func NewPool(b Bounds, infra func(tenant string) bool) *Pool {
	p := &Pool{bounds: b, infra: infra}
	for c := range p.accounts {
		p.accounts[c] = holdings{tenants: map[string]*Holding{}}
	}
	return p
}

// Total returns the number of entries.
func (p *Pool) Total() (n int) {
	for _, used := range p.Used {
		n += used[InEntries]
	}
	return n
}

// Entries returns the number of entries that a tenant has in a class.
func (p *Pool) Entries(c Class, tenant string) int { return p.accounts[c].entries(tenant) }

// Tenants returns the number of tenants with an entry in a class.
func (p *Pool) Tenants(c Class) int { return len(p.accounts[c].all) }

// overfull returns the class that must lose something, which is one that exceeds its reserve
// when some more is added to a class.
func (p *Pool) overfull(by int, more int, to Class) (Class, bool) {
	used := 0
	for c := range Classes {
		if used += p.Used[c][by]; c >= to && used+more > p.bounds[c][by] {
			return c, true
		}
	}
	return 0, false
}

// Largest returns the largest entry of the tenant and group with the largest sum of sizes, or
// nil if the sizes are within their bound.
func (p *Pool) Largest() *Entry {
	c, over := p.overfull(InSize, 0, Ordinary)
	if !over {
		return nil
	}
	return slices.MaxFunc(slices.Collect(p.heaviest(c, InSize).Entries()), func(a, b *Entry) int { return a.Size - b.Size })
}

// heaviest returns the holding that must lose an entry of a class.
func (p *Pool) heaviest(c Class, by int) *Holding {
	return p.accounts[c].heaviest(by).parts.heaviest(by)
}

// Bound is a bound that leaves no place for an entry.
type Bound int

// The bounds.
const (
	noBound  Bound = iota
	OfTenant       // limits of one tenant in the pool
	OfGroup
	OfPool
)

// Place finds a place for one more entry of a tenant, which may have perTenant in the pool.
// It returns the holdings that must lose an entry first, or the bound that leaves no place.
// No entry is displaced for a tenant that would then have more than the one that loses it.
func (g *Group) Place(tenant string, perTenant int) (displaced []*Holding, full Bound) {
	p, class := g.pool, g.classOf(tenant)
	own, account := g.sides[class.side()].entries(tenant), p.accounts[class].tenants[tenant]
	if account != nil && tenant != "" && account.load[InEntries] >= perTenant {
		h := account.parts.heaviest(InEntries)
		if h.load[InEntries] <= own+1 {
			return nil, OfTenant
		}
		displaced = append(displaced, h)
	}
	if side := &g.sides[class.side()]; side.used >= g.limit {
		h := side.heaviest(InEntries)
		if h == nil || h.load[InEntries] <= own+1 {
			return nil, OfGroup
		}
		return append(displaced, h), noBound
	}
	if _, over := p.overfull(InEntries, 1, class); !over || displaced != nil {
		return displaced, noBound
	}
	most := p.accounts[class].heaviest(InEntries)
	if most == nil || most != account && most.load[InEntries] <= p.Entries(class, tenant)+1 {
		return nil, OfPool
	}
	h := most.parts.heaviest(InEntries)
	if most == account && h.load[InEntries] <= own+1 {
		return nil, OfPool
	}
	return []*Holding{h}, noBound
}

// NewLRU returns a cache that evicts the least recently used of more than n entries. n is
// positive.
func NewLRU[K comparable, V any](n int) *simplelru.LRU[K, V] {
	lru, _ := simplelru.NewLRU[K, V](n, nil) // It fails only if n is not positive.
	return lru
}
