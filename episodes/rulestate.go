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

type ruleState struct {
	*common
	rule *rules.Rule
	pos  int // index in Engine.order
	// ambiguous is set if the rule itself names labels of the identity.
	ambiguous bool
	// mutesElsewhere is set if no step reads the streams of `unless`. Then the order in which lines of `unless` and of
	// the steps are read depends on the sources.
	mutesElsewhere  bool
	partialEpisodes int // number of open episodes with partialIdentity set
	groups          groups
	// suspended is the time at which the rule was suspended, or window.NoTime if it is not suspended.
	suspended    int64
	heldBack     int64 // time at which Engine.HoldBack stopped the watermark; window.NoTime if HoldBack did not stop it
	participates bool  // whether the rule is the cause or a symptom of another rule
	// quarantined is set if the rule panicked. Then it is also suspended.
	quarantined bool

	open          map[string]*episode
	pending       int                       // number of pending episodes among open
	slots         *quota.Group              // quota for the open episodes
	windows       *quota.Cache[*keyWindow]  // windows of keys without an episode
	clearLines    linesByKey[window.Clears] // the newest clear lines, by key
	unlessLines   linesByKey[[]int64]       // the times of the unless lines, by key
	briefFailures []*briefFailure
	overflow      overflow
	displaced     displacedAlerts
	armed         *armedKeys    // keys for `silent`; nil if the rule does not have it
	last          intake.Memory // values that were computed for the newest hit
	lastOpen      *episode      // episode of the newest hit; nil if there was none or it has ended
	stats         RuleStats     // all counters except LastMatch
	newest        int64         // event time of the newest matching line
}

func newRuleState(r *rules.Rule, common *common) *ruleState {
	rs := &ruleState{
		common: common, rule: r, last: intake.NewMemory(r), suspended: window.NoTime, heldBack: window.NoTime, open: map[string]*episode{},
		clearLines:  newBeside[window.Clears](r, r.Clear, common.cfg.Unlabelled, func(ep *episode) string { return ep.clears }),
		unlessLines: newBeside[[]int64](r, r.Unless, common.cfg.Unlabelled, func(ep *episode) string { return ep.mutes }),
	}
	rs.overflow.rs = rs
	c, size, l := quotaClass(r), maxOverflowKeys(r), &common.limits
	rs.slots = quota.NewGroup(rs, c, l.slots, r.Limit, nil) // no eviction function, because findPlace makes room
	rs.windows = quota.NewCache(rs, c, l.windows, size, rs.evictedWindow)
	rs.clearLines.lines = quota.NewCache(rs, c, l.clearLines, size, rs.evictedClear)
	rs.unlessLines.lines = quota.NewCache(rs, c, l.clearLines, size, rs.evictedMute)
	if r.Silent > 0 {
		rs.armed = newArmedKeys(rs)
	}
	rs.ambiguous = slices.ContainsFunc(common.cfg.Identity, func(name string) bool {
		return slices.Contains(r.By, name) || slices.ContainsFunc(r.Labels, func(l rules.NamedTemplate) bool { return l.Name == name })
	})
	rs.mutesElsewhere = r.Unless != nil && !slices.ContainsFunc(r.Steps, func(s rules.Step) bool { return s.From.Equal(r.Unless.From) })
	return rs
}

type keyWindow struct {
	window.Window
	key             []redact.Text // values of `by`
	who             *intake.Identity
	partialIdentity bool   // whether the window matches every identity; see restored.partialIdentity
	clears          string // key of the clear lines that apply to the window
}

// newWindow returns the window of a key with the content w. It stores values without a copy.
func (rs *ruleState) newWindow(w window.Window, values []redact.Text, who *intake.Identity) *keyWindow {
	k := &keyWindow{Window: w, key: values, who: who}
	if !rs.clearLines.ofKey {
		k.clears, _ = rs.clearLines.joinKey(values, who)
	}
	return k
}

