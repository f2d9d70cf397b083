// Package quota shares bounded memory among tenants, which are namespaces. When memory is full, the tenant that uses
// the most loses its least recently used entry. Therefore a tenant that uses less than an equal share loses nothing. A
// Pool is such a memory, a Group is the part of it that one rule uses, and a Holding is the part of a group that
// belongs to one tenant. A load is a number of entries and their total size. Tenants that are infrastructure have a
// reserve that no other tenant can use.
//
// Nothing in this package is safe for concurrent use.
package quota

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Class determines which reserves an entry may use. Entries of a class may also use the reserves of the previous
// classes, until entries of the previous classes need them.
type Class int

// The classes. For a tenant that is infrastructure, the constant Infrastructure is added to the class of the group.
const (
	Ordinary Class = iota
	Critical
	Infrastructure
	Classes = 2 * Infrastructure
)

// sideIndex returns 1 for infrastructure and 0 for other classes.
func (c Class) sideIndex() int { return int(c / Infrastructure) }

// Load is a number of entries and the sum of their sizes.
type Load [2]int

// The indexes in a Load.
const (
	InEntries = iota
	InSize
)

// Bounds has, for each class, the maximum load of the class together with the previous classes. The difference to the
// previous class is the reserve of the class.
type Bounds [Classes]Load

// Reserve is the divisor by which a load is divided to get a reserve, which is a quarter of the load.
const Reserve = 4

// NewBounds returns the bounds of a pool with a reserve for infrastructure. Critical rules get a quarter more than
// ordinary rules, both in the ordinary part and in the reserve.
func NewBounds(ordinary, infrastructure Load) (b Bounds) {
	for by := range ordinary {
		sum := 0
		for c, n := range [Classes]int{ordinary[by], ordinary[by] / Reserve, infrastructure[by], infrastructure[by] / Reserve} {
			sum += n
			b[c][by] = sum
		}
	}
	return b
}

// ReserveQuarter returns the bounds of a pool with a reserve for infrastructure, which is a quarter of the ordinary
// load. Critical rules have no reserve.
func ReserveQuarter(ordinary Load) Bounds {
	all := Load{ordinary[0] + ordinary[0]/Reserve, ordinary[1] + ordinary[1]/Reserve}
	return Bounds{ordinary, ordinary, all, all}
}

// Pool limits the entries of several groups. When it is full, the tenant with the largest load loses an entry. This is
// the least recently used entry of the group in which the tenant has the most. Therefore a busy rule of a tenant does
// not displace entries of the tenant's other rules.
type Pool struct {
	Used     [Classes]Load // load of each class; read-only for other packages
	bounds   Bounds
	infra    func(tenant string) bool // reports whether a tenant is infrastructure; nil if no tenant is
	accounts [Classes]holdings
	clock    uint64 // number of uses so far, which orders the uses
}

// NewPool returns an empty pool. infra reports whether a tenant is infrastructure. A nil infra means that no tenant is.
func NewPool(b Bounds, infra func(tenant string) bool) *Pool {
	p := &Pool{bounds: b, infra: infra}
	for c := range p.accounts {
		p.accounts[c] = holdings{tenants: map[string]*Holding{}}
	}
	return p
}

// Total returns the number of entries in the pool.
func (p *Pool) Total() (n int) {
	for _, used := range p.Used {
		n += used[InEntries]
	}
	return n
}

// Entries returns the number of a tenant's entries in a class.
func (p *Pool) Entries(c Class, tenant string) int { return p.accounts[c].entries(tenant) }

// Tenants returns the number of tenants that have an entry in a class.
func (p *Pool) Tenants(c Class) int { return len(p.accounts[c].all) }

// overfullClass returns the class that must lose an entry if more is added to class. This is the first class, from
// class on, whose bound would be exceeded. It returns false if there is none.
func (p *Pool) overfullClass(measure int, more int, class Class) (Class, bool) {
	used := 0
	for c := range Classes {
		if used += p.Used[c][measure]; c >= class && used+more > p.bounds[c][measure] {
			return c, true
		}
	}
	return 0, false
}

// Largest returns the largest entry of the holding with the largest total size. It returns nil if the sizes in the pool
// are within their bound.
func (p *Pool) Largest() *Entry {
	c, over := p.overfullClass(InSize, 0, Ordinary)
	if !over {
		return nil
	}
	return slices.MaxFunc(slices.Collect(p.heaviestHolding(c, InSize).Entries()), func(a, b *Entry) int { return a.Size - b.Size })
}

// heaviestHolding returns the holding that must lose an entry of a class.
func (p *Pool) heaviestHolding(c Class, measure int) *Holding {
	return p.accounts[c].heaviestHolding(measure).parts.heaviestHolding(measure)
}

// Bound identifies the limit because of which there is no room for an entry.
type Bound int

// The values of Bound.
const (
	noBound  Bound = iota
	OfTenant       // limit per tenant in the pool
	OfGroup
	OfPool
)

// FindPlace finds room for one more entry of a tenant, which may have at most perTenant entries in the pool. It returns
// the holdings that must lose an entry first, or the limit because of which there is no room. A tenant cannot displace
// an entry of another tenant if it would then have more entries than that tenant.
func (g *Group) FindPlace(tenant string, perTenant int) (displaced []*Holding, full Bound) {
	p, class := g.pool, g.tenantClass(tenant)
	own, account := g.sides[class.sideIndex()].entries(tenant), p.accounts[class].tenants[tenant]
	if account != nil && tenant != "" && account.load[InEntries] >= perTenant {
		h := account.parts.heaviestHolding(InEntries)
		if h.load[InEntries] <= own+1 {
			return nil, OfTenant
		}
		displaced = append(displaced, h)
	}
	if side := &g.sides[class.sideIndex()]; side.used >= g.limit {
		h := side.heaviestHolding(InEntries)
		if h == nil || h.load[InEntries] <= own+1 {
			return nil, OfGroup
		}
		return append(displaced, h), noBound
	}
	if _, over := p.overfullClass(InEntries, 1, class); !over || displaced != nil {
		return displaced, noBound
	}
	most := p.accounts[class].heaviestHolding(InEntries)
	if most == nil || most != account && most.load[InEntries] <= p.Entries(class, tenant)+1 {
		return nil, OfPool
	}
	h := most.parts.heaviestHolding(InEntries)
	if most == account && h.load[InEntries] <= own+1 {
		return nil, OfPool
	}
	return []*Holding{h}, noBound
}

// NewLRU returns a cache that evicts the least recently used entry if it has more than n entries. n must be positive.
func NewLRU[K comparable, V any](n int) *simplelru.LRU[K, V] {
	lru, _ := simplelru.NewLRU[K, V](n, nil) // the only error is for an n that is not positive
	return lru
}
