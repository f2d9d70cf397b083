package episodes

import (
	"maps"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/saved"
	"crowsnest/internal/quota"
)

// maxPerClear bounds the displaced alerts of a rule that one clear line can end.
const maxPerClear = 16

// displacedAlert is a firing alert that was displaced. Receivers are notified of its end only when a clear line shows
// the end.
type displacedAlert struct {
	last   *transition
	newest int64 // time of the newest trigger
}

// displacedAlerts holds displaced alerts by the key of the clear lines that end them.
type displacedAlerts struct {
	byClear *simplelru.LRU[string, []displacedAlert] // nil until an alert is displaced
}

// rememberDisplaced remembers a displaced alert, whose last transition is x. The number of displaced alerts of a rule
// is limited to the rule's limit of open alerts.
func (rs *ruleState) rememberDisplaced(ep *episode, x *transition) {
	if rs.rule.Clear == nil || ep.noClear || x.State != StateResolved {
		return
	}
	rs.addDisplaced(ep.clears, displacedAlert{x, ep.newest})
}

func (rs *ruleState) addDisplaced(key string, a displacedAlert) {
	d := &rs.displaced
	if d.byClear == nil {
		d.byClear = quota.NewLRU[string, []displacedAlert](max(rs.rule.Limit, 1))
	}
	all, _ := d.byClear.Get(key)
	all = slices.DeleteFunc(all, func(o displacedAlert) bool { return o.last.Fingerprint == a.last.Fingerprint })
	if len(all) == maxPerClear {
		all = slices.Delete(all, 0, 1)
	}
	d.byClear.Add(key, append(all, a))
}

// displacedShare is the maximum number of displaced alerts per rule in a snapshot.
func (e *Engine) displacedShare() int {
	with := 0
	for _, rs := range e.order {
		if rs.displaced.byClear != nil {
			with++
		}
	}
	return max(maxClosed/max(with, 1), 1)
}

// save copies the most recently displaced alerts, at most most of them.
func (d *displacedAlerts) save(most int) (out []saved.Displaced) {
	if d.byClear == nil {
		return nil
	}
	for _, key := range d.byClear.Keys() {
		all, _ := d.byClear.Peek(key)
		for _, a := range all {
			out = append(out, saved.Displaced{Key: []byte(key), Trigger: a.newest, Closed: a.last.save()})
		}
	}
	return out[max(len(out)-most, 0):]
}

func (d *displacedAlerts) moveTimes(delta int64) {
	if d.byClear == nil {
		return
	}
	for _, all := range d.byClear.Values() {
		for i := range all {
			all[i].newest += delta
		}
	}
}

func (v *restorer) restoreDisplaced(rs *ruleState, r saved.Rule) {
	for _, d := range r.Displaced {
		x := v.transition(d.Closed)
		if i := slices.IndexFunc(v.journal.closed, func(o *transition) bool { return o.closedKey() == x.closedKey() }); i >= 0 {
			x = v.journal.closed[i] // the transition in closed has the rendered texts
		}
		rs.addDisplaced(string(d.Key), displacedAlert{x, d.Trigger})
	}
}

func (rs *ruleState) forgetDisplaced(ep *episode) {
	if rs.displaced.byClear == nil {
		return
	}
	if all, known := rs.displaced.byClear.Peek(ep.clears); known {
		rs.displaced.byClear.Add(ep.clears, slices.DeleteFunc(all, func(a displacedAlert) bool { return a.last.Fingerprint == ep.print }))
	}
}

// clearDisplaced ends the displaced alerts to which a clear line at t applies.
func (rs *ruleState) clearDisplaced(key string, t, now int64) {
	if rs.displaced.byClear == nil {
		return
	}
	all, known := rs.displaced.byClear.Peek(key)
	if !known {
		return
	}
	var later []displacedAlert
	for _, a := range all {
		if t < a.newest {
			later = append(later, a)
			continue
		}
		x := *a.last
		x.Annotations, x.moreAnnotations = maps.Clone(x.Annotations), nil
		delete(x.Annotations, "ended")
		x.setEnd(StateResolved, ReasonClear, t, now)
		rs.journal.closed = slices.DeleteFunc(rs.journal.closed, func(o *transition) bool { return o.closedKey() == a.last.closedKey() })
		rs.journal.resolve(&x)
	}
	rs.displaced.byClear.Add(key, later)
}
