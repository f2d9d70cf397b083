package objects

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// maxLeftOut is the largest number of objects that are counted as not remembered. Each takes about 150 bytes.
	maxLeftOut      = 100_000
	maxNamespaces   = 20       // largest number of namespaces for which the status shows numbers of objects
	otherNamespaces = "others" // name under which the status counts the objects of all other namespaces
)

// objectQuota shares max_objects among namespaces. When the quota is full, an object of the namespace with the most
// objects is forgotten, so no tenant can displace the objects of another one. Objects outside of namespaces are not
// forgotten, because tenants cannot create them. The quota is guarded by Source.turn. Changes also require Source.mu.
type objectQuota struct {
	max, used  int
	maxOut     int
	remembered map[string]map[place]struct{} // remembered objects of each namespace

	// unremembered are the objects that are not remembered for lack of room, at most maxOut of them. outOf is the
	// number of such objects in each namespace.
	unremembered map[place]unremembered
	outOf        map[string]int64
}

// place identifies an object by its reader and its key.
type place struct {
	r   *reader
	key string
}

// unremembered is an object that is not remembered for lack of room.
type unremembered struct {
	namespace string
	round     int // number of the last list that contained the object
}

func newRoom(size int) objectQuota {
	return objectQuota{max: size, maxOut: maxLeftOut, remembered: map[string]map[place]struct{}{}, unremembered: map[place]unremembered{}, outOf: map[string]int64{}}
}

// chooseVictim returns the object to forget so that a new object in namespace has room. Its
// reader is nil if there is room already. full means that the new object cannot be remembered.
func (m *objectQuota) chooseVictim(namespace string) (victim place, full bool) {
	if m.used < m.max {
		return place{}, false
	}
	var most map[place]struct{}
	for _, held := range m.remembered {
		if len(held) > len(most) {
			most = held
		}
	}
	// To make room for an object outside of namespaces, any object in a namespace may be forgotten.
	if len(most) == 0 || namespace != "" && len(m.remembered[namespace])+1 >= len(most) {
		return place{}, true
	}
	for victim = range most {
		break
	}
	return victim, false
}

func (m *objectQuota) addPlace(r *reader, o *object) {
	m.used++
	if o.namespace == "" {
		return
	}
	if m.remembered[o.namespace] == nil {
		m.remembered[o.namespace] = map[place]struct{}{}
	}
	m.remembered[o.namespace][place{r, o.key()}] = struct{}{}
}

func (m *objectQuota) removePlace(r *reader, o *object) {
	m.used--
	held := m.remembered[o.namespace]
	if delete(held, place{r, o.key()}); len(held) == 0 {
		delete(m.remembered, o.namespace)
	}
}

// noteLeftOut records that an object is not remembered for lack of room. It reports whether
// the object may be a new one.
func (m *objectQuota) noteLeftOut(r *reader, o *object) bool {
	p := place{r, o.key()}
	_, known := m.unremembered[p]
	switch {
	case !known && len(m.unremembered) >= m.maxOut:
		return true
	case !known:
		m.outOf[o.namespace]++
		r.leftOut++
	}
	m.unremembered[p] = unremembered{o.namespace, o.round}
	return !known
}

// noteBack records that the object at p is remembered again, or no longer exists.
func (m *objectQuota) noteBack(p place) {
	x, known := m.unremembered[p]
	if !known {
		return
	}
	delete(m.unremembered, p)
	p.r.leftOut--
	if m.outOf[x.namespace]--; m.outOf[x.namespace] == 0 {
		delete(m.outOf, x.namespace)
	}
}

// forgetUnlisted drops the records of left-out objects that the last list of the reader did not contain.
func (m *objectQuota) forgetUnlisted(r *reader) {
	if r.leftOut == 0 {
		return
	}
	for p, x := range m.unremembered {
		if p.r == r && x.round != r.round {
			m.noteBack(p)
		}
	}
}

// leftOutOf returns the number of objects that are not remembered for lack of room. The
// namespaces with the most such objects are counted separately, and all others together.
func (m *objectQuota) leftOutOf() map[string]int64 {
	if len(m.outOf) == 0 {
		return nil
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
