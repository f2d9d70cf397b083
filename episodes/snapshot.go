package episodes

import (
	"encoding/json"
	"slices"

	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/text"
	"crowsnest/rules"
)

// Snapshot returns the whole state except for watermarks, as JSON. Its lines and
// captures are redacted.
func (e *Engine) Snapshot() ([]byte, error) { return e.Copy().Encode() }

// Copy is the state of an engine at one moment. It shares nothing that changes.
type Copy struct {
	of     *Engine
	s      snapshot
	lines  []savedLine
	max    int           // bytes of a line
	closed []*transition // of s.Closed
	at     int64         // of the clock
}

// savedLine is a line that is not redacted yet.
type savedLine struct {
	to  *string // where it is saved
	of  *window.Text
	raw string
}

// savedBytes bounds the bytes of lines of open episodes in a snapshot, to keep it fast.
const savedBytes = 1 << 20

// Copy copies what Snapshot saves. It is quick; encoding takes longer and can be
// done while the engine goes on.
func (e *Engine) Copy() Copy {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := snapshot{Version: snapshotVersion, Identity: e.cfg.Identity, Old: e.step.old, By: e.step.by}
	s.Seen, s.SeenOf = e.seen.Save()
	v := &saver{max: min(render.MaxLine, max(64, savedBytes/max(1, 2*e.limits.slots.Total()+e.limits.windows.Total())))}
	for _, rs := range e.order {
		r := ruleSnapshot{Alert: rs.rule.Alert, Hash: rs.rule.Hash, CapturedNames: rs.rule.CapturedNames}
		out := r
		if !e.guard(rs, e.limits.evictions.now, func() { v.rule(rs, &out) }) {
			// Without its open episodes, a restart would end their alerts.
			out = r
			for _, ep := range rs.open {
				out.Open = append(out.Open, ep.saved())
			}
		}
		if out.Open != nil || out.Windows != nil || out.Cleared != nil || out.Muted != nil || out.Overflow != nil {
			s.Rules = append(s.Rules, out)
		}
	}
	s.Closed = make([]savedEpisode, 0, len(e.journal.closed))
	for _, t := range e.journal.closed {
		s.Closed = append(s.Closed, savedEpisode{
			Alert: t.Alert, Reason: t.Reason, Overflow: t.Overflow, Silent: t.Silent, Labels: t.Labels,
			Starts: nanos(t.StartsAt), Fired: nanos(t.FiredAt), Newest: nanos(t.LastSeen),
			Ends: nanos(t.EndsAt), Concluded: nanos(t.Concluded), Lines: t.Count, Party: t.Party,
		})
	}
	for _, pod := range e.deletedPods.Keys() {
		at, _ := e.deletedPods.Peek(pod)
		s.DeletedPods = append(s.DeletedPods, deletedPod{pod, []byte(pod.identity), at})
	}
	return Copy{e, s, v.lines, v.max, slices.Clone(e.journal.closed), e.limits.evictions.now}
}

// Encode redacts the lines of the copy and returns it as JSON, for Restore.
func (c Copy) Encode() ([]byte, error) {
	c.redact()
	texts := make([]closedTexts, len(c.closed))
	for i, x := range c.of.rendered(c.closed, c.at) {
		texts[i] = closedTexts{x.closedKey(), x.Annotations, x.Line, x.First}
	}
	if len(texts) > 0 {
		var err error
		if c.s.Texts, err = c.of.blocks.Encode(texts, func(t closedTexts) closedKey { return t.closedKey }); err != nil {
			return nil, err
		}
	}
	return json.Marshal(c.s)
}

