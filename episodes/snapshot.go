package episodes

import (
	"slices"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/saved"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
)

// Snapshot returns the whole state, except watermarks, as JSON. Its lines and captures are
// redacted.
func (e *Engine) Snapshot() ([]byte, error) { return e.Copy().Append(nil) }

// Copy is the state of an engine at one moment. It shares no memory that may change.
type Copy struct {
	of     *Engine
	state  saved.State
	lines  *saved.Lines
	closed []*transition // the transitions behind state.Closed
	at     int64         // time of the clock when it was made
}

// savedBytes bounds the bytes of the lines of open episodes in a snapshot, so that saving stays
// fast.
const savedBytes = 1 << 20

// Copy copies the state that Snapshot saves. It is fast. Encoding takes longer and can be done
// while the engine continues.
func (e *Engine) Copy() Copy {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := saved.New(e.cfg.Identity)
	s.Seen, s.SeenOf = e.seen.Save()
	// The more episodes and windows there are, the shorter are the saved lines.
	lines := &saved.Lines{Max: min(render.MaxLine, max(64, savedBytes/max(1, 2*e.limits.slots.Total()+e.limits.windows.Total())))}
	share := e.displacedShare()
	for _, rs := range e.order {
		r := saved.Rule{Alert: rs.rule.Alert, Hash: rs.rule.Hash, CapturedNames: rs.rule.CapturedNames}
		out := r
		if !e.runGuarded(rs, e.limits.losses.Now, func() { rs.save(&out, lines); out.Displaced = rs.displaced.save(share) }) {
			// Without its open episodes, a restart would end their alerts.
			out = r
			for _, ep := range rs.open {
				out.Open = append(out.Open, ep.saveBare())
			}
		}
		if !out.Empty() {
			s.Rules = append(s.Rules, out)
		}
	}
	s.Closed = make([]saved.Closed, 0, len(e.journal.closed))
	for _, t := range e.journal.closed {
		s.Closed = append(s.Closed, t.save())
	}
	s.DeletedPods, s.Departed = e.deletedPods.save(), e.departed.save()
	return Copy{e, s, lines, slices.Clone(e.journal.closed), e.limits.losses.Now}
}

// Append redacts the lines of the copy and appends the copy as JSON, which Restore reads. After
// an error it returns b unchanged.
func (c Copy) Append(b []byte) ([]byte, error) {
	c.redact()
	texts := make([]saved.ClosedTexts, len(c.closed))
	for i, x := range c.of.renderAll(c.closed, c.at) {
		texts[i] = saved.ClosedTexts{ClosedKey: x.closedKey(), Annotations: x.Annotations, Line: x.Line, First: x.First, Cause: savedCause(x.Cause)}
	}
	if len(texts) > 0 {
		var err error
		if c.state.Texts, err = c.of.blocks.Encode(texts, func(t saved.ClosedTexts) saved.ClosedKey { return t.ClosedKey }); err != nil {
			return b, err
		}
	}
	return c.state.Append(b)
}

// save copies the last transition of an episode, without its texts.
func (t *transition) save() saved.Closed {
	return saved.Closed{
		Alert: t.Alert, Reason: string(t.Reason), Overflow: t.Overflow, Silent: t.Silent, Labels: t.Labels,
		Starts: instant.FromTime(t.StartsAt), Fired: instant.FromTime(t.FiredAt), Newest: instant.FromTime(t.LastSeen),
		Ends: instant.FromTime(t.EndsAt), Concluded: instant.FromTime(t.Concluded), Lines: t.Count, Party: t.Party, Moved: t.moved,
	}
}

// closedKey identifies an episode that was resolved.
func (x *Episode) closedKey() saved.ClosedKey {
	return saved.ClosedKey{Print: uint64(x.Fingerprint), Starts: instant.FromTime(x.StartsAt)}
}

// redact redacts the lines of the copy, and the same lines of the engine if they have not
// changed since.
func (c *Copy) redact() {
	clean := c.lines.Redact(c.of.renderer.RedactLine)
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.lines.ReplaceRedacted(clean)
}

