package objects

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
)

const (
	// maxLeftOut bounds the objects that are counted as left out; they take some 50 bytes each.
	maxLeftOut = 100_000
	// maxNamespaces bounds the namespaces of which the status tells how much was left out.
	maxNamespaces = 20
	// otherNamespaces stands for the rest of them.
	otherNamespaces = "others"
)

// room shares max_objects among namespaces. When it is full, the namespace with the most
// objects gives up places for the others, so no tenant can displace the objects of another.
// Objects outside of namespaces never give up theirs: tenants cannot create them. It is
// guarded by Source.turn; changes also hold Source.mu.
type room struct {
	max, used int
	maxOut    int
	tenants   map[string]*tenant
	// bySize finds the tenants with a number of objects, and largest is the biggest number.
	bySize  map[int]map[*tenant]struct{}
	largest int

	seed maphash.Seed
	// out are the objects that are left out, at most maxOut, by their hash, and outOf is their
	// number in each namespace.
	out   map[uint64]leftOut
	outOf map[string]int64
}

// tenant is a namespace with its objects.
type tenant struct{ held []*place }

// place is what an object takes of the room.
type place struct {
	r   *reader
	key string
	of  *tenant // nil if the object is outside of namespaces
	at  int     // index in of.held
}

// leftOut is an object that is not remembered.
type leftOut struct {
	r         *reader
	namespace string
	round     int // number of the last list that contained the object
}

func newRoom(size int) room {
	return room{
		max: size, maxOut: maxLeftOut, tenants: map[string]*tenant{}, bySize: map[int]map[*tenant]struct{}{}, seed: maphash.MakeSeed(),
		out: map[uint64]leftOut{}, outOf: map[string]int64{},
	}
}

// victim returns what has to be forgotten for a further object of a namespace, nil if
// nothing has to. full means that the object itself is left out.
func (m *room) victim(namespace string) (p *place, full bool) {
	if m.used < m.max {
		return nil, false
	}
	size := -1 // an object outside of namespaces displaces any other
	if t := m.tenants[namespace]; t != nil {
		size = len(t.held)
	} else if namespace != "" {
		size = 0
	}
	if m.largest == 0 || size+1 >= m.largest {
		return nil, true
	}
	for t := range m.bySize[m.largest] {
		return t.held[len(t.held)-1], false
	}
	return nil, true
}

// add gives a place to an object.
func (m *room) add(r *reader, o *object) *place {
	m.used++
	p := &place{r: r, key: o.key()}
	if o.namespace == "" {
		return p
	}
	t := m.tenants[o.namespace]
	if t == nil {
		t = &tenant{}
		m.tenants[o.namespace] = t
	}
	p.of, p.at = t, len(t.held)
	m.resize(t, func() { t.held = append(t.held, p) })
	return p
}

// remove takes the place of an object of a namespace back.
func (m *room) remove(p *place, namespace string) {
	m.used--
	t := p.of
	if t == nil {
		return
	}
	m.resize(t, func() {
		last := t.held[len(t.held)-1]
		t.held[p.at], last.at = last, p.at
		t.held[len(t.held)-1] = nil
		t.held = t.held[:len(t.held)-1]
	})
	if len(t.held) == 0 {
		delete(m.tenants, namespace)
	}
}

// resize changes the number of objects of a tenant by one.
func (m *room) resize(t *tenant, change func()) {
	if same := m.bySize[len(t.held)]; same != nil {
		if delete(same, t); len(same) == 0 {
			delete(m.bySize, len(t.held))
		}
	}
	change()
	n := len(t.held)
	if n > 0 {
		if m.bySize[n] == nil {
			m.bySize[n] = map[*tenant]struct{}{}
		}
		m.bySize[n][t] = struct{}{}
	}
	if n > m.largest {
		m.largest = n
	} else if m.bySize[m.largest] == nil {
		m.largest = n // the namespace was the only one of its size
	}
}

// leave notes that an object is left out, and reports whether that is new as far as is
// known.
func (m *room) leave(r *reader, o *object) bool {
	h := m.hash(r, o.key())
	_, known := m.out[h]
	switch {
	case !known && len(m.out) >= m.maxOut:
		return true
	case !known:
		m.outOf[o.namespace]++
		r.leftOut++
	}
	m.out[h] = leftOut{r, o.namespace, o.round}
	return !known
}

// back notes that an object is no longer left out.
func (m *room) back(r *reader, key string) { m.forget(m.hash(r, key)) }

func (m *room) forget(h uint64) {
	x, known := m.out[h]
	if !known {
		return
	}
	delete(m.out, h)
	x.r.leftOut--
	if m.outOf[x.namespace]--; m.outOf[x.namespace] == 0 {
		delete(m.outOf, x.namespace)
	}
}

// forgetUnlisted notes that the objects of a reader that its last list did not have are no
// longer left out.
func (m *room) forgetUnlisted(r *reader) {
	if r.leftOut == 0 {
		return
	}
	for h, x := range m.out {
		if x.r == r && x.round != r.round {
			m.forget(h)
		}
	}
}

func (m *room) hash(r *reader, key string) uint64 {
	return maphash.String(m.seed, string(r.subject.resource)+" "+key)
}

// leftOutOf returns how many objects are left out, for the namespaces with the most and for
// all others together.
func (m *room) leftOutOf() map[string]int64 {
	if len(m.outOf) == 0 {
		return nil
	}
	if len(m.outOf) <= maxNamespaces {
		return maps.Clone(m.outOf)
	}
	names := slices.SortedFunc(maps.Keys(m.outOf), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.outOf[b], m.outOf[a]), cmp.Compare(a, b))
	})
	out := map[string]int64{}
	for i, name := range names {
		if i >= maxNamespaces {
			out[otherNamespaces] += m.outOf[name]
		} else {
			out[name] = m.outOf[name]
		}
	}
	return out
}
