package quota

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Loss counts the entries that one tenant lost of one rule because it had the most.
type Loss struct {
	Tenant, Rule, Kind string
	Count              int64
	Last               int64 // time of the last loss, in nanoseconds since 1970
}

// Others stands for the tenants and rules without a counter of their own.
const Others = "(others)"

// MaxLosses bounds the separate counters, because tenants create namespaces.
const MaxLosses = 100

// Losses counts losses. The counters that were used least recently are added to Others.
type Losses struct {
	Now    int64 // time of the clock, set by the caller
	newest *simplelru.LRU[Loss, *Loss]
	others map[string]*Loss // losses of other tenants by kind
}

// NewLosses returns counters without a loss.
func NewLosses() *Losses {
	l := &Losses{others: map[string]*Loss{}}
	l.newest, _ = simplelru.NewLRU(MaxLosses, func(_ Loss, x *Loss) {
		o := l.others[x.Kind]
		if o == nil {
			o = &Loss{Tenant: Others, Rule: Others, Kind: x.Kind}
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