// hitWindow returns the window of the hit's key if the key has no open episode. It makes one if there is none.
func (rs *ruleState) hitWindow(values []redact.Text) *quota.Item[*keyWindow] {
	in := &rs.in
	if x := rs.windows.Items[string(in.Key)]; x != nil {
		rs.windows.Touch(&x.Entry, in.Tenant)
		return x
	}
	if x := rs.adoptWindow(); x != nil {
		return x
	}
	return rs.windows.Add(string(in.Key), in.Tenant, rs.newWindow(window.New(rs.rule), in.Copier.CopyValues(values), in.StreamIdentity), 0)
}

func (rs *ruleState) windowFor(key string) *keyWindow {
	if ep := rs.open[key]; ep != nil {
		return ep.window
	}
	if x := rs.windows.Items[key]; x != nil {
		return x.Value
	}
	return nil
}

// dropCleared removes lines from the windows whose clear lines have this key. upTo returns the time up to which the
// lines of a window are removed.
func (rs *ruleState) dropCleared(key string, upTo func(*keyWindow) int64) {
	drop := func(x *quota.Item[*keyWindow]) {
		x.Value.DropUpTo(upTo(x.Value))
		rs.windows.Resize(&x.Entry, x.Value.Size())
	}
	if rs.clearLines.ofKey {
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

// find returns the open episode of the hit's key, or nil if there is none. In a burst of lines, consecutive hits
// usually have the same episode.
func (rs *ruleState) find() *episode {
	if ep := rs.lastOpen; ep != nil && ep.key == string(rs.in.Key) {
		return ep
	}
	rs.lastOpen = rs.open[string(rs.in.Key)]
	if rs.lastOpen == nil {
		rs.lastOpen = rs.adoptLoose()
	}
	return rs.lastOpen
}

// hitClears returns the clear lines that apply to the hit's key. ep is the open episode of the key, or nil.
func (rs *ruleState) hitClears(ep *episode, values []redact.Text) window.Clears {
	if rs.clearLines.lines.Used() == 0 {
		return window.NoClears()
	}
	key, missing := "", false
	if ep != nil {
		key, missing = ep.clears, ep.noClear
	} else {
		key, missing = rs.clearLines.joinKey(values, rs.in.StreamIdentity)
	}
	if known, ok := rs.clearLines.get(key, values); ok && !missing { // a clear line always has all values of `same`, so it cannot apply to a key that lacks a value
		return known
	}
	return window.NoClears()
}

// isMuted reports whether a remembered unless line mutes an episode of the hit's key whose trigger is at t.
func (rs *ruleState) isMuted(values []redact.Text, t int64) bool {
	if rs.rule.Unless == nil {
		return false
	}
	key, missing := rs.unlessLines.joinKey(values, rs.in.StreamIdentity)
	return !missing && rs.isKeyMuted(key, values, t)
}

// isKeyMuted reports whether a remembered unless line mutes an episode whose trigger is at t. key is the key of the
// unless lines, which was made from values. If the trigger is late, or if unless lines have streams of their own, only
// some unless lines count. These are the lines that would have been read before the episode fired, had all lines been
// read in order of their times.
func (rs *ruleState) isKeyMuted(key string, values []redact.Text, t int64) bool {
	g := &rs.groups.firing
	mutes, _ := rs.unlessLines.get(key, values)
	until := int64(window.Forever)
	if rs.mutesElsewhere || t < g.Watermark() {
		until = t + int64(rs.rule.For+rs.rule.Silent) + g.Lateness
	}
	return slices.ContainsFunc(mutes, func(m int64) bool { return m > t-int64(rs.rule.Unless.Within) && m <= until })
}

// watermark returns the time up to which all lines of `match`, the steps and `clear` were read.
func (rs *ruleState) watermark() int64 {
	if rs.rule.Clear != nil {
		return rs.groups.all.readUpToForAll()
	}
	return rs.groups.steps.readUpToForAll()
}

// watermarkOf returns the watermark of one key. All lines up to this time that could belong to the key were read. A
// window keeps newer lines, because lines of the key that are read later may need them. A lagging stream without lines
// of the key is ignored, because otherwise lines of an ended episode would count for the next one.
func (rs *ruleState) watermarkOf(values []redact.Text, who *intake.Identity, loose bool) int64 {
	if rs.rule.Clear != nil {
		return rs.groups.all.readUpTo(values, who, loose)
	}
	return rs.groups.steps.readUpTo(values, who, loose)
}

// clearedUpTo returns the time up to which a clear line at t removes lines of a key. If the clear line is ahead of the
// watermark, newer lines may still complete a window before t, so the clear line removes fewer lines.
func (rs *ruleState) clearedUpTo(t int64, values []redact.Text, who *intake.Identity, loose bool) int64 {
	if watermark := rs.watermarkOf(values, who, loose); t > watermark {
		return watermark - int64(rs.rule.Within)
	}
	return t
}

// quietTime returns the time for which an episode lasts after its newest trigger. With `silent`, that trigger is the
// newest line.
func (rs *ruleState) quietTime() int64 {
	if rs.rule.Expires() {
		return int64(rs.rule.Silent + rs.rule.Expire)
	}
	return int64(rs.rule.KeepFiringFor)
}

func (rs *ruleState) mustBePending() bool { return rs.rule.For > 0 || rs.rule.Unless != nil }

func (rs *ruleState) needsWindow() bool {
	return rs.rule.Sequence || rs.rule.Count > 1 || rs.rule.Distinct != ""
}

func (rs *ruleState) sortedEpisodes() []*episode {
	return inOrder(slices.Collect(maps.Values(rs.open)))
}

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

// partyOfKey derives the tenant from the values of `by`, for state that was saved without its tenant.
func (rs *ruleState) partyOfKey(values []redact.Text) string {
	if i := slices.Index(rs.rule.By, "namespace"); i >= 0 && i < len(values) {
		return string(values[i].Clone())
	}
	return ""
}

// restored marks an episode that was read from a snapshot.
type restored struct {
	// partialIdentity is set if the snapshot was written without all labels of the identity. Such an episode is loose,
	// which means that it matches every identity. The first trigger whose key differs only in the identity pins the
	// episode to its identity.
	partialIdentity bool
	// nameless is set on a loose episode that was pinned to an identity. Its alert does not get the labels of the
	// identity, because somebody was notified of the alert without them.
	nameless bool
	// firedBefore is set on an episode that fired before it was restored.
	firedBefore bool
}

// adoptLoose looks for a loose episode that has the key of the hit, except for the identity. It pins the episode to the
// identity of the hit and returns it. It returns nil if there is none.
func (rs *ruleState) adoptLoose() *episode {
	in := &rs.in
	if rs.partialEpisodes == 0 || in.StreamIdentity == nil {
		return nil
	}
	ep := rs.open[in.KeyWithoutIdentity()]
	if ep == nil || !ep.partialIdentity {
		return nil
	}
	party := ep.slot.Tenant()
	ep.remove()
	ep.key, ep.who, ep.restored = string(in.Key), in.StreamIdentity, restored{nameless: true}
	if ep.window != nil {
		ep.window.who = ep.who
	}
	ep.add(party)
	ep.armDeadline()
	return ep
}

// adoptWindow finds the loose window whose key differs from the hit's key only in the identity, pins it to the identity
// of the hit and returns it. It returns nil if there is none.
func (rs *ruleState) adoptWindow() *quota.Item[*keyWindow] {
	in := &rs.in
	if in.StreamIdentity == nil {
		return nil
	}
	x := rs.windows.Items[in.KeyWithoutIdentity()]
	if x == nil || !x.Value.partialIdentity {
		return nil
	}
	w, party := x.Value, x.Tenant()
	rs.windows.Delete(x.Key)
	w.who, w.partialIdentity = in.StreamIdentity, false
	w.clears, _ = rs.clearLines.joinKey(w.key, w.who)
	return rs.windows.Add(string(in.Key), party, w, w.Size())
}
