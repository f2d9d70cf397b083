package episodes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes/internal/fair"
	"crowsnest/rules"
)

// Evicted is a kind of state that was dropped to stay within a bound.
type Evicted string

// The kinds. Each entry could still have made an alert fire or kept one from firing;
// entries that are too old for that are not counted.
const (
	EvictedWindows Evicted = "windows" // lines that were counted for a key
	EvictedClears  Evicted = "clears"  // the newest clear line of a key
	EvictedMutes   Evicted = "mutes"   // the unless lines of a key
	EvictedAlerts  Evicted = "alerts"  // an open episode: its overflow alert stands for it
)

// Eviction counts the state that one namespace lost for one rule, because its lines
// took more room than those of any other namespace.
type Eviction struct {
	Namespace string // "" of streams without one; OtherEvictions: of several
	Rule      string
	Kind      Evicted
	Count     int64
	Last      time.Time // of the clock
}

// OtherEvictions stands for the namespaces and rules that are not counted by
// themselves.
const OtherEvictions = "(others)"

// maxEvictions bounds the separate counters: tenants create namespaces.
const maxEvictions = 100

// evictions counts dropped state. Only the newest and largest counts are kept
// separately.
type evictions struct {
	now   int64 // of the clock, at the last call of the engine
	known map[evictionKey]*Eviction
}

type evictionKey struct {
	namespace, rule string
	kind            Evicted
}

// note counts an eviction.
func (v *evictions) note(namespace, rule string, kind Evicted) {
	v.count(evictionKey{namespace, rule, kind}, 1, instant(v.now))
}

func (v *evictions) count(k evictionKey, n int64, last time.Time) {
	x := v.known[k]
	if x == nil {
		if k.namespace != OtherEvictions && len(v.known) >= maxEvictions {
			v.fold()
		}
		k.namespace = strings.Clone(k.namespace)
		x = &Eviction{Namespace: k.namespace, Rule: k.rule, Kind: k.kind}
		if v.known == nil {
			v.known = map[evictionKey]*Eviction{}
		}
		v.known[k] = x
	}
	x.Count += n
	if x.Last.Before(last) {
		x.Last = last
	}
}

// fold adds the lowest count to those of the others. One that is older than the alert
// about it goes first.
func (v *evictions) fold() {
	old := instant(v.now).Add(-KeepResolved)
	rank := func(x *Eviction) int {
		if x.Last.Before(old) {
			return 0
		}
		return 1
	}
	own := slices.DeleteFunc(slices.Collect(maps.Values(v.known)), func(x *Eviction) bool { return x.Namespace == OtherEvictions })
	if len(own) == 0 {
		return
	}
	least := slices.MinFunc(own, func(a, b *Eviction) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Count, b.Count), compareEvictions(a, b))
	})
	delete(v.known, evictionKey{least.Namespace, least.Rule, least.Kind})
	v.count(evictionKey{OtherEvictions, OtherEvictions, least.Kind}, least.Count, least.Last)
}

func compareEvictions(a, b *Eviction) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Rule, b.Rule), cmp.Compare(a.Kind, b.Kind))
}

// list returns a copy, in order of the names.
func (v *evictions) list() []Eviction {
	out := make([]Eviction, 0, len(v.known))
	for _, x := range v.known {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Eviction) int { return compareEvictions(&a, &b) })
	return out
}

// Evictions returns the counts of dropped state since New, for a bounded number of
// namespaces and rules, in order of their names.
func (e *Engine) Evictions() []Eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limits.evictions.list()
}

// classOf is the class of a rule in every room.
func classOf(r *rules.Rule) fair.Class {
	if r.Severity == rules.SeverityCritical {
		return fair.Critical
	}
	return fair.Ordinary
}

// evictedWindow counts an evicted window, unless all its lines are too old to count
// towards a future trigger.
func (rs *ruleState) evictedWindow(v *evictions, w *keyWindow, party string) {
	rs.stats.Evicted++
	if w.Latest() > rs.watermark()-int64(rs.rule.Within) {
		v.note(party, rs.rule.Alert, EvictedWindows)
	}
}

// evictedClear counts an evicted clear line, unless it is behind the watermark, where
// only late lines need it. Windows that it emptied stay empty.
func (rs *ruleState) evictedClear(v *evictions, key string, t int64, party string) {
	rs.emptied(key, t)
	for _, ep := range rs.sharing(rs.byClear, key) {
		ep.drop(t)
	}
	if t > rs.watermark() {
		v.note(party, rs.rule.Alert, EvictedClears)
	}
}

// evictedMute counts unless lines that were evicted.
func (rs *ruleState) evictedMute(v *evictions, ts []int64, party string) {
	if u := rs.rule.Unless; u != nil && len(ts) > 0 && ts[len(ts)-1] > rs.watermark()-int64(u.Within) {
		v.note(party, rs.rule.Alert, EvictedMutes)
	}
}
