package episodes

import (
	"slices"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/saved"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/rules"
)

// Cause is an alert that explains another alert, its symptom. It must be treated as read-only.
type Cause struct {
	Fingerprint Fingerprint
	Alert       string
	Severity    string
	Labels      map[string]string
	Summary     string // summary when the alert first became a cause; empty if the alert has none
	StartsAt    time.Time
}

// Names of the annotations that only symptoms have.
const (
	annotationCause   = "cause_alertname"
	annotationPrint   = "cause_fingerprint"
	annotationSummary = "cause_summary"
)

func (c *Cause) annotations() map[string]string {
	out := map[string]string{annotationCause: c.Alert, annotationPrint: c.Fingerprint.String()}
	if c.Summary != "" {
		out[annotationSummary] = c.Summary
	}
	return out
}

// relation describes an episode as a cause. All its symptoms share the relation.
type relation struct {
	Cause
	// summarySource renders the summary. It is nil once the summary is known. It changes only while both mutexes of the
	// engine are held.
	summarySource *transition
}

func (r *relation) renderSummary(renderer *render.Renderer) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = "" // a cause whose summary panics must not quarantine the rule of its symptom
		}
	}()
	return r.summarySource.renderTexts(renderer).annotations["summary"]
}

func (ep *episode) asCause(now int64) *relation {
	if ep.causing == nil || ep.causing.Fingerprint != ep.print {
		ep.causing = &relation{summarySource: ep.transition(now), Cause: Cause{
			Fingerprint: ep.print, Alert: ep.rs.rule.Alert, Severity: ep.labels["severity"], Labels: ep.labels, StartsAt: instant.ToTime(ep.starts - ep.clockShift),
		}}
		ep.causing.summarySource.cause = nil // the summary of a cause does not mention the cause of that cause
	}
	return ep.causing
}

// symptom is the state of an episode as a symptom of others.
type symptom struct {
	cause *relation // the current cause; nil if there is none
	had   *relation // the most recent cause; nil if there never was one
	// earlier are triggers that lie before baseTrigger but were read after it. recent are the triggers of a firing
	// episode that a late clear line may still separate from the first trigger. since is the time of the first trigger
	// after such a clear line, or zero if there was none.
	earlier, recent window.Times
	since           int64
	inhibit         inhibition
	causing         *relation // the episode in its role as a cause; nil if it never was one
}

// inhibition states whether a receiver may suppress an alert because the alert of its cause fires. This is decided when
// the alert is first reported as firing. An alert never becomes inhibited later, because somebody may already have been
// notified of it.
type inhibition string

const (
	inhibitOpen inhibition = ""    // the episode has not been reported as firing yet
	inhibitYes  inhibition = "yes" // the episode has a cause
	inhibitNo   inhibition = "no"  // the episode has no cause, or lost its cause
)

func (e *Engine) markParticipants() {
	for _, rs := range e.order {
		rs.participates = false
	}
	for _, rs := range e.order {
		for _, c := range rs.rule.Causes {
			rs.participates = true
			if cause := e.rules[c.Alert]; cause != nil {
				cause.participates = true
			}
		}
	}
	e.unsettled = true
}

// markUnsettled makes the engine decide again which episodes are symptoms, because the times, the labels or the state
// of an episode of the rule changed.
func (rs *ruleState) markUnsettled() {
	if rs.participates {
		rs.unsettled = true
	}
}

// relateSymptoms determines, for each open episode, which other open episode is its cause. The result depends only on
// the open episodes, not on the order in which their lines were read.
func (e *Engine) relateSymptoms(now int64) {
	if e.unsettled {
		e.unsettled = false
		for _, rs := range e.order {
			if len(rs.rule.Causes) > 0 && len(rs.open) > 0 {
				e.runGuarded(rs, now, func() { rs.findCauses(e.rules, e.warm, now) })
			}
		}
	}
	for _, t := range e.journal.changes {
		ep := t.ep
		if ep == nil || t.done || t.State != StateFiring && t.State != StatePending {
			continue
		}
		if t.State == StateFiring && ep.inhibit == inhibitOpen {
			ep.inhibit = inhibitNo // the rule names no cause
		}
		t.cause, t.Inhibit = ep.cause, ep.inhibit == inhibitYes
	}
}

