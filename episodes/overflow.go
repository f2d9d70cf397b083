package episodes

import (
	"maps"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/internal/quota"
	"crowsnest/internal/text"
	"crowsnest/rules"
)

// overflow is the one alert that stands for the keys of a rule beyond a limit.
type overflow struct {
	rs     *ruleState
	active bool
	starts int64
	moved  int64 // how far clock changes have moved starts
	newest int64 // last refused trigger
	fired  int64
	// restored is set if it fired before it was restored.
	restored bool
	limit    limit                            // limit that was reached last
	why      string                           // the same in words
	dirty    bool                             // continued since the last update
	lines    int64                            // refused triggers
	keys     *simplelru.LRU[uint64, struct{}] // hashes of their keys
	print    Fingerprint
	labels   map[string]string
	lost     int64    // alerts that gave their places to others
	named    []string // labels of these, the newest last, at most maxNamedLost
	due      watermark.Deadline
}

const (
	maxNamedLost = 5
	maxLostName  = 256 // bytes
)

// maxOverflowKeys is how many keys beyond the limit are counted exactly.
func maxOverflowKeys(r *rules.Rule) int { return 10 * max(r.Limit, 1) }

// set replaces the overflow of a rule and arms its deadline if it is active.
func (o *overflow) set(x overflow) {
	rs := o.rs
	o.due.Disarm()
	*o = x
	o.rs, o.due = rs, watermark.Deadline{Of: o}
	if !o.active {
		return
	}
	o.keys = quota.NewLRU[uint64, struct{}](maxOverflowKeys(rs.rule))
	o.print = printOf(o.labels)
	o.due.Arm(rs.groups.steps.Group)
}

// refuse counts a trigger beyond a limit and makes the alert fire.
func (o *overflow) refuse(key string, t int64, l limit, now int64) {
	o.rs.stats.Refused++
	if !o.active {
		o.set(overflow{active: true, starts: t, newest: t, fired: now, labels: o.identity()})
	}
	o.newest = max(o.newest, t)
	o.lines++
	if o.limit != l {
		l.namespace = strings.Clone(l.namespace)
		o.limit, o.why = l, l.String()
	}
	o.keys.Add(intake.Hash(key), struct{}{})
	if o.lines == 1 {
		o.rs.journal.add(o.transition(now))
		return
	}
	o.rs.journal.touchOverflow(o) // a flood refuses thousands: report it with the next update
}

// lose names an alert that gave its place to another.
func (o *overflow) lose(labels map[string]string) {
	own := maps.Clone(labels)
	for _, name := range []string{"alertname", "severity", "resolves"} {
		delete(own, name)
	}
	o.lost++
	o.named = append(o.named, text.Truncate(text.Labels(own), maxLostName))
	o.named = o.named[max(0, len(o.named)-maxNamedLost):]
}

// identity returns the labels of the alert: templates see empty values of `by`.
func (o *overflow) identity() map[string]string {
	labels := o.rs.labels(o.rs.rule, map[string]string{})
	labels["overflow"], labels["resolves"] = "true", "quiet"
	return labels
}

// Due is when the alert ends without a further refused trigger.
func (o *overflow) Due() int64 {
	quiet := o.rs.rule.KeepFiringFor
	if o.rs.rule.Expires() {
		quiet = rules.DefaultKeepFiringFor
	}
	return o.newest + int64(quiet)
}

func (o *overflow) conclude(now int64) {
	if o.Due() > o.ReadUpTo() { // another key was refused just now
		o.due.Arm(o.rs.groups.steps.Group)
		return
	}
	o.end(o.Due(), now, ReasonQuiet)
}

// end resolves the alert.
func (o *overflow) end(end, now int64, reason Reason) {
	x := o.transition(now)
	x.ended(StateResolved, reason, max(end, o.starts, o.starts-o.moved), now)
	o.rs.journal.resolve(x)
	o.set(overflow{})
}

// rename gives the alert the labels of the new version of its rule.
func (o *overflow) rename(now int64) {
	before := o.transition(now)
	o.labels = o.identity()
	if o.print = printOf(o.labels); o.print != before.Fingerprint {
		before.ended(StateResolved, ReasonIdentity, now, now)
		o.rs.journal.add(before)
		o.rs.journal.add(o.transition(now))
	}
}

// move adds by to its times.
func (o *overflow) move(by int64) {
	if o.active {
		o.starts += by
		o.moved += by
		o.newest += by
	}
}
