package episodes

import (
	"cmp"
	"slices"
	"strings"

	"crowsnest/episodes/internal/fair"
	"crowsnest/episodes/internal/window"
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
	// suspended is when matching of its lines stopped; window.NoTime: it has not.
	suspended int64
	heldBack  int64 // see Engine.HoldBack; window.NoTime: it is not
	// quarantined is set once the rule panicked; it is suspended, too.
	quarantined bool

	open    map[string]*episode
	pending int // of open
	// clearAt and muteAt are the numbers of the values of `by` that a clear or
	// unless line shares, byClear and byMute find what is open by them.
	clearAt, muteAt []int
	byClear, byMute index
	apart           int                     // number of the value of `by` that rules.ClearOrUnless.NamespaceAdded is about; -1: none
	slots           *fair.Shelf             // of what is open
	windows         *fair.Cache[*keyWindow] // of keys without an episode
	// cleared and muted hold, per value of `same`, the newest clear line and
	// the muting lines.
	cleared *fair.Cache[window.Clears]
	muted   *fair.Cache[[]int64]
	lapses  []*lapse
	over    overflow
	last    recall
	stats   RuleStats // but for LastMatch
	newest  int64     // event time of a matching line
}

func newRuleState(r *rules.Rule, cfg *Config, l *limits) *ruleState {
	rs := &ruleState{rule: r, lenient: cfg.Unlabelled, seed: seedOf(r.Alert), suspended: window.NoTime, heldBack: window.NoTime, open: map[string]*episode{}}
	rs.over.due.rs = rs
	c, size := classOf(r), maxOverflowKeys(r)
	rs.slots = fair.NewShelf(rs, c, l.slots, r.Limit, nil) // nothing is evicted: see limits.place
	rs.windows = fair.NewCache(rs, c, l.windows, size, func(_ string, w *keyWindow, party string) { rs.evictedWindow(&l.evictions, w, party) })
	rs.cleared = fair.NewCache(rs, c, l.clearLines, size, func(key string, c window.Clears, party string) { rs.evictedClear(&l.evictions, key, c.Newest, party) })
	rs.muted = fair.NewCache(rs, c, l.clearLines, size, func(_ string, ts []int64, party string) { rs.evictedMute(&l.evictions, ts, party) })
	rs.clearAt, rs.muteAt = sameAt(r, r.Clear), sameAt(r, r.Unless)
	rs.ambiguous = slices.ContainsFunc(cfg.Identity, func(name string) bool {
		return slices.Contains(r.By, name) || slices.ContainsFunc(r.Labels, func(l rules.NamedTemplate) bool { return l.Name == name })
	})
	rs.byClear, rs.byMute = newIndex(r, r.Clear), newIndex(r, r.Unless)
	if rs.apart = -1; r.Clear != nil && r.Clear.NamespaceAdded || r.Unless != nil && r.Unless.NamespaceAdded {
		rs.apart = slices.Index(r.By, "namespace")
	}
	return rs
}

// keyWindow is the window of one key.
type keyWindow struct {
	window.Window
	key    []string // values of `by`
	who    *identity
	loose  bool   // as restored.loose
	clears string // the key that a clear line shares with it
}

// newWindow returns w as the window of a key. The values are kept.
func (rs *ruleState) newWindow(w window.Window, values []string, who *identity) *keyWindow {
	k := &keyWindow{Window: w, key: values, who: who}
	if rs.byClear != nil {
		k.clears, _ = rs.shared(rs.clearAt, values, who)
	}
	return k
}

// windowOf returns the window of the key of a hit that has no episode.
func (rs *ruleState) windowOf(b *intake) *fair.Item[*keyWindow] {
	if x := rs.windows.Items[string(b.key)]; x != nil {
		rs.windows.Use(&x.Entry, b.party)
		return x
	}
	if x := rs.adoptWindow(b); x != nil {
		return x
	}
	return rs.windows.Add(string(b.key), b.party, rs.newWindow(window.New(rs.rule), b.Copier.Values(b.by), b.who), 0)
}

// windowFor returns the window of a key, nil if there is none.
func (rs *ruleState) windowFor(key string) *keyWindow {
	if ep := rs.open[key]; ep != nil {
		return ep.window
	}
	if x := rs.windows.Items[key]; x != nil {
		return x.Value
	}
	return nil
}

// openEpisode returns the episode of the key of a hit; nil: none is open.
func (rs *ruleState) openEpisode(b *intake) *episode {
	if ep := rs.last.episode; ep != nil {
		return ep
	}
	ep := rs.open[string(b.key)]
	if ep == nil {
		ep = rs.adopt(b)
	}
	if rs.last.keyed {
		rs.last.episode = ep
	}
	return ep
}

// clearsOf returns the clear lines that apply to a key.
func (rs *ruleState) clearsOf(ep *episode, values []string, who *identity) window.Clears {
	if rs.cleared.Used == 0 {
		return window.NoClears()
	}
	key, missing := "", false
	if ep != nil {
		key, missing = ep.clears, ep.noClear
	} else {
		key, missing = rs.shared(rs.clearAt, values, who)
	}
	if missing {
		return window.NoClears() // no clear line lacks a value
	}
	if x := rs.cleared.Items[key]; x != nil {
		return x.Value
	}
	if rs.older != nil {
		key, _ = rs.shared(rs.clearAt, values, nil)
		if t, ok := rs.older.cleared[key]; ok {
			return window.Clears{Newest: t, Since: t}
		}
	}
	return window.NoClears()
}

// mutesOf returns the unless lines that apply to a key.
func (rs *ruleState) mutesOf(values []string, who *identity) []int64 {
	key, missing := rs.shared(rs.muteAt, values, who)
	if missing {
		return nil
	}
	if x := rs.muted.Items[key]; x != nil {
		return x.Value
	}
	if rs.older != nil {
		key, _ = rs.shared(rs.muteAt, values, nil)
		return rs.older.muted[key]
	}
	return nil
}

// isMuted reports whether a known unless line mutes an episode of a trigger at t.
// Behind the watermark an unless line counts only if it could have arrived while the
// episode was pending.
func (rs *ruleState) isMuted(values []string, who *identity, t int64) bool {
	u := rs.rule.Unless
	if u == nil {
		return false
	}
	late := t < rs.watermark()
	return slices.ContainsFunc(rs.mutesOf(values, who), func(m int64) bool {
		return m > t-int64(u.Within) && (!late || m <= t+int64(rs.rule.For)+rs.group.lateness)
	})
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

// onHold reports whether the rule's group is.
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

// partyOfKey derives the party from the values of `by`, for state that was saved
// without it.
func (rs *ruleState) partyOfKey(values []string) string {
	if i := slices.Index(rs.rule.By, "namespace"); i >= 0 && i < len(values) {
		return strings.Clone(values[i])
	}
	return ""
}
