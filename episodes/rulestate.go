package episodes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/redact"
	"crowsnest/rules"
)

// ruleState is the state of one rule.
type ruleState struct {
	*common
	rule *rules.Rule
	pos  int // index in Engine.order
	// ambiguous is set if the rule itself names labels of the identity.
	ambiguous bool
	// mutesElsewhere is set if no step reads the streams of `unless`: what is read first then
	// depends on the sources.
	mutesElsewhere bool
	loose          int // number of open episodes that are loose
	groups         groups
	// suspended is when matching of its lines stopped; window.NoTime: it has not.
	suspended    int64
	heldBack     int64 // see Engine.HoldBack; window.NoTime: it is not
	participates bool  // the rule is a cause or a symptom of another one
	// quarantined is set once the rule panicked; it is suspended, too.
	quarantined bool

	open      map[string]*episode
	pending   int                      // number of pending episodes in open
	slots     *quota.Group             // quota of open
	windows   *quota.Cache[*keyWindow] // windows of keys without an episode
	clear     beside[window.Clears]    // the newest clear lines
	unless    beside[[]int64]          // the times of the unless lines
	lapses    []*lapse
	over      overflow
	displaced displacedAlerts
	armed     *armedKeys    // nil if the rule has no `silent`
	last      intake.Memory // intake of the newest line
	lastOpen  *episode      // episode of the newest line; nil if there is none or it has ended
	stats     RuleStats     // except LastMatch
	newest    int64         // event time of a matching line
}

func newRuleState(r *rules.Rule, common *common) *ruleState {
	rs := &ruleState{
		common: common, rule: r, last: intake.NewMemory(r), suspended: window.NoTime, heldBack: window.NoTime, open: map[string]*episode{},
		clear: newBeside[window.Clears](r, r.Clear, common.cfg.Unlabelled), unless: newBeside[[]int64](r, r.Unless, common.cfg.Unlabelled),
	}
	rs.over.rs = rs
	c, size, l := classOf(r), maxOverflowKeys(r), &common.limits
	rs.slots = quota.NewGroup(rs, c, l.slots, r.Limit, nil) // nothing is evicted: see place
	rs.windows = quota.NewCache(rs, c, l.windows, size, rs.evictedWindow)
	rs.clear.lines = quota.NewCache(rs, c, l.clearLines, size, rs.evictedClear)
	rs.unless.lines = quota.NewCache(rs, c, l.clearLines, size, rs.evictedMute)
	if r.Silent > 0 {
		rs.armed = newArmedKeys(rs)
	}
	rs.ambiguous = slices.ContainsFunc(common.cfg.Identity, func(name string) bool {
		return slices.Contains(r.By, name) || slices.ContainsFunc(r.Labels, func(l rules.NamedTemplate) bool { return l.Name == name })
	})
	rs.mutesElsewhere = r.Unless != nil && !slices.ContainsFunc(r.Steps, func(s rules.Step) bool { return s.From.Equal(r.Unless.From) })
	return rs
}

// keyWindow is the window of one key.
type keyWindow struct {
	window.Window
	key    []redact.Text // values of `by`
	who    *intake.Identity
	loose  bool   // as restored.loose
	clears string // the key that a clear line shares with it
}

// newWindow returns w as the window of a key. It keeps values.
func (rs *ruleState) newWindow(w window.Window, values []redact.Text, who *intake.Identity) *keyWindow {
	k := &keyWindow{Window: w, key: values, who: who}
	if rs.clear.open != nil {
		k.clears, _ = rs.clear.key(values, who)
	}
	return k
}