// redact redacts the lines of the copy, and those of the engine that have not changed
// since: each is redacted once.
func (c *Copy) redact() {
	clean := make([]string, len(c.lines))
	for i, l := range c.lines {
		clean[i] = c.of.renderer.Line(l.raw)
		*l.to = text.Truncate(clean[i], c.max)
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for i, l := range c.lines {
		l.of.Redact(l.raw, clean[i])
	}
}

// saver copies what is saved of rules.
type saver struct {
	max   int // bytes of a line: the more episodes and windows there are, the less of each
	lines []savedLine
}

// line saves a line in to, at once or when the copy is encoded.
func (v *saver) line(to *string, t *window.Text) {
	if t.Clean {
		*to = text.Truncate(t.S, v.max)
	} else if t.S != "" {
		v.lines = append(v.lines, savedLine{to, t, t.S})
	}
}

func (v *saver) rule(rs *ruleState, out *ruleSnapshot) {
	if n := len(rs.open); n > 0 {
		out.Open = make([]episodeSnapshot, n)
	}
	for i, ep := range rs.sorted() {
		v.episode(&out.Open[i], ep)
	}
	out.Lapses = make([]episodeSnapshot, len(rs.lapses))
	for i, l := range rs.lapses {
		v.episode(&out.Lapses[i], l.ep)
		out.Lapses[i].Times, out.Lapses[i].Shown = l.times.Pack(), l.shown
	}
	for x, party := range rs.windows.Values() {
		if x.Value.Size() > 0 {
			w := v.window(rs.rule, x.Value, window.Text{})
			w.Key, w.Identity, w.Loose, w.Party = x.Value.key, x.Value.who.saved(), x.Value.loose, party
			out.Windows = append(out.Windows, w)
		}
	}
	for x, party := range rs.cleared.Values() {
		out.Cleared = append(out.Cleared, saveClears(x.Value, x.Key, party))
	}
	for x, party := range rs.muted.Values() {
		// The times are changed in place.
		out.Muted = append(out.Muted, entrySnapshot[[]int64]{[]byte(x.Key), slices.Clone(x.Value), party})
	}
	if o := &rs.over; o.active {
		out.Overflow = &overflowSnapshot{Labels: o.labels, Starts: o.starts, Moved: o.moved, Newest: o.newest, Fired: o.fired, Lines: o.lines, Why: o.why, Hashes: o.keys.Keys()}
	}
}

// saved returns the identity and progress of an episode.
func (ep *episode) saved() episodeSnapshot {
	return episodeSnapshot{
		Values: ep.values, Identity: ep.who.saved(), Loose: ep.loose, Nameless: ep.nameless, Labels: ep.labels, State: ep.state, Namespace: ep.namespace,
		Starts: ep.starts, Moved: ep.moved, Newest: ep.newest, From: ep.from, Fired: ep.fired, Written: ep.written, Lines: ep.lines, LastID: ep.lastID,
	}
}

func (v *saver) episode(x *episodeSnapshot, ep *episode) {
	*x = ep.saved()
	x.Party, x.Times, x.Log, x.Logs = ep.charged(), ep.times.Pack(), ep.logs.first, slices.Clone(ep.logs.known)
	x.Sequence = saveValues(ep.rs.rule, ep.sequence)
	v.line(&x.Line, &ep.last.Line)
	if ep.first != ep.last.Line {
		v.line(&x.First, &ep.first)
	}
	if w := ep.window; w != nil {
		out := v.window(ep.rs.rule, w, ep.last.Line)
		x.Window = &out
	}
}

// window saves a window, but for the newest line if that is known.
func (v *saver) window(r *rules.Rule, w *keyWindow, known window.Text) windowSnapshot {
	out := windowSnapshot{Distinct: v.hits(r, w.Window.Values), Lines: w.Lines.Pack()}
	if w.Newest != nil {
		out.Newest = saveValues(r, window.Hits{w.Newest})
		if w.Newest.Line != known {
			v.line(&out.Newest[0].Line, &w.Newest.Line)
		}
	}
	for _, hs := range w.Steps {
		out.Steps = append(out.Steps, v.hits(r, hs))
	}
	return out
}

// hits saves the parts of hits that future triggers need.
func (v *saver) hits(r *rules.Rule, hs window.Hits) []hitSnapshot {
	out := saveValues(r, hs)
	for i, h := range hs {
		v.line(&out[i].Line, &h.Line)
		if out[i].Multi = h.Several; r.Sequence {
			out[i].ID = h.ID
		}
	}
	return out
}

// saveValues saves the parts of hits that templates need. The values of a hit never
// change, so they are shared.
func saveValues(r *rules.Rule, hs window.Hits) []hitSnapshot {
	out := make([]hitSnapshot, len(hs))
	for i, h := range hs {
		out[i].T = h.T
		if len(h.Values) == len(r.CapturedNames) && slices.Equal(h.Names, r.CapturedNames) {
			out[i].Values = h.Values
			continue
		}
		for _, name := range r.CapturedNames {
			out[i].Values = append(out[i].Values, h.Value(name))
		}
	}
	return out
}
