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

// Cause is the alert of which another one is a symptom. It must be treated as read-only.
type Cause struct {
	Fingerprint Fingerprint
	Alert       string
	Severity    string
	Labels      map[string]string
	Summary     string // annotation of the cause when it was first seen as one; empty if it has none
	StartsAt    time.Time
}

// The annotations of a symptom.
const (
	annotationCause   = "cause_alertname"
	annotationPrint   = "cause_fingerprint"
	annotationSummary = "cause_summary"
)

// annotations returns the annotations of a symptom.
func (c *Cause) annotations() map[string]string {
	out := map[string]string{annotationCause: c.Alert, annotationPrint: c.Fingerprint.String()}
	if c.Summary != "" {
		out[annotationSummary] = c.Summary
	}
	return out
}

// relation is an episode as the cause of others, which share it.
type relation struct {
	Cause
	// of makes the summary; nil once that is known. It changes only under both mutexes of
	// the engine.
	of *transition
}

// summary renders the summary of the cause.
func (r *relation) summary(renderer *render.Renderer) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = "" // the rule of the symptom is not to blame
		}
	}()
	return r.of.texts(renderer).annotations["summary"]
}

// relation returns the episode as a cause.
func (ep *episode) relation(now int64) *relation {
	if ep.causing == nil || ep.causing.Fingerprint != ep.print {
		ep.causing = &relation{of: ep.transition(now), Cause: Cause{
			Fingerprint: ep.print, Alert: ep.rs.rule.Alert, Severity: ep.labels["severity"], Labels: ep.labels, StartsAt: instant.Time(ep.starts - ep.moved),
		}}
		ep.causing.of.cause = nil // a chain is followed over its alerts
	}
	return ep.causing
}

// symptom is what an episode is as a symptom of others.
type symptom struct {
	cause *relation // at present; nil if there is none
	had   *relation // the newest cause that it had
	// earlier are the triggers before base, which were read later; recent are those of a
	// firing episode which a clear line may still divide from the first one. since is the
	// first trigger after the clear line that did; zero if none did.
	earlier, recent window.Times
	since           int64
	inhibit         inhibition
	causing         *relation // as the cause of others; nil if it never was
}

// inhibition says whether a receiver may leave an alert to that of its cause. That is decided
// when the alert is first reported as firing: one that somebody may have been notified of is
// not inhibited later.
type inhibition string

const (
	inhibitOpen inhibition = ""    // the episode was not reported as firing yet
	inhibitYes  inhibition = "yes" // the episode has a cause
	inhibitNo   inhibition = "no"  // the episode has no cause, or no longer one
)