// candidates are the firing episodes of a rule that another rule names as its cause. For each agreementKey, candidates
// hold the episode that began first.
type candidates struct {
	cause    *rules.Cause
	rs       *ruleState
	names    []string
	first    map[string]*episode
	inhibits bool
}

func (rs *ruleState) findCauses(all map[string]*ruleState, warm bool, now int64) {
	var causes []candidates
	for i := range rs.rule.Causes {
		if c, ok := rs.causeCandidates(&rs.rule.Causes[i], all); ok {
			causes = append(causes, c)
		}
	}
	for _, ep := range rs.open {
		var found *relation
		inhibits := false
		for _, c := range causes {
			if cause := c.findCause(ep); cause != nil {
				if found == nil {
					found = cause.asCause(now)
				}
				inhibits = inhibits || c.inhibits
			}
		}
		ep.setCause(found, inhibits, warm)
	}
}

func (ep *episode) setCause(rel *relation, inhibits, warm bool) {
	before := ep.inhibit
	if ep.state == StateFiring && ep.inhibit != inhibitNo {
		switch {
		case !inhibits, warm: // nobody knows which alerts were reported before the warm-up
			ep.inhibit = inhibitNo
		default:
			ep.inhibit = inhibitYes
		}
	}
	if rel == ep.cause && before == ep.inhibit {
		return
	}
	if ep.cause = rel; rel != nil {
		ep.had = rel
	}
	ep.rs.journal.markContinued(ep)
}

// causeCandidates returns the episodes that can be the cause of an episode of rs. It returns false if there is none.
func (rs *ruleState) causeCandidates(cause *rules.Cause, all map[string]*ruleState) (candidates, bool) {
	c := candidates{cause: cause, rs: all[cause.Alert]}
	if c.rs == nil || len(c.rs.open) == c.rs.pending {
		return c, false
	}
	var ok bool
	if c.names, ok = cause.SharedLabels(rs.rule, c.rs.rule.By); !ok {
		return c, false
	}
	c.inhibits = c.rs.rule.Inhibits(rs.rule)
	c.first = map[string]*episode{}
	for _, ep := range c.rs.open {
		if ep.state != StateFiring {
			continue
		}
		if key, ok := c.agreementKey(ep); ok {
			if x := c.first[key]; x == nil || ep.latestBegin() < x.latestBegin() || ep.latestBegin() == x.latestBegin() && ep.print < x.print {
				c.first[key] = ep
			}
		}
	}
	return c, len(c.first) > 0
}

// agreementKey joins the values that a cause and its symptom must have in common. It returns false if a label is
// absent, because an absent label equals nothing. The identity must always be the same. If the rule of the cause trusts
// the lines of every namespace, the cause and the symptom must come from the same namespace. Otherwise a tenant could
// write lines that explain away the alerts of another tenant.
func (c *candidates) agreementKey(ep *episode) (string, bool) {
	values := make([]string, 0, len(c.names)+1)
	for _, name := range c.names {
		if slices.Contains(ep.rs.cfg.Identity, name) {
			continue
		}
		if ep.labels[name] == "" {
			return "", false
		}
		values = append(values, ep.labels[name])
	}
	if !c.rs.rule.Infrastructure {
		values = append(values, ep.namespace)
	}
	if c.rs.ambiguous || ep.rs.ambiguous {
		for _, name := range ep.rs.cfg.Identity {
			values = append(values, ep.labels[name])
		}
	}
	return intake.JoinKey(values, ep.who), !ep.partialIdentity
}

func (c *candidates) findCause(ep *episode) *episode {
	key, ok := c.agreementKey(ep)
	if !ok {
		return nil
	}
	cause := c.first[key]
	if cause == nil || cause == ep {
		return nil
	}
	if by := cause.latestBegin() - ep.earliestBegin(); by < 0 || c.cause.Lag > 0 && by <= int64(c.cause.Lag) {
		return cause
	}
	return nil
}

