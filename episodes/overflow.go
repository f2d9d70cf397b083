package episodes

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// overflow is the one alert that stands for the keys beyond a limit.
type overflow struct {
	active bool
	starts int64
	moved  int64 // how far starts was moved since, with the clock
	newest int64 // last refused trigger
	fired  int64
	why    string // which limit was reached last
	dirty  bool   // went on since the last update
	lines  int64  // refused triggers
	keys   *simplelru.LRU[string, struct{}]
	print  Fingerprint
	labels map[string]string
	due    deadline
}

// refuse counts a trigger of the key of the batch that finds no place and lets the overflow alert fire.
func (e *Engine) refuse(rs *ruleState, t int64, why string, now int64) {
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
	o.why = why
	o.keys.Add(string(e.batch.key), struct{}{})
	if o.lines == 1 {
		e.changes = append(e.changes, e.exportOverflow(rs, now))
		return
	}
	e.touchOverflow(rs) // a flood refuses thousands: tell it with the next update
}

func newKeys(rs *ruleState) *simplelru.LRU[string, struct{}] {
	// The size is positive, so there is no error.
	keys, _ := simplelru.NewLRU[string, struct{}](10*max(rs.rule.Limit, 1), nil)
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
