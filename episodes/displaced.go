package episodes

import (
	"maps"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/fair"
)

// maxPerClear bounds the displaced alerts of a rule that one clear line can end.
const maxPerClear = 16

// displacedAlert is a notified alert that lost its place: receivers are not told that it is
// resolved until its end is known.
type displacedAlert struct {
	last   *transition
	newest int64 // time of its newest trigger
}

// displacedAlerts holds displaced alerts by the key of the clear lines that end them.
type displacedAlerts struct {
	byClear *simplelru.LRU[string, []displacedAlert] // nil while no alert was displaced
}

// rememberDisplaced keeps a displaced alert whose last transition is x, as many as the rule may
// have open alerts.
func (rs *ruleState) rememberDisplaced(ep *episode, x *transition) {
	if rs.rule.Clear == nil || ep.noClear || x.State != StateResolved {
		return
	}
	d := &rs.displaced
	if d.byClear == nil {
		d.byClear = fair.NewLRU[string, []displacedAlert](max(rs.rule.Limit, 1))
	}
	all, _ := d.byClear.Get(ep.clears)
	all = slices.DeleteFunc(all, func(a displacedAlert) bool { return a.last.Fingerprint == ep.print })
	if len(all) == maxPerClear {
		all = slices.Delete(all, 0, 1)
	}
	d.byClear.Add(ep.clears, append(all, displacedAlert{x, ep.newest}))
}

// forgetDisplaced forgets the displaced alert that an open episode continues.
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
		x.Annotations, x.also = maps.Clone(x.Annotations), nil
		delete(x.Annotations, "ended")
		x.ended(StateResolved, ReasonClear, t, now)
		rs.journal.closed = slices.DeleteFunc(rs.journal.closed, func(o *transition) bool { return o == a.last })
		rs.journal.resolve(&x)
	}
	rs.displaced.byClear.Add(key, later)
}
