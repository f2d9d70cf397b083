package episodes

import (
	"maps"
	"slices"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/rules"
)

// transition is the state of an episode at one moment, as the engine concluded it. Its texts are rendered when they are
// first needed, while the engine's mutex is free; see renderAll.
type transition struct {
	Episode  // the fields Line, FirstLine and Annotations are valid once done is set
	rs       *ruleState
	ep       *episode         // episode; nil for an overflow alert and for an episode from a snapshot
	overflow *render.Overflow // data of an overflow alert; nil for an episode

	line, first     window.Text
	captures        []render.Capture
	known           *render.Texts     // texts of the previous transition of the episode
	moreAnnotations map[string]string // additional annotations
	cause           *relation         // cause of the episode; nil if it has none
	// done is set when the texts are rendered. A transition changes only while both mutexes of the engine are held, so
	// holding either one is enough to read it.
	done bool
	// clockShift is the sum of the clock changes since the end of the episode. The times of the transition do not include
	// it.
	clockShift int64
	// opens is set until the episode is first reported.
	opens bool
}

func (ep *episode) transition(now int64) *transition {
	rs, c := ep.rs, &ep.rs.in.Copier
	c.Copy(&ep.last)
	t := &transition{rs: rs, ep: ep, line: ep.last.Line, first: ep.first, known: ep.texts, captures: make([]render.Capture, 0, len(ep.sequence))}
	for _, h := range ep.sequence {
		c.Copy(h)
		t.captures = append(t.captures, render.Capture{Names: h.Names, Values: h.Values})
	}
	t.Episode = Episode{
		Fingerprint: ep.print, Rule: rs.rule, Alert: rs.rule.Alert, State: ep.state,
		Silent: rs.rule.Mode == rules.ModeSilent, Labels: ep.labels,
		StartsAt: instant.ToTime(ep.starts - ep.clockShift), LastSeen: instant.ToTime(ep.newest), EventTime: instant.ToTime(ep.completedAt),
		Count: ep.lines, Deadline: instant.ToTime(ep.Due()), Tenant: ep.tenant(), Origin: ep.logs.String(), FiredBeforeRestore: ep.firedBefore,
	}
	t.cause, t.Inhibit = ep.cause, ep.inhibit == inhibitYes
	a := ep.awaits()
	t.OnHold, t.WaitsFor = a.onHoldFor(ep.values, ep.who, ep.partialIdentity, a.OnHold(now), now)
	if t.OnHold {
		t.AwaitedParts = a.describeWaits(ep.values, ep.who, ep.partialIdentity, now)
	}
	if ep.firedAt != 0 {
		t.FiredAt = instant.ToTime(ep.firedAt)
	}
	return t
}

func (o *overflow) transition(now int64) *transition {
	rs := o.rs
	x := Episode{
		Fingerprint: o.print, Rule: rs.rule, Alert: rs.rule.Alert, State: StateFiring, Overflow: true,
		Silent: rs.rule.Mode == rules.ModeSilent, Labels: o.labels,
		StartsAt: instant.ToTime(o.starts - o.clockShift), FiredAt: instant.ToTime(o.firedAt), LastSeen: instant.ToTime(o.newest),
		EventTime: instant.ToTime(o.starts), Count: o.lines,
		Deadline: instant.ToTime(o.Due()), FiredBeforeRestore: o.restored,
	}
	if x.OnHold = rs.groups.steps.OnHold(now); x.OnHold {
		x.WaitsFor, x.AwaitedParts = rs.groups.steps.SilentSources(now), rs.groups.steps.waitsForAll(now)
	}
	keys := o.keys.Len()
	return &transition{Episode: x, rs: rs, overflow: &render.Overflow{
		Rule: rs.rule, Labels: o.labels, Keys: keys, AtLeast: keys >= maxOverflowKeys(rs.rule), Lines: o.lines, LimitText: o.limitText, DisplacedCount: o.displacedCount, DisplacedLabels: slices.Clone(o.displacedLabels),
		StartsAt: x.StartsAt, LastSeen: x.LastSeen,
	}}
}

func (t *transition) setEnd(state State, reason Reason, end, now int64) {
	t.State, t.Reason, t.FiredBeforeRestore = state, reason, false
	t.EndsAt, t.ConcludedAt = instant.ToTime(end), instant.ToTime(now)
}

