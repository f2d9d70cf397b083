package episodes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
)

// subject is something that has a deadline: an episode, an armed key, a brief failure, or the overflow
// of a rule.
type subject interface {
	watermark.Subject
	// subjectOf returns the rule, the start and the key of the subject. An overflow returns the latest possible start,
	// so that it sorts last.
	subjectOf() (rs *ruleState, starts int64, key string)
	// conclude draws the conclusion after the watermark has reached the deadline.
	conclude(now int64)
}

func (ep *episode) subjectOf() (*ruleState, int64, string)     { return ep.rs, ep.starts, ep.key }
func (k *armedKey) subjectOf() (*ruleState, int64, string)     { return k.in.rs, k.Due(), k.key }
func (l *briefFailure) subjectOf() (*ruleState, int64, string) { return l.ep.subjectOf() }
func (o *overflow) subjectOf() (*ruleState, int64, string)     { return o.rs, window.Forever, "" }

// inTurn compares deadlines by the order in which they are evaluated. This order is by rule, then by start, then by
// key. The overflow of a rule comes last.
func inTurn(x, y *watermark.Deadline) int {
	r, a, k := x.Subject.(subject).subjectOf()
	s, b, l := y.Subject.(subject).subjectOf()
	return cmp.Or(cmp.Compare(r.pos, s.pos), cmp.Compare(a, b), strings.Compare(k, l))
}

// computeDeadline returns the deadline of a subject. If computing it panics, the rule is quarantined.
func (e *Engine) computeDeadline(d *watermark.Deadline) (at int64, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			rs, _, _ := d.Subject.(subject).subjectOf()
			e.quarantineRule(rs, e.limits.losses.Now)
			d.Disarm()
		}
	}()
	return d.Subject.Due(), true
}

// conclude draws the conclusions of all deadlines that the watermarks have reached, including deadlines that these
// conclusions set.
func (e *Engine) conclude(now int64) {
	for e.due = e.sources.TakeDue(e.safeDue, e.due[:0]); len(e.due) > 0; e.due = e.sources.TakeDue(e.safeDue, e.due[:0]) {
		slices.SortFunc(e.due, inTurn)
		for _, d := range e.due {
			x := d.Subject.(subject)
			if rs, _, _ := x.subjectOf(); !rs.quarantined {
				e.runGuarded(rs, now, func() { x.conclude(now) })
			}
		}
		clear(e.due)
	}
}

func (ep *episode) conclude(now int64) {
	rs := ep.rs
	if rs.open[ep.key] != ep {
		return // another conclusion of this round displaced the episode
	}
	for ep.Due() <= ep.ReadUpTo() {
		if ep.isFiringNext() {
			ep.fire(now)
			continue
		}
		reason := ReasonQuiet
		if rs.rule.Expires() {
			reason = ReasonExpired
		}
		ep.close(reason, ep.endTime(), now, window.Text{})
		return
	}
	ep.armDeadline()
}

// NextDeadline returns the earliest clock time at which Evaluate may conclude something
// without another line, if all sources keep up.
func (e *Engine) NextDeadline() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if next, ok := e.sources.NextTime(e.safeDue); ok {
		return instant.ToTime(next), true
	}
	return time.Time{}, false
}