// earliestBegin is the earliest time at which the failure can have begun. It does not depend on the order in which the
// lines were read.
func (ep *episode) earliestBegin() int64 {
	if ep.rs.armed != nil {
		return ep.newest
	}
	return ep.openingTrigger()
}

// latestBegin is the latest time at which the failure can have begun.
func (ep *episode) latestBegin() int64 {
	if ep.rs.armed != nil {
		return ep.starts
	}
	return ep.openingTrigger()
}

// openingTrigger returns the time of the trigger that would have opened the episode if all
// lines had been read in order of their times.
func (ep *episode) openingTrigger() int64 {
	rs, times := ep.rs, ep.earlier
	if rs.rule.Clear == nil {
		for _, l := range rs.briefFailures {
			if l.ep.key == ep.key {
				times = slices.Concat(times, l.times)
				slices.Sort(times)
			}
		}
	}
	t := ep.baseTrigger()
	quiet := rs.quietTime() + rs.groups.steps.Lateness // same quiet time as in brief failure.isJoinedBy
	for _, before := range slices.Backward(times) {
		if before < t && (rs.rule.Clear != nil || t-before <= quiet) {
			t = before
		}
	}
	return t
}

// baseTrigger is the time of the trigger that opened the episode, or of the first trigger after
// a clear line that was read late.
func (ep *episode) baseTrigger() int64 { return max(ep.starts, ep.since) }

// resetTriggers replaces the remembered triggers with times, because the episode starts again.
func (ep *episode) resetTriggers(times window.Times) {
	ep.earlier, ep.recent, ep.since = nil, nil, 0
	if ep.rs.participates && ep.rs.rule.Clear != nil {
		ep.recent = times
	}
	ep.rs.markUnsettled()
}

// noteTrigger records a trigger, and the earlier triggers that a late line completes.
func (ep *episode) noteTrigger(trig *window.Trigger) {
	rs := ep.rs
	if !rs.participates {
		return
	}
	if rs.rule.Clear != nil && ep.state == StateFiring {
		ep.recent.AddTrigger(trig.T)
		if i := ep.recent.IndexAfter(rs.watermarkOf(ep.values, ep.who, ep.partialIdentity)); i > 0 {
			ep.recent = slices.Clone(ep.recent[i:])
		}
	}
	if rs.in.Hit.T >= ep.baseTrigger() {
		return
	}
	found := window.Times{trig.T}
	if rs.needsWindow() && ep.window != nil {
		found = ep.window.TriggersBetween(rs.rule, rs.hitClears(ep, ep.values).Newest, window.Forever)
	}
	for _, t := range found {
		if t < ep.baseTrigger() {
			ep.earlier.AddTrigger(t)
		}
	}
	rs.markUnsettled()
}

// noteClear drops the triggers up to a clear line at t that does not end the episode.
func (ep *episode) noteClear(t int64) {
	if i := ep.earlier.IndexAfter(t); i > 0 {
		ep.earlier = slices.Clone(ep.earlier[i:])
		ep.rs.markUnsettled()
	}
	if !ep.rs.participates || ep.state != StateFiring || t < ep.baseTrigger() || t >= ep.newest {
		return
	}
	ep.since = ep.newest
	after := ep.recent
	if ep.rs.needsWindow() && ep.window != nil {
		after = ep.window.TriggersBetween(ep.rs.rule, t, window.Forever)
	}
	if i := after.IndexAfter(t); i < len(after) {
		ep.since = after[i]
	}
	ep.rs.markUnsettled()
}

func savedCause(c *Cause) *saved.Cause {
	if c == nil {
		return nil
	}
	return &saved.Cause{Print: uint64(c.Fingerprint), Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, Summary: c.Summary, Starts: instant.FromTime(c.StartsAt)}
}

func loadedCause(c *saved.Cause) *Cause {
	if c == nil {
		return nil
	}
	return &Cause{Fingerprint: Fingerprint(c.Print), Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, Summary: c.Summary, StartsAt: instant.ToTime(c.Starts)}
}
