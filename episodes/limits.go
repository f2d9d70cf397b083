package episodes

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
)

// limits bounds the state that log lines fill, and shares it among namespaces. The state consists of open episodes, the
// windows of keys without an episode, and the times of clear and unless lines. Infrastructure namespaces have reserved
// places, which no other namespace can use. For open episodes, which page somebody, there are as many reserved places
// as ordinary ones. For the other state, the reserve is a quarter of the ordinary places.
type limits struct {
	trusted                    *namespaces.Set // namespaces that infrastructure rules trust
	slots, windows, clearLines *quota.Pool
	churn                      *quota.Churn
	perNamespace               int
	losses                     *quota.Losses
}

const (
	// clearKeysPerKey times MaxKeys is the maximum number of remembered keys of clear and unless lines. These keys take
	// little memory.
	clearKeysPerKey = 2
	// churnFactor limits the alerts that a tenant may open within keepResolved, as a multiple of MaxPerNamespace. Ended
	// alerts stay listed for that time. Without the limit, lines that open and clear alerts in turn would fill memory
	// and flood receivers.
	churnFactor = 4
)

func newLimits(cfg Config, infra func(party string) bool) limits {
	keys, clearKeys, hits := cfg.MaxKeys, clearKeysPerKey*cfg.MaxKeys, cfg.MaxHits
	return limits{
		slots:        quota.NewPool(quota.NewBounds(quota.Load{cfg.MaxActive, hits}, quota.Load{cfg.MaxActive, hits / quota.Reserve}), infra),
		windows:      quota.NewPool(quota.NewBounds(quota.Load{keys, hits}, quota.Load{keys / quota.Reserve, hits / quota.Reserve}), infra),
		clearLines:   quota.NewPool(quota.NewBounds(quota.Load{clearKeys, hits}, quota.Load{clearKeys / quota.Reserve, hits / quota.Reserve}), infra),
		churn:        quota.NewChurn(churnFactor*cfg.MaxPerNamespace, keepResolved),
		perNamespace: cfg.MaxPerNamespace, losses: quota.NewLosses(),
	}
}

// isInfrastructure reports whether a tenant is an infrastructure namespace or the node, whose lines have no namespace.
// If all namespaces are trusted, no tenant counts as infrastructure.
func (c *common) isInfrastructure(party string) bool {
	if c.limits.trusted.All() {
		return false
	}
	namespace := party[strings.LastIndexByte(party, '/')+1:]
	return namespace == "" || c.limits.trusted.Has(namespace)
}

// limit is a limit on open episodes, either of a rule, of all rules or of a namespace.
type limit struct {
	kind      limitKind
	n         int
	namespace string
}

type limitKind int

const (
	ofRule limitKind = iota
	ofAll
	ofNamespace
	ofShare
	ofChurn
)

// String describes the limit to people.
func (l limit) String() string {
	switch l.kind {
	case ofRule:
		return fmt.Sprintf("the limit of the rule is %d", l.n)
	case ofAll:
		return fmt.Sprintf("the limit of all rules together (limits.active_alerts) is %d", l.n)
	case ofChurn:
		return fmt.Sprintf("namespace %s opened %d alerts (%d times limits.alerts_per_namespace) in %v", l.namespace, l.n, churnFactor, keepResolved)
	case ofShare:
		return fmt.Sprintf("alerts of namespace %s were dropped in favor of namespaces with fewer alerts", l.namespace)
	}
	return fmt.Sprintf("the limit of namespace %s (limits.alerts_per_namespace) is %d", l.namespace, l.n)
}

// findPlace finds a place for an episode of a tenant. If there is no place, it returns the limit that was reached. If
// it displaces another episode, it counts that episode in the overflow alert of its rule.
func (rs *ruleState) findPlace(party string, now int64) (l limit, full bool) {
	displaced, bound := rs.slots.FindPlace(party, rs.limits.perNamespace)
	switch bound {
	case quota.OfTenant:
		return limit{ofNamespace, rs.limits.perNamespace, party}, true
	case quota.OfGroup:
		return limit{kind: ofRule, n: rs.rule.Limit}, true
	case quota.OfPool:
		return limit{kind: ofAll, n: rs.cfg.MaxActive}, true
	}
	if party != "" && rs.limits.churn.IsSpent(rs.slots, party, now) {
		return limit{ofChurn, churnFactor * rs.limits.perNamespace, party}, true
	}
	for _, c := range displaced {
		rs.displaceEpisode(c, now)
	}
	rs.limits.churn.Count(rs.slots, party)
	return limit{}, false
}