type texts struct {
	*render.Texts                   // nil if rendering panicked
	annotations   map[string]string // annotations of Texts, together with additional ones
	cause         Cause             // cause with its summary
}

func (t *transition) renderTexts(r *render.Renderer) (out texts) {
	defer func() {
		if p := recover(); p != nil {
			out = texts{}
		}
	}()
	if t.overflow != nil {
		all := r.RenderOverflow(t.overflow)
		return texts{Texts: &render.Texts{Annotations: all}, annotations: all}
	}
	made := r.RenderTexts(render.Facts{
		Rule: t.Rule, Labels: t.Labels, Captures: t.captures, Count: t.Count,
		StartsAt: t.StartsAt, LastSeen: t.LastSeen, Line: t.line.Shown(r.RedactLine), First: t.first.Shown(r.RedactLine), Origin: t.Origin,
	}, t.known)
	out = texts{Texts: made, annotations: made.Annotations}
	if t.moreAnnotations != nil || t.cause != nil {
		out.annotations = maps.Clone(made.Annotations)
		maps.Copy(out.annotations, t.moreAnnotations)
	}
	if t.cause != nil {
		out.cause = t.cause.Cause
		if t.cause.summarySource != nil {
			out.cause.Summary = t.cause.renderSummary(r)
		}
		for name, text := range out.cause.annotations() {
			if _, stated := out.annotations[name]; !stated {
				out.annotations[name] = text
			}
		}
	}
	return out
}

// keepTexts stores the texts in the transition. It also stores the redacted lines in the episode, unless the episode
// has newer lines.
func (t *transition) keepTexts(made texts) {
	t.done, t.Line, t.FirstLine, t.Annotations = true, made.Line, made.First, made.annotations
	if ep := t.ep; ep != nil {
		ep.texts = made.Texts
		ep.last.Line.Redact(t.line.Raw, made.Line)
		ep.first.Redact(t.first.Raw, made.First)
	}
	if r := t.cause; r != nil {
		if r.summarySource != nil {
			r.Summary, r.summarySource = made.cause.Summary, nil
		}
		t.Cause = &r.Cause
	}
	t.ep, t.known, t.captures, t.moreAnnotations, t.cause = nil, nil, nil, nil, nil // frees the memory of fields that are no longer needed
}

// renderAll returns copies of transitions with their texts. It renders while the mutex that Take needs is free, because
// executing templates and redacting lines is slow. If rendering panics, the rule is quarantined. Then episodes that
// were not reported before are omitted, and the others get an annotation that explains the failure.
func (e *Engine) renderAll(ts []*transition, now int64) []Episode {
	if len(ts) == 0 {
		return nil
	}
	e.rendering.Lock()
	defer e.rendering.Unlock()
	made := make([]texts, len(ts))
	for i, t := range ts {
		if !t.done {
			made[i] = t.renderTexts(&e.renderer)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Episode, 0, len(ts))
	for i, t := range ts {
		switch {
		case t.done:
		case made[i].Texts != nil:
			t.keepTexts(made[i])
		default:
			e.quarantineRule(t.rs, now)
			if t.setBrokenTexts(); t.opens {
				continue
			}
		}
		out = append(out, t.Episode)
	}
	return out
}

func (t *transition) setBrokenTexts() {
	t.Annotations = map[string]string{"summary": "crowsnest could not render the texts of this alert because of a bug"}
	t.done = true
}

// safeTransition returns the transition of an episode. If that panics, the rule is quarantined, and
// the transition has only the fields that identify the episode.
func (e *Engine) safeTransition(ep *episode, now int64) (t *transition) {
	if e.runGuarded(ep.rs, now, func() { t = ep.transition(now) }) {
		return t
	}
	t = &transition{Episode: Episode{
		Fingerprint: ep.print, Rule: ep.rs.rule, Alert: ep.rs.rule.Alert, State: ep.state, Labels: ep.labels,
		StartsAt: instant.ToTime(ep.starts - ep.clockShift), LastSeen: instant.ToTime(ep.newest), EventTime: instant.ToTime(ep.completedAt), Count: ep.lines,
		FiredBeforeRestore: ep.firedBefore,
	}}
	t.setBrokenTexts()
	return t
}
