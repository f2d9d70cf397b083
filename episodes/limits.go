package episodes

import (
	"fmt"
	"strings"

	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/rules/namespaces"
)

// limits bounds the state that log lines fill, and shares it among namespaces: open
// episodes, the windows of keys without an episode, and the times of clear and unless lines.
// Infrastructure namespaces have places that no other namespace takes: as many again for
// open episodes, because these page somebody, and a quarter more for the rest.
type limits struct {
	trusted                    *namespaces.Set // namespaces that infrastructure rules trust
	slots, windows, clearLines *quota.Pool
	churn                      *quota.Churn
	perNamespace               int
	losses                     *quota.Losses
}

const (
	// clearKeysPerKey is how many keys of clear and unless lines are remembered per
	// key of MaxKeys: they are small.
	clearKeysPerKey = 2
	// churnFactor is how many times MaxPerNamespace a party may open in keepResolved. Ended
	// alerts are listed and notified for that long. Without a bound, lines that alternately
	// open and clear alerts would fill memory and receivers.
	churnFactor = 4
)

func newLimits(cfg Config, infra func(party string) bool) limits {
	keys, clearKeys, hits := cfg.MaxKeys, clearKeysPerKey*cfg.MaxKeys, cfg.MaxHits
	return limits{
		slots:        quota.NewPool(quota.Reserve(quota.Load{cfg.MaxActive, hits}, quota.Load{cfg.MaxActive, hits / 4}), infra),
		windows:      quota.NewPool(quota.Reserve(quota.Load{keys, hits}, quota.Load{keys / 4, hits / 4}), infra),
		clearLines:   quota.NewPool(quota.Reserve(quota.Load{clearKeys, hits}, quota.Load{clearKeys / 4, hits / 4}), infra),
		churn:        quota.NewChurn(churnFactor*cfg.MaxPerNamespace, keepResolved),
		perNamespace: cfg.MaxPerNamespace, losses: quota.NewLosses(),
	}
}

// infrastructure reports whether a party is an infrastructure namespace, or the node: lines
// without a namespace. If all namespaces are trusted, none has places of its own.
func (c *common) infrastructure(party string) bool {
	if c.limits.trusted.All() {
		return false
	}
	namespace := party[strings.LastIndexByte(party, '/')+1:]
	return namespace == "" || c.limits.trusted.Has(namespace)
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

// String names the limit for people.
func (l limit) String() string {
	switch l.of {
	case ofRule:
		return fmt.Sprintf("the limit of the rule is %d", l.n)
	case ofAll:
		return fmt.Sprintf("the limit of all rules together (limits.active_alerts) is %d", l.n)
	case ofChurn:
		return fmt.Sprintf("namespace %s opened %d alerts (%d times limits.alerts_per_namespace) in %v", l.namespace, l.n, churnFactor, keepResolved)
	case ofShare:
		return fmt.Sprintf("alerts of namespace %s gave their places to namespaces with fewer", l.namespace)
	}
	return fmt.Sprintf("the limit of namespace %s (limits.alerts_per_namespace) is %d", l.namespace, l.n)
}

// place finds a place for an episode of a party, or returns the limit that prevents it. The
// overflow alert of the rule covers an episode that is displaced.
func (rs *ruleState) place(party string, now int64) (l limit, full bool) {
	displaced, bound := rs.slots.Place(party, rs.limits.perNamespace)
	switch bound {
	case quota.OfTenant:
		return limit{ofNamespace, rs.limits.perNamespace, party}, true
	case quota.OfGroup:
		return limit{of: ofRule, n: rs.rule.Limit}, true
	case quota.OfPool:
		return limit{of: ofAll, n: rs.cfg.MaxActive}, true
	}
	if party != "" && rs.limits.churn.Spent(rs.slots, party, now) {
		return limit{ofChurn, churnFactor * rs.limits.perNamespace, party}, true
	}
	for _, c := range displaced {
		rs.displace(c, now)
	}
	rs.limits.churn.Count(rs.slots, party)
	return limit{}, false
}

// displace ends the least recently used episode of a holding, which may belong to another rule.
// A pending one goes first: it was not notified.
func (c *common) displace(holding *quota.Holding, now int64) {
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
	c.limits.lost(ep.rs, holding.Tenant, EvictedAlerts)
	ep.detach()
	ep.rs.rememberDisplaced(ep, ep.finish(ReasonDisplaced, now, now, window.Text{}))
	ep.rs.over.refuse(ep.key, ep.newest+int64(ep.rs.rule.Silent), limit{of: ofShare, namespace: holding.Tenant}, now)
	if ep.fired != 0 {
		ep.rs.over.lose(ep.labels)
	}
}

// thin keeps the windows of open episodes within their bound: the namespace with the most lines
// loses the older half of the lines of one episode.
func (l *limits) thin() {
	for x := l.slots.Largest(); x != nil; x = l.slots.Largest() {
		rs := x.Owner().(*ruleState)
		w := rs.open[x.Key].window
		w.Halve()
		if w.Size() == x.Size {
			return // one line of each kind always stays
		}
		l.lost(rs, x.Tenant(), EvictedWindows)
		rs.slots.Resize(x, w.Size())
	}
}
