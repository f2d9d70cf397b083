package episodes

import (
	"fmt"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/fair"
	"crowsnest/episodes/internal/window"
	"crowsnest/rules"
)

// limits bounds what is remembered. Memory that log lines fill is shared among
// namespaces: open episodes, the windows of keys without one, and the times of clear and
// unless lines.
type limits struct {
	slots, windows, clearLines *fair.Room
	churn                      *fair.Churn
	perNamespace               int
	evictions                  evictions
}

const (
	// clearKeysPerKey is how many keys of clear and unless lines are remembered per
	// key of MaxKeys: they are small.
	clearKeysPerKey = 2
	// churnFactor is how many times MaxPerNamespace a party may open in KeepResolved.
	// Those that have ended are listed and notified for as long: without a bound, lines
	// that open and clear alerts in turn would fill the memory and the receivers.
	churnFactor = 4
)

func newLimits(cfg Config) limits {
	return limits{
		slots:        fair.NewRoom(fair.Load{cfg.MaxActive, cfg.MaxHits}),
		windows:      fair.NewRoom(fair.Load{cfg.MaxKeys, cfg.MaxHits}),
		clearLines:   fair.NewRoom(fair.Load{clearKeysPerKey * cfg.MaxKeys, cfg.MaxHits}),
		churn:        fair.NewChurn(churnFactor*cfg.MaxPerNamespace, KeepResolved),
		perNamespace: cfg.MaxPerNamespace,
	}
}

// limit is a bound of open episodes: of the rule, of all, or of a namespace.
type limit struct {
	of        limitKind
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

// String says which limit it is.
func (l limit) String() string {
	switch l.of {
	case ofRule:
		return fmt.Sprintf("the limit of the rule is %d", l.n)
	case ofAll:
		return fmt.Sprintf("the limit of all rules together (limits.active_alerts) is %d", l.n)
	case ofChurn:
		return fmt.Sprintf("namespace %s opened %d alerts (%d times limits.alerts_per_namespace) in %v", l.namespace, l.n, churnFactor, KeepResolved)
	case ofShare:
		return fmt.Sprintf("alerts of namespace %s gave their places to namespaces with fewer", l.namespace)
	}
	return fmt.Sprintf("the limit of namespace %s (limits.alerts_per_namespace) is %d", l.namespace, l.n)
}

// place finds a place for an episode of a party, or returns the limit that leaves none.
// The overflow alert of the rule covers an episode that is displaced.
func (e *Engine) place(rs *ruleState, party string, now int64) (l limit, full bool) {
	displaced, bound := rs.slots.Place(party, e.limits.perNamespace)
	switch bound {
	case fair.OfParty:
		return limit{ofNamespace, e.limits.perNamespace, party}, true
	case fair.OfShelf:
		return limit{of: ofRule, n: rs.rule.Limit}, true
	case fair.OfRoom:
		return limit{of: ofAll, n: e.cfg.MaxActive}, true
	}
	if party != "" && e.limits.churn.Spent(rs.slots, party, now) {
		return limit{ofChurn, churnFactor * e.limits.perNamespace, party}, true
	}
	for _, c := range displaced {
		e.displace(c, now)
	}
	e.limits.churn.Count(rs.slots, party, now)
	return limit{}, false
}

// displace ends the episode of a cell without a trigger for the longest time. A pending
// one goes first: nobody was notified of it.
func (e *Engine) displace(c *fair.Cell, now int64) {
	var ep *episode
	for x := range c.Entries() {
		o := x.Owner().(*ruleState).open[x.Key]
		if ep == nil || o.state == StatePending {
			ep = o
		}
		if ep.state == StatePending {
			break
		}
	}
	e.limits.evictions.note(c.Party, ep.rs.rule.Alert, EvictedAlerts)
	e.close(ep, ReasonDisplaced, now, now, window.Text{})
	e.refuse(ep.rs, ep.key, ep.newest, limit{of: ofShare, namespace: c.Party}, now)
}

// thin keeps the windows of open episodes within their bound: the party that has
// the most lines in them loses the older half of those of one episode.
func (l *limits) thin() {
	for x := l.slots.Longest(); x != nil; x = l.slots.Longest() {
		rs := x.Owner().(*ruleState)
		w := rs.open[x.Key].window
		w.Halve()
		if w.Size() == x.Lines {
			return // one line of each kind is always kept
		}
		l.evictions.note(x.Party(), rs.rule.Alert, EvictedWindows)
		rs.slots.Resize(x, w.Size())
	}
}

// overflow is the one alert that stands for the keys beyond a limit.
type overflow struct {
	active bool
	starts int64
	moved  int64 // how far starts was moved since, with the clock
	newest int64 // last refused trigger
	fired  int64
	limit  limit                            // that was reached last
	why    string                           // the same in words
	dirty  bool                             // continued since the last update
	lines  int64                            // refused triggers
	keys   *simplelru.LRU[uint64, struct{}] // hashes of them
	print  Fingerprint
	labels map[string]string
	due    deadline
}

// maxOverflowKeys is how many keys of a rule are remembered to count them.
func maxOverflowKeys(r *rules.Rule) int { return 10 * max(r.Limit, 1) }

// set replaces the overflow of a rule and arms its deadline if it is active.
func (o *overflow) set(x overflow) {
	rs := o.due.rs
	o.due.disarm()
	*o = x
	if o.due = (deadline{rs: rs}); !o.active {
		return
	}
	o.keys = newLRU[uint64, struct{}](maxOverflowKeys(rs.rule))
	o.print = printOf(o.labels)
	o.due.arm()
}

// refuse counts a trigger beyond a limit and makes the overflow alert fire.
func (e *Engine) refuse(rs *ruleState, key string, t int64, l limit, now int64) {
	rs.stats.Refused++
	o := &rs.over
	if !o.active {
		o.set(overflow{active: true, starts: t, newest: t, fired: now, labels: e.overflowLabels(rs)})
	}
	o.newest = max(o.newest, t)
	o.lines++
	if o.limit != l {
		l.namespace = strings.Clone(l.namespace)
		o.limit, o.why = l, l.String()
	}
	o.keys.Add(seedOf(key), struct{}{})
	if o.lines == 1 {
		e.journal.add(o.transition(now))
		return
	}
	e.journal.touchOverflow(rs) // a flood refuses thousands: report it with the next update
}

// overflowLabels are the labels of the overflow alert: templates see empty
// values of `by`.
func (e *Engine) overflowLabels(rs *ruleState) map[string]string {
	labels := e.labels(rs.rule, map[string]string{})
	labels["overflow"], labels["resolves"] = "true", "quiet"
	return labels
}

// endOverflow resolves the overflow alert.
func (e *Engine) endOverflow(rs *ruleState, end, now int64, reason Reason) {
	x := rs.over.transition(now)
	x.ended(StateResolved, reason, max(end, rs.over.starts, rs.over.starts-rs.over.moved), now)
	e.journal.resolve(x)
	rs.over.set(overflow{})
}