// windowOf returns the window of the key of the hit, which has no episode.
func (rs *ruleState) windowOf(values []redact.Text) *quota.Item[*keyWindow] {
	in := &rs.in
	if x := rs.windows.Items[string(in.Key)]; x != nil {
		rs.windows.Use(&x.Entry, in.Party)
		return x
	}
	if x := rs.adoptWindow(); x != nil {
		return x
	}
	return rs.windows.Add(string(in.Key), in.Party, rs.newWindow(window.New(rs.rule), in.Copier.Values(values), in.Who), 0)
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

// emptied drops the lines up to t from the windows that a clear line applies to.
func (rs *ruleState) emptied(key string, t int64) {
	drop := func(x *quota.Item[*keyWindow]) {
		x.Value.Drop(t)
		rs.windows.Resize(&x.Entry, x.Value.Size())
	}
	if rs.clear.open == nil {
		if x := rs.windows.Items[key]; x != nil {
			drop(x)
		}
		return
	}
	for _, x := range rs.windows.Items {
		if x.Value.clears == key {
			drop(x)
		}
	}
}

// find returns the open episode of the key of the hit, nil if there is none. In a storm
// consecutive hits nearly always have the same episode.
func (rs *ruleState) find() *episode {
	if ep := rs.lastOpen; ep != nil && ep.key == string(rs.in.Key) {
		return ep
	}
	rs.lastOpen = rs.open[string(rs.in.Key)]
	if rs.lastOpen == nil {
		rs.lastOpen = rs.adopt()
	}
	return rs.lastOpen
}

// clearsOf returns the clear lines that apply to the key of the hit, whose episode is ep if
// one is open.
func (rs *ruleState) clearsOf(ep *episode, values []redact.Text) window.Clears {
	if rs.clear.lines.Used() == 0 {
		return window.NoClears()
	}
	key, missing := "", false
	if ep != nil {
		key, missing = ep.clears, ep.noClear
	} else {
		key, missing = rs.clear.key(values, rs.in.Who)
	}
	if known, ok := rs.clear.of(key, values); ok && !missing { // no clear line lacks a value
		return known
	}
	return window.NoClears()
}

// isMuted reports whether a known unless line mutes an episode of the key of the hit with a
// trigger at t.
func (rs *ruleState) isMuted(values []redact.Text, t int64) bool {
	if rs.rule.Unless == nil {
		return false
	}
	key, missing := rs.unless.key(values, rs.in.Who)
	return !missing && rs.mutedBy(key, values, t)
}

// mutedBy reports whether a known unless line with a key, made from these values, mutes an
// episode with a trigger at t. If the trigger is late, or if unless lines have streams of
// their own, an unless line counts only if it would have been read before the episode fired,
// had all lines been read in order of time.
func (rs *ruleState) mutedBy(key string, values []redact.Text, t int64) bool {
	g := &rs.groups.firing
	mutes, _ := rs.unless.of(key, values)
	until := int64(window.Forever)
	if rs.mutesElsewhere || t < g.Watermark() {
		until = t + int64(rs.rule.For+rs.rule.Silent) + g.Lateness
	}
	return slices.ContainsFunc(mutes, func(m int64) bool { return m > t-int64(rs.rule.Unless.Within) && m <= until })
}

// watermark is the time up to which all lines that count or clear were read. Windows keep
// what lines after it may still need.
func (rs *ruleState) watermark() int64 {
	if rs.rule.Clear != nil {
		return rs.groups.all.readUpToForAll()
	}
	return rs.groups.steps.readUpToForAll()
}

// quiet is the time without a trigger that ends an episode. With `silent`, the trigger is the
// newest line.
func (rs *ruleState) quiet() int64 {
	if rs.rule.Expires() {
		return int64(rs.rule.Silent + rs.rule.Expire)
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
func (rs *ruleState) sorted() []*episode { return inOrder(slices.Collect(maps.Values(rs.open))) }

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

// partyOfKey derives the party from the values of `by`, for state that was saved
// without it.
func (rs *ruleState) partyOfKey(values []redact.Text) string {
	if i := slices.Index(rs.rule.By, "namespace"); i >= 0 && i < len(values) {
		return string(values[i].Clone())
	}
	return ""
}
