package episodes

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/rules"
)

// ruleState is the state of one rule.
type ruleState struct {
	rule    *rules.Rule
	lenient bool   // Config.Unlabelled
	seed    uint64 // of its name, for fingerprints
	pos     int    // in Engine.order
	// ambiguous is set if the rule itself names labels of the identity.
	ambiguous bool
	older     *older // nil: a snapshot that was read knows the whole identity
	loose     int    // open episodes that are
	group     *group
	// suspended is when matching of its lines stopped; noTime: it has not.
	suspended int64
	heldBack  int64 // see Engine.HoldBack; noTime: it is not
	// quarantined is set once the rule panicked; it is suspended, too.
	quarantined bool

	open    map[string]*episode
	pending int // of open
	// clearAt and muteAt are the numbers of the values of `by` that a clear or
	// unless line shares, byClear and byMute find what is open by them.
	clearAt, muteAt []int
	byClear, byMute index
	apart           int             // number of the value of `by` that rules.ClearOrUnless.NamespaceAdded is about; -1: none
	slots           *shelf          // of what is open
	windows         *cache[*window] // of keys without an episode
	// cleared and muted hold, per value of `same`, the newest clear line and
	// the muting lines.
	cleared *cache[clears]
	muted   *cache[[]int64]
	lapses  []*lapse
	over    overflow
	last    recall
	stats   RuleStats // but for LastMatch
	newest  int64     // event time of a matching line
}

func (e *Engine) newRuleState(r *rules.Rule) *ruleState {
	rs := &ruleState{rule: r, lenient: e.cfg.Unlabelled, seed: seedOf(r.Alert), suspended: noTime, heldBack: noTime, open: map[string]*episode{}}
	rs.over.due.rs = rs
	size := 10 * max(r.Limit, 1)
	rs.slots = newShelf(rs, e.slots, r.Limit, nil) // nothing is evicted: see place
	rs.windows = newCache(rs, e.windows, size, func(_ string, w *window, party string) { e.evictedWindow(rs, w, party) })
	rs.cleared = newCache(rs, e.clearLines, size, func(key string, c clears, party string) { e.evictedClear(rs, key, c.newest, party) })
	rs.muted = newCache(rs, e.clearLines, size, func(_ string, ts []int64, party string) { e.evictedMute(rs, ts, party) })
	rs.clearAt, rs.muteAt = sameAt(r, r.Clear), sameAt(r, r.Unless)
	rs.ambiguous = slices.ContainsFunc(e.cfg.Identity, func(name string) bool {
		return slices.Contains(r.By, name) || slices.ContainsFunc(r.Labels, func(l rules.NamedTemplate) bool { return l.Name == name })
	})
	rs.byClear, rs.byMute = newIndex(r, r.Clear), newIndex(r, r.Unless)
	if rs.apart = -1; r.Clear != nil && r.Clear.NamespaceAdded || r.Unless != nil && r.Unless.NamespaceAdded {
		rs.apart = slices.Index(r.By, "namespace")
	}
	return rs
}

// seedOf is the FNV-1a hash of a text.
func seedOf(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// watermark is that of the rule's group.
func (rs *ruleState) watermark() int64 { return rs.group.watermark() }

// held is whether the rule's group is.
func (rs *ruleState) onHold(now int64) bool { return rs.group.onHold(now) }

// quiet is the time without a trigger that ends an episode.
func (rs *ruleState) quiet() int64 {
	if rs.rule.Clear != nil {
		return int64(rs.rule.Expire)
	}
	return int64(rs.rule.KeepFiringFor)
}

// overflowQuiet is the time without a refused trigger that ends the overflow.
func (rs *ruleState) overflowQuiet() int64 {
	if rs.rule.Clear != nil {
		return int64(rules.DefaultKeepFiringFor)
	}
	return int64(rs.rule.KeepFiringFor)
}

// waits reports whether an episode has to be pending first.
func (rs *ruleState) waits() bool { return rs.rule.For > 0 || rs.rule.Unless != nil }

// windowed reports whether a trigger needs more than one line.
func (rs *ruleState) windowed() bool {
	return rs.rule.Sequence || rs.rule.Count > 1 || rs.rule.Distinct != ""
}

// sorted returns the open episodes in order of their start, then key.
func (rs *ruleState) sorted() []*episode {
	out := make([]*episode, 0, len(rs.open))
	for _, ep := range rs.open {
		out = append(out, ep)
	}
	return inOrder(out)
}

// inOrder sorts by start, then key.
func inOrder(eps []*episode) []*episode {
	slices.SortFunc(eps, (*episode).compare)
	return eps
}

func (ep *episode) compare(o *episode) int {
	if c := cmp.Compare(ep.starts, o.starts); c != 0 {
		return c
	}
	return strings.Compare(ep.key, o.key)
}

// appendKey makes one map key of several values, of those with the numbers at;
// nil: of all.
func appendKey(b []byte, values []string, at []int) []byte {
	n := len(at)
	if at == nil {
		n = len(values)
	}
	for i := range n {
		k := i
		if at != nil {
			k = at[i]
		}
		v := values[k]
		if n > 1 {
			// Values are at most 256 bytes: two bytes hold a length.
			b = append(b, byte(len(v)>>8), byte(len(v)))
		}
		b = append(b, v...)
	}
	return b
}

// join makes the key of the values of `by` and an identity.
func join(values []string, who *identity) string {
	return string(appendKey(nil, values, nil)) + who.suffix()
}

// sameAt returns the numbers of the values of `by` that a line beside the
// trigger shares.
func sameAt(r *rules.Rule, a *rules.ClearOrUnless) []int {
	at := []int{}
	if a == nil {
		return at
	}
	for i, name := range r.By {
		if slices.Contains(a.Same, name) {
			at = append(at, i)
		}
	}
	return at
}

// shared joins the values of `same` and the identity, or reports that one is missing.
func (rs *ruleState) shared(at []int, values []string, who *identity) (key string, missing bool) {
	for _, i := range at {
		missing = missing || values[i] == "" && !rs.lenient && i != rs.apart
	}
	var buf [128]byte
	return string(append(appendKey(buf[:0], values, at), who.suffix()...)), missing
}

// truncate shortens s to n bytes, back to the boundary of a rune.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// RuleStats counts the events of one rule since New. The counters never decrease.
type RuleStats struct {
	Matches     int64     // lines that matched `match` or a step
	LastMatch   time.Time // event time; zero: never
	Repeats     int64     // lines that were read before
	Refused     int64     // triggers beyond the limit
	MissingBy   int64     // trigger lines that lack a value of `by`
	MissingSame int64     // clear and unless lines that lack a value of `same`
	Evicted     int64     // windows that were dropped for room
}

// Totals counts events that do not belong to one rule.
type Totals struct {
	Late        int64 // lines behind the watermark
	Future      int64 // lines too far ahead of the clock
	SeenEvicted int64 // fingerprints that were dropped for room
	BadTemplate int64 // templates that failed
}
