package episodes

import (
	"fmt"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// overflow is the one alert that stands for the keys beyond a limit.
type overflow struct {
	active bool
	starts int64
	moved  int64 // how far starts was moved since, with the clock
	newest int64 // last refused trigger
	fired  int64
	limit  limit                            // that was reached last
	why    string                           // the same in words
	dirty  bool                             // went on since the last update
	lines  int64                            // refused triggers
	keys   *simplelru.LRU[uint64, struct{}] // hashes of them
	print  Fingerprint
	labels map[string]string
	due    deadline
}

// limit is a bound of open episodes: of the rule, of all, or of a namespace.
type limit struct {
	of        string
	n         int
	namespace string
}

const (
	ofRule      = "rule"
	ofAll       = "all"
	ofNamespace = "namespace"
	ofShare     = "share"
	ofChurn     = "churn"
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

// refuse counts a trigger beyond a limit and makes the overflow alert fire.
func (e *Engine) refuse(rs *ruleState, key string, t int64, l limit, now int64) {
	rs.stats.Refused++
	o := &rs.over
	if !o.active {
		*o = overflow{due: deadline{rs: rs}, active: true, starts: t, newest: t, fired: now}
		o.keys = newKeys(rs)
		o.labels = e.overflowLabels(rs)
		o.print = printOf(o.labels)
		o.due.arm()
	}
	o.newest = max(o.newest, t)
	o.lines++
	if o.limit != l {
		l.namespace = strings.Clone(l.namespace)
		o.limit, o.why = l, l.String()
	}
	o.keys.Add(seedOf(key), struct{}{})
	if o.lines == 1 {
		e.changes = append(e.changes, e.exportOverflow(rs, now))
		return
	}
	e.touchOverflow(rs) // a flood refuses thousands: report it with the next update
}

func newKeys(rs *ruleState) *simplelru.LRU[uint64, struct{}] {
	// The size is positive, so there is no error.
	keys, _ := simplelru.NewLRU[uint64, struct{}](10*max(rs.rule.Limit, 1), nil)
	return keys
}

// endOverflow resolves the overflow alert.
func (e *Engine) endOverflow(rs *ruleState, end, now int64, reason Reason) {
	x := e.exportOverflow(rs, now)
	x.State, x.Reason = StateResolved, reason
	x.EndsAt, x.Concluded = instant(max(end, rs.over.starts, rs.over.starts-rs.over.moved)), instant(now)
	e.changes = append(e.changes, x)
	e.closed = append(e.closed, x)
	rs.over.due.disarm()
	rs.over = overflow{due: deadline{rs: rs}}
}
