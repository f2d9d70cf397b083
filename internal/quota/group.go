package quota

import (
	"iter"
	"slices"
	"strings"
)

// Group is the part of a pool that one rule uses. Its limit applies separately to the tenants that are infrastructure
// and to all other tenants.
type Group struct {
	owner   any
	pool    *Pool
	limit   int
	class   Class // class of the tenants that are not infrastructure
	sides   [2]holdings
	onEvict func(x *Entry, tenant string)
}

// NewGroup returns an empty group. evicted is called after each eviction with the entry and its tenant.
func NewGroup(owner any, c Class, p *Pool, limit int, evicted func(*Entry, string)) *Group {
	return &Group{owner, p, limit, c, [2]holdings{{tenants: map[string]*Holding{}}, {tenants: map[string]*Holding{}}}, evicted}
}

func (g *Group) tenantClass(tenant string) Class {
	if g.pool.infra != nil && g.pool.infra(tenant) {
		return g.class + Infrastructure
	}
	return g.class
}

// Used returns the number of entries.
func (g *Group) Used() int { return g.sides[0].used + g.sides[1].used }

// Put adds an entry, charges it to a tenant and makes it the tenant's most recently used entry.
func (g *Group) Put(x *Entry, tenant string) {
	class := g.tenantClass(tenant)
	h := g.sides[class.sideIndex()].tenants[tenant]
	if h == nil {
		h = g.open(class, strings.Clone(tenant))
	}
	h.push(x)
	h.addLoad(1, x.Size)
}

// open adds an empty holding for a tenant.
func (g *Group) open(c Class, tenant string) *Holding {
	accounts := &g.pool.accounts[c]
	if accounts.tenants[tenant] == nil {
		accounts.add(&Holding{Tenant: tenant, class: c})
	}
	h := &Holding{Tenant: tenant, class: c, group: g, account: accounts.tenants[tenant]}
	h.ring.prev, h.ring.next = &h.ring, &h.ring
	h.account.parts.add(h)
	g.sides[c.sideIndex()].add(h)
	return h
}

// Remove removes an entry that Put added.
func (g *Group) Remove(x *Entry) {
	h := x.holding
	x.unlink()
	h.addLoad(-1, -x.Size)
	if h.load[InEntries] > 0 {
		return
	}
	g.sides[h.class.sideIndex()].remove(h)
	h.account.parts.remove(h)
	if h.account.load[InEntries] == 0 {
		g.pool.accounts[h.class].remove(h.account)
	}
}

// Touch records that a line of a tenant uses the entry. An entry that several tenants use is charged to infrastructure.
// If none of them is infrastructure, it is charged to the tenant with the smallest load. Otherwise a tenant could make
// another tenant lose an entry by writing the same lines.
func (g *Group) Touch(x *Entry, tenant string) {
	h := x.holding
	class := g.tenantClass(tenant)
	lighter := class == h.class && g.pool.Entries(class, tenant)+1 < h.account.load[InEntries]
	if h.Tenant != tenant && (class > h.class || lighter) {
		g.Remove(x)
		g.Put(x, tenant)
		return
	}
	x.makeNewest()
}

func (x *Entry) makeNewest() {
	h := x.holding
	x.unlink()
	h.push(x)
}

// Resize changes the size of an entry.
func (g *Group) Resize(x *Entry, size int) {
	x.holding.addLoad(0, size-x.Size)
	x.Size = size
}

// EvictExcess evicts entries until the group and its pool are within their limits. It never evicts keep.
func (g *Group) EvictExcess(keep *Entry) {
	for i := range g.sides {
		for s := &g.sides[i]; s.used > g.limit && s.heaviestHolding(InEntries).evict(keep); {
		}
	}
	for by := range (Load{}) {
		for {
			c, over := g.pool.overfullClass(by, 0, Ordinary)
			if !over || !g.pool.heaviestHolding(c, by).evict(keep) {
				break
			}
		}
	}
}

// entries yields the entries with their tenants, sorted by tenant. For each tenant, the least recently used entry comes
// first.
func (g *Group) entries() iter.Seq2[*Entry, string] {
	all := slices.Concat(g.sides[0].all, g.sides[1].all)
	slices.SortFunc(all, func(a, b *Holding) int { return strings.Compare(a.Tenant, b.Tenant) })
	return func(yield func(*Entry, string) bool) {
		for _, h := range all {
			for x := range h.Entries() {
				if !yield(x, h.Tenant) {
					return
				}
			}
		}
	}
}

// Reclass changes the class of the group and charges every entry again. It is also needed when other tenants become
// infrastructure.
func (g *Group) Reclass(c Class) {
	var all []*Entry
	var tenants []string
	for x, tenant := range g.entries() {
		all, tenants = append(all, x), append(tenants, tenant)
	}
	for _, x := range all {
		g.Remove(x)
	}
	g.class = c
	for i, x := range all {
		g.Put(x, tenants[i])
	}
}

// Cache is a group of values with keys.
type Cache[V any] struct {
	*Group
	Items map[string]*Item[V]
}

// Item is one value of a Cache.
type Item[V any] struct {
	Entry
	Value V
}

// NewCache returns an empty cache. evicted is called after a value was evicted.
func NewCache[V any](owner any, c Class, p *Pool, limit int, evicted func(key string, v V, tenant string)) *Cache[V] {
	k := &Cache[V]{Items: map[string]*Item[V]{}}
	k.Group = NewGroup(owner, c, p, limit, func(x *Entry, tenant string) {
		v := k.Items[x.Key].Value
		delete(k.Items, x.Key)
		evicted(x.Key, v, tenant)
	})
	return k
}

// Add sets the value of a key and its size, and charges it to a tenant.
func (k *Cache[V]) Add(key, tenant string, v V, size int) *Item[V] {
	x := k.Items[key]
	if x == nil {
		x = &Item[V]{Entry: Entry{Key: key, Size: size}, Value: v}
		k.Items[key] = x
		k.Put(&x.Entry, tenant)
	} else {
		x.Value = v
		k.Touch(&x.Entry, tenant)
		k.Resize(&x.Entry, size)
	}
	k.EvictExcess(&x.Entry)
	return x
}

// Delete removes a key if it is present.
func (k *Cache[V]) Delete(key string) {
	if x := k.Items[key]; x != nil {
		k.Remove(&x.Entry)
		delete(k.Items, key)
	}
}

// Purge removes all values.
func (k *Cache[V]) Purge() {
	for key := range k.Items {
		k.Delete(key)
	}
}

// Values yields the items with their tenants, sorted by tenant. For each tenant, the least recently used item comes
// first.
func (k *Cache[V]) Values() iter.Seq2[*Item[V], string] {
	return func(yield func(*Item[V], string) bool) {
		for x, tenant := range k.entries() {
			if !yield(k.Items[x.Key], tenant) {
				return
			}
		}
	}
}
