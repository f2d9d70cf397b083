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

// overflow is the one alert of a rule for all its keys beyond a limit.
type overflow struct {
	rs         *ruleState
	active     bool
	starts     int64
	clockShift int64 // sum of the clock changes by which starts was moved
	newest     int64 // time of the last refused trigger
	firedAt    int64
	// restored is set if the alert fired before it was restored from a snapshot.
	restored        bool
	limit           limit                            // limit that was last reached
	limitText       string                           // description of limit for people
	dirty           bool                             // whether the alert continued since the last update
	lines           int64                            // number of refused triggers
	keys            *simplelru.LRU[uint64, struct{}] // hashes of the refused keys
	print           Fingerprint
	labels          map[string]string
	displacedCount  int64    // number of displaced alerts
	displacedLabels []string // labels of the newest displaced alerts, the newest last, at most maxNamedLost
	due             watermark.Deadline
}

const (
	maxNamedLost = 5
	maxLostName  = 256 // maximum length in bytes
	// waitingPerLimit is a multiple of the rule's limit. Up to that many refused keys are counted exactly.
	waitingPerLimit = 10
)

// maxOverflowKeys returns the maximum number of refused keys that are counted exactly.
func maxOverflowKeys(r *rules.Rule) int { return waitingPerLimit * max(r.Limit, 1) }

// replaceWith replaces the content of the rule's overflow. If the overflow is active, it arms the deadline.
func (o *overflow) replaceWith(x overflow) {
	rs := o.rs
	o.due.Disarm()
	*o = x
	o.rs, o.due = rs, watermark.Deadline{Subject: o}
	if !o.active {
		return
	}
	o.keys = quota.NewLRU[uint64, struct{}](maxOverflowKeys(rs.rule))
	o.print = FingerprintOf(o.labels)
	o.due.Arm(rs.groups.steps.Group)
}

// countRefused counts a trigger beyond a limit and makes the alert fire.
func (o *overflow) countRefused(key string, t int64, l limit, now int64) {
	o.rs.stats.Refused++
	if !o.active {
		o.replaceWith(overflow{active: true, starts: t, newest: t, firedAt: now, labels: o.alertLabels()})
	}
	o.newest = max(o.newest, t)
	o.lines++
	if o.limit != l {
		l.namespace = strings.Clone(l.namespace)
		o.limit, o.limitText = l, l.String()
	}
	o.keys.Add(intake.Hash(key), struct{}{})
	if o.lines == 1 {
		o.rs.journal.add(o.transition(now))
		return
	}
	o.rs.journal.touchOverflow(o) // a flood refuses thousands of triggers, so they are reported together in the next update
}

func (o *overflow) noteDisplaced(labels map[string]string) {
	own := maps.Clone(labels)
	for _, name := range []string{"alertname", "severity", "resolves"} {
		delete(own, name)
	}
	o.displacedCount++
	o.displacedLabels = append(o.displacedLabels, text.Truncate(text.FormatLabels(own), maxLostName))
	o.displacedLabels = o.displacedLabels[max(0, len(o.displacedLabels)-maxNamedLost):]
}

// alertLabels returns the labels of the alert. Its templates get empty values for the names in `by`.
func (o *overflow) alertLabels() map[string]string {
	labels := o.rs.renderLabels(o.rs.rule, map[string]string{})
	labels["overflow"], labels["resolves"] = "true", "quiet"
	return labels
}

// Due returns the time when the alert ends if no further trigger is refused.
func (o *overflow) Due() int64 {
	quiet := o.rs.rule.KeepFiringFor
	if o.rs.rule.Expires() {
		quiet = rules.DefaultKeepFiringFor
	}
	return o.newest + int64(quiet)
}

func (o *overflow) conclude(now int64) {
	if o.Due() > o.ReadUpTo() { // another trigger was refused, which postponed the deadline
		o.due.Arm(o.rs.groups.steps.Group)
		return
	}
	o.end(o.Due(), now, ReasonQuiet)
}

func (o *overflow) end(end, now int64, reason Reason) {
	x := o.transition(now)
	x.setEnd(StateResolved, reason, max(end, o.starts, o.starts-o.clockShift), now)
	o.rs.journal.resolve(x)
	o.replaceWith(overflow{})
}

// rename changes the labels of the alert to the labels of the new version of its rule.
func (o *overflow) rename(now int64) {
	before := o.transition(now)
	o.labels = o.alertLabels()
	if o.print = FingerprintOf(o.labels); o.print != before.Fingerprint {
		before.setEnd(StateResolved, ReasonIdentity, now, now)
		o.rs.journal.add(before)
		o.rs.journal.add(o.transition(now))
	}
}

func (o *overflow) moveTimes(delta int64) {
	if o.active {
		o.starts += delta
		o.clockShift += delta
		o.newest += delta
	}
}