// displaceEpisode ends the least recently used episode of a tenant's holding, which may belong to another rule. Pending
// episodes are chosen first, because nobody was notified of them.
func (c *common) displaceEpisode(holding *quota.Holding, now int64) {
	var ep *episode
	for x := range holding.Entries() {
		o := x.Owner().(*ruleState).open[x.Key]
		if ep == nil || o.state == StatePending {
			ep = o
		}
		if ep.state == StatePending {
			break
		}
	}
	c.limits.countLost(ep.rs, holding.Tenant, EvictedAlerts)
	ep.detach()
	ep.rs.rememberDisplaced(ep, ep.reportEnd(ReasonDisplaced, now, now, window.Text{}))
	ep.rs.overflow.countRefused(ep.key, ep.newest+int64(ep.rs.rule.Silent), limit{kind: ofShare, namespace: holding.Tenant}, now)
	if ep.firedAt != 0 {
		ep.rs.overflow.noteDisplaced(ep.labels)
	}
}

// shrinkWindows keeps the windows of open episodes within their limit. The tenant with the most lines loses the older
// half of the lines of one of its episodes.
func (l *limits) shrinkWindows() {
	for x := l.slots.Largest(); x != nil; x = l.slots.Largest() {
		rs := x.Owner().(*ruleState)
		w := rs.open[x.Key].window
		w.DropOlderHalf()
		if w.Size() == x.Size {
			return // at least one line of each kind stays
		}
		l.countLost(rs, x.Tenant(), EvictedWindows)
		rs.slots.Resize(x, w.Size())
	}
}

// EvictedKind names a kind of state that was dropped because a limit was reached.
type EvictedKind string

// Kinds of evictions. An entry is counted only if it could still have made an alert fire or prevented an alert from
// firing.
const (
	EvictedWindows EvictedKind = "windows" // the counted lines of a key
	EvictedClears  EvictedKind = "clears"  // the newest clear line of a key
	EvictedMutes   EvictedKind = "mutes"   // the unless lines of a key
	EvictedArmed   EvictedKind = "armed"   // an armed key of a rule with `silent`, whose silence the engine can no longer notice
	EvictedAlerts  EvictedKind = "alerts"  // an open episode; the overflow alert of the rule counts it
)

// Eviction counts the state that one namespace lost for one rule, because it had more of this state than any other
// namespace.
type Eviction struct {
	Namespace string // name of the tenant; empty for streams without a tenant, OtherEvictions for several tenants
	Rule      string
	Kind      EvictedKind
	Count     int64
	LastAt    time.Time // time of the newest eviction, by the clock
}

// OtherEvictions is the name for namespaces and rules that have no counter of their own.
const OtherEvictions = quota.OtherTenants

// Evictions returns the counts of evictions since New, sorted by name. The number of namespaces and rules is bounded.
func (e *Engine) Evictions() []Eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limits.evictions()
}

func (l *limits) evictions() []Eviction {
	losses := l.losses.All()
	out := make([]Eviction, len(losses))
	for i, x := range losses {
		out[i] = Eviction{x.Tenant, x.Rule, EvictedKind(x.Kind), x.Count, instant.ToTime(x.Last)}
	}
	return out
}

func (l *limits) countLost(rs *ruleState, party string, kind EvictedKind) {
	l.losses.Note(party, rs.rule.Alert, string(kind))
}

func quotaClass(r *rules.Rule) quota.Class {
	if r.Severity == rules.SeverityCritical && r.Namespace == "" {
		return quota.Critical
	}
	return quota.Ordinary
}

// evictedWindow counts an evicted window, unless all its lines are too old to be part of a later trigger.
func (rs *ruleState) evictedWindow(_ string, w *keyWindow, party string) {
	rs.stats.Evicted++
	if w.NewestTime() > rs.watermark()-int64(rs.rule.Within) {
		rs.limits.countLost(rs, party, EvictedWindows)
	}
}

// evictedClear counts an evicted clear line. It does not count a clear line older than the watermark, because only late
// lines still need such a clear line. The windows that the clear line emptied stay empty.
func (rs *ruleState) evictedClear(key string, c window.Clears, party string) {
	rs.dropCleared(key, func(*keyWindow) int64 { return c.Newest })
	for _, ep := range rs.clearLines.sharingEpisodes(rs, key) {
		ep.dropLines(c.Newest)
	}
	if c.Newest > rs.watermark() {
		rs.limits.countLost(rs, party, EvictedClears)
	}
}

func (rs *ruleState) evictedMute(_ string, ts []int64, party string) {
	if u := rs.rule.Unless; u != nil && len(ts) > 0 && ts[len(ts)-1] > rs.watermark()-int64(u.Within) {
		rs.limits.countLost(rs, party, EvictedMutes)
	}
}
