package fair

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Loss counts the entries that one party lost of one rule because it had the most.
type Loss struct {
	Party, Rule, Kind string
	Count             int64
	Last              int64 // when, in nanoseconds since 1970
}

// Others stands for the parties and rules that have no counter of their own.
const Others = "(others)"

// MaxLosses bounds the separate counters: tenants create namespaces.
const MaxLosses = 100

// Losses counts losses. Only the newest and largest counts are kept separately. The zero
// value is ready.
type Losses struct {
	Now   int64 // of the clock, kept by the caller
	Fresh int64 // how long after its last loss a count is kept in preference to others
	known map[lossKey]*Loss
}

type lossKey struct{ party, rule, kind string }

// Note counts one loss.
func (l *Losses) Note(party, rule, kind string) { l.count(lossKey{party, rule, kind}, 1, l.Now) }

func (l *Losses) count(k lossKey, n, last int64) {
	x := l.known[k]
	if x == nil {
		if k.party != Others && len(l.known) >= MaxLosses {
			l.fold()
		}
		k.party = strings.Clone(k.party)
		x = &Loss{Party: k.party, Rule: k.rule, Kind: k.kind}
		if l.known == nil {
			l.known = map[lossKey]*Loss{}
		}
		l.known[k] = x
	}
	x.Count += n
	x.Last = max(x.Last, last)
}

// fold adds the lowest count to Others. A count that is not fresh goes first.
func (l *Losses) fold() {
	own := slices.DeleteFunc(slices.Collect(maps.Values(l.known)), func(x *Loss) bool { return x.Party == Others })
	if len(own) == 0 {
		return
	}
	rank := func(x *Loss) int {
		if x.Last < l.Now-l.Fresh {
			return 0
		}
		return 1
	}
	least := slices.MinFunc(own, func(a, b *Loss) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Count, b.Count), compareLosses(*a, *b))
	})
	delete(l.known, lossKey{least.Party, least.Rule, least.Kind})
	l.count(lossKey{Others, Others, least.Kind}, least.Count, least.Last)
}

func compareLosses(a, b Loss) int {
	return cmp.Or(strings.Compare(a.Party, b.Party), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Kind, b.Kind))
}

// All returns the counts, sorted by party, rule and kind.
func (l *Losses) All() []Loss {
	out := make([]Loss, 0, len(l.known))
	for _, x := range l.known {
		out = append(out, *x)
	}
	slices.SortFunc(out, compareLosses)
	return out
}