// participate marks the rules that are causes or symptoms.
func (e *Engine) participate() {
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

// unsettle has the causes decided again: the times, the labels or the state of an episode of
// the rule changed.
func (rs *ruleState) unsettle() {
	if rs.participates {
		rs.unsettled = true
	}
}

// relate decides which open episodes are symptoms of which. The result depends only on the
// open episodes, not on the order in which their lines were read.
func (e *Engine) relate(now int64) {
	if e.unsettled {
		e.unsettled = false
		for _, rs := range e.order {
			if len(rs.rule.Causes) > 0 && len(rs.open) > 0 {
				e.guard(rs, now, func() { rs.relate(e.rules, e.warm, now) })
			}
		}
	}
	for _, t := range e.journal.changes {
		ep := t.ep
		if ep == nil || t.done || t.State != StateFiring && t.State != StatePending {
			continue
		}
		if t.State == StateFiring && ep.inhibit == inhibitOpen {
			ep.inhibit = inhibitNo // its rule states no cause
		}
		t.cause, t.Inhibit = ep.cause, ep.inhibit == inhibitYes
	}
}

// candidates are the firing episodes of one cause of a rule: of each key of the labels that
// must agree, the one that began first.
type candidates struct {
	of       *rules.Cause
	rs       *ruleState
	names    []string
	first    map[string]*episode
	inhibits bool
}

// relate finds the cause of each open episode of the rule.
func (rs *ruleState) relate(all map[string]*ruleState, warm bool, now int64) {
	var causes []candidates
	for i := range rs.rule.Causes {
		if c, ok := rs.candidates(&rs.rule.Causes[i], all); ok {
			causes = append(causes, c)
		}
	}
	for _, ep := range rs.open {
		var found *relation
		inhibits := false
		for _, c := range causes {
			if cause := c.causeOf(ep); cause != nil {
				if found == nil {
					found = cause.relation(now)
				}
				inhibits = inhibits || c.inhibits
			}
		}
		ep.become(found, inhibits, warm)
	}
}

// become makes the episode a symptom of a cause, or of none.
func (ep *episode) become(of *relation, inhibits, warm bool) {
	before := ep.inhibit
	if ep.state == StateFiring && ep.inhibit != inhibitNo {
		switch {
		case !inhibits, warm: // what was reported before the warm-up is not known
			ep.inhibit = inhibitNo
		default:
			ep.inhibit = inhibitYes
		}
	}
	if of == ep.cause && before == ep.inhibit {
		return
	}
	if ep.cause = of; of != nil {
		ep.had = of
	}
	ep.rs.journal.touch(ep)
}

// candidates returns the episodes that can be the cause; false: there is none.
func (rs *ruleState) candidates(of *rules.Cause, all map[string]*ruleState) (candidates, bool) {
	c := candidates{of: of, rs: all[of.Alert]}
	if c.rs == nil || len(c.rs.open) == c.rs.pending {
		return c, false
	}
	var ok bool
	if c.names, ok = of.Shared(rs.rule, c.rs.rule.By); !ok {
		return c, false
	}
	c.inhibits = c.rs.rule.Inhibits(rs.rule)
	c.first = map[string]*episode{}
	for _, ep := range c.rs.open {
		if ep.state != StateFiring {
			continue
		}
		if key, ok := c.key(ep); ok {
			if x := c.first[key]; x == nil || ep.beganBy() < x.beganBy() || ep.beganBy() == x.beganBy() && ep.print < x.print {
				c.first[key] = ep
			}
		}
	}
	return c, len(c.first) > 0
}

// key joins what must agree between a cause and its symptom; false: a label is absent, so
// nothing agrees with it. The identity always must agree. If the cause trusts the lines of
// every namespace, both must come from the same one: nobody can explain the alerts of others
// away.
func (c *candidates) key(ep *episode) (string, bool) {
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
	return intake.Key(values, ep.who), !ep.loose
}

// causeOf returns the cause of an episode; nil if there is none.
func (c *candidates) causeOf(ep *episode) *episode {
	key, ok := c.key(ep)
	if !ok {
		return nil
	}
	cause := c.first[key]
	if cause == nil || cause == ep {
		return nil
	}
	if by := cause.beganBy() - ep.began(); by < 0 || c.of.Lag > 0 && by <= int64(c.of.Lag) {
		return cause
	}
	return nil
}

// began is the earliest time at which the failure may have begun, whatever the order in which
// its lines were read.
func (ep *episode) began() int64 {
	if ep.rs.armed != nil {
		return ep.newest
	}
	return ep.opened()
}

// beganBy is the time by which the failure had begun.
func (ep *episode) beganBy() int64 {
	if ep.rs.armed != nil {
		return ep.starts
	}
	return ep.opened()
}

// opened is the time of the trigger that would have opened the episode if all lines that were
// read had been read in order of time.
func (ep *episode) opened() int64 {
	rs, times := ep.rs, ep.earlier
	if rs.rule.Clear == nil {
		for _, l := range rs.lapses {
			if l.ep.key == ep.key {
				times = slices.Concat(times, l.times)
				slices.Sort(times)
			}
		}
	}
	t := ep.base()
	quiet := rs.quiet() + rs.groups.steps.Lateness // as lapse.joins
	for _, before := range slices.Backward(times) {
		if before < t && (rs.rule.Clear != nil || t-before <= quiet) {
			t = before
		}
	}
	return t
}

// base is the trigger that opened the episode, or the first one after a clear line that was
// read later.
func (ep *episode) base() int64 { return max(ep.starts, ep.since) }

// reset forgets which triggers there were, because the episode begins again with times.
func (ep *episode) reset(times window.Times) {
	ep.earlier, ep.recent, ep.since = nil, nil, 0
	if ep.rs.participates && ep.rs.rule.Clear != nil {
		ep.recent = times
	}
	ep.rs.unsettle()
}

// noteTrigger notes a trigger, and those before the first one that a late line reveals.
func (ep *episode) noteTrigger(trig *window.Trigger) {
	rs := ep.rs
	if !rs.participates {
		return
	}
	if rs.rule.Clear != nil && ep.state == StateFiring {
		ep.recent.AddTrigger(trig.T)
		if i := ep.recent.Since(rs.watermark()); i > 0 {
			ep.recent = slices.Clone(ep.recent[i:])
		}
	}
	if rs.in.Hit.T >= ep.base() {
		return
	}
	found := window.Times{trig.T}
	if rs.windowed() && ep.window != nil {
		found = ep.window.Ends(rs.rule, rs.clearsOf(ep, ep.values).Newest, window.Forever)
	}
	for _, t := range found {
		if t < ep.base() {
			ep.earlier.AddTrigger(t)
		}
	}
	rs.unsettle()
}

// noteClear forgets the triggers up to a clear line at t, which does not end the episode.
func (ep *episode) noteClear(t int64) {
	if i := ep.earlier.Since(t); i > 0 {
		ep.earlier = slices.Clone(ep.earlier[i:])
		ep.rs.unsettle()
	}
	if !ep.rs.participates || ep.state != StateFiring || t < ep.base() || t >= ep.newest {
		return
	}
	ep.since = ep.newest
	after := ep.recent
	if ep.rs.windowed() && ep.window != nil {
		after = ep.window.Ends(ep.rs.rule, t, window.Forever)
	}
	if i := after.Since(t); i < len(after) {
		ep.since = after[i]
	}
	ep.rs.unsettle()
}

// savedCause returns the saved form of a cause.
func savedCause(c *Cause) *saved.Cause {
	if c == nil {
		return nil
	}
	return &saved.Cause{Print: uint64(c.Fingerprint), Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, Summary: c.Summary, Starts: instant.Of(c.StartsAt)}
}

// loadedCause is the inverse of savedCause.
func loadedCause(c *saved.Cause) *Cause {
	if c == nil {
		return nil
	}
	return &Cause{Fingerprint: Fingerprint(c.Print), Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, Summary: c.Summary, StartsAt: instant.Time(c.Starts)}
}