// save copies the state of a rule to out.
func (rs *ruleState) save(out *saved.Rule, lines *saved.Lines) {
	if n := len(rs.open); n > 0 {
		out.Open = make([]saved.Episode, n)
	}
	for i, ep := range rs.sortedEpisodes() {
		ep.save(&out.Open[i], lines)
	}
	out.Lapses = make([]saved.Episode, len(rs.lapses))
	for i, l := range rs.lapses {
		l.ep.save(&out.Lapses[i], lines)
		out.Lapses[i].Times, out.Lapses[i].Shown = l.times.Pack(), l.shown
	}
	for x, party := range rs.windows.Values() {
		if x.Value.Size() > 0 {
			w := lines.SaveWindow(rs.rule, &x.Value.Window, window.Text{})
			w.Key, w.Identity, w.Loose, w.Party = x.Value.key, x.Value.who.Values(), x.Value.loose, party
			out.Windows = append(out.Windows, w)
		}
	}
	for x, party := range rs.clear.lines.Values() {
		out.Cleared = append(out.Cleared, saved.SaveClears(x.Value, x.Key, party))
	}
	for x, party := range rs.unless.lines.Values() {
		// The engine changes the times in place.
		out.Muted = append(out.Muted, saved.Entry[[]int64]{Key: []byte(x.Key), Value: slices.Clone(x.Value), Party: party})
	}
	if rs.armed != nil {
		out.Armed = rs.armed.save(lines)
	}
	if o := &rs.over; o.active {
		out.Overflow = &saved.Overflow{Labels: o.labels, Starts: o.starts, Moved: o.moved, Newest: o.newest, Fired: o.fired, Lines: o.lines, Why: o.why, Lost: o.lost, Named: o.named, Hashes: o.keys.Keys()}
	}
}

// save copies the armed keys.
func (a *armedKeys) save(lines *saved.Lines) []saved.Armed {
	out := make([]saved.Armed, 0, len(a.Items)) // has its final capacity, because lines are written into its items later
	for x, party := range a.Values() {
		k := x.Value
		out = append(out, saved.Armed{
			Values: k.values, Identity: k.who.Values(), Loose: k.loose, Namespace: k.namespace, Party: party, Disarmed: k.disarmed,
			Last: saved.SaveValues(a.rs.rule, window.Hits{&k.last})[0], Log: k.logs.First, Logs: slices.Clone(k.logs.Known), Others: slices.Clone(k.logs.Others),
		})
		lines.SaveLine(&out[len(out)-1].Last.Line, &k.last.Line)
	}
	return out
}

// saveBare returns only the identity and the progress of an episode.
func (ep *episode) saveBare() saved.Episode {
	return saved.Episode{
		Values: ep.values, Identity: ep.who.Values(), Loose: ep.loose, Nameless: ep.nameless, Labels: ep.labels, State: string(ep.state), Namespace: ep.namespace,
		Starts: ep.starts, Moved: ep.moved, Newest: ep.newest, From: ep.from, Fired: ep.fired, Written: ep.written, Lines: ep.lines, LastID: ep.lastID,
		Inhibit: string(ep.inhibit), Earlier: ep.earlier.Pack(), Recent: ep.recent.Pack(), Since: ep.since,
	}
}

// save copies the state of an episode to out.
func (ep *episode) save(out *saved.Episode, lines *saved.Lines) {
	*out = ep.saveBare()
	out.Party, out.Times, out.Log, out.Logs = ep.tenant(), ep.times.Pack(), ep.logs.First, slices.Clone(ep.logs.Known)
	out.Others = slices.Clone(ep.logs.Others)
	out.Sequence = saved.SaveValues(ep.rs.rule, ep.sequence)
	lines.SaveLine(&out.Line, &ep.last.Line)
	if ep.first != ep.last.Line {
		lines.SaveLine(&out.First, &ep.first)
	}
	if w := ep.window; w != nil {
		x := lines.SaveWindow(ep.rs.rule, &w.Window, ep.last.Line)
		out.Window = &x
	}
}
