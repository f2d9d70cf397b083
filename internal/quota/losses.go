package quota

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Loss is the number of entries of one rule that a tenant lost because it had more entries than other tenants.
type Loss struct {
	Tenant, Rule, Kind string
	Count              int64
	Last               int64 // time of the newest loss, in nanoseconds since 1970
}

// OtherTenants is the name that stands for all tenants and rules without a counter of their own.
const OtherTenants = "(others)"

// MaxLosses is the maximum number of separate counters. The number is limited because tenants can create namespaces.
const MaxLosses = 100

// Losses counts losses by tenant, rule and kind. If there are too many counters, the least recently used ones are added
// to Others.
type Losses struct {
	Now    int64 // current time, set by the caller
	newest *simplelru.LRU[Loss, *Loss]
	others map[string]*Loss // losses that were added to Others, by kind
}

// NewLosses returns an empty Losses.
func NewLosses() *Losses {
	l := &Losses{others: map[string]*Loss{}}
	l.newest, _ = simplelru.NewLRU(MaxLosses, func(_ Loss, x *Loss) {
		o := l.others[x.Kind]
		if o == nil {
			o = &Loss{Tenant: OtherTenants, Rule: OtherTenants, Kind: x.Kind}
			l.others[x.Kind] = o
		}
		o.Count += x.Count
		o.Last = max(o.Last, x.Last)
	})
	return l
}

// Note counts one loss.
func (l *Losses) Note(tenant, rule, kind string) {
	key := Loss{Tenant: tenant, Rule: rule, Kind: kind}
	x, ok := l.newest.Get(key)
	if !ok {
		key.Tenant = strings.Clone(tenant)
		x = &Loss{Tenant: key.Tenant, Rule: rule, Kind: kind}
		l.newest.Add(key, x)
	}
	x.Count++
	x.Last = max(x.Last, l.Now)
}

// All returns the counts, sorted by tenant, rule and kind.
func (l *Losses) All() (all []Loss) {
	for _, x := range l.newest.Values() {
		all = append(all, *x)
	}
	for _, x := range l.others {
		all = append(all, *x)
	}
	slices.SortFunc(all, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}
