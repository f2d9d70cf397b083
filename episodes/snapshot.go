package episodes

import (
	"cmp"
	"slices"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/notified"
	"crowsnest/episodes/internal/saved"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/blocks"
)

// Snapshot returns the whole state, except watermarks, as JSON. Lines and captures are redacted.
func (e *Engine) Snapshot() ([]byte, error) { return e.Copy().Append(nil) }

// Copy is the state of an engine at one moment. It shares no memory that may change.
type Copy struct {
	engine *Engine
	state  saved.State
	lines  *saved.Lines
	closed []*transition // transitions from which state.Closed is made
	at     int64         // time by the clock when the copy was made
}

// savedBytes is the approximate maximum of the bytes of lines of open episodes in a snapshot, so that saving stays
// fast.
const savedBytes = 1 << 20

// Copy copies the state that Snapshot saves. Copying is fast. Encoding takes longer and can be done while the engine
// continues.
func (e *Engine) Copy() Copy {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := saved.New(e.cfg.Identity)
	s.Seen, s.SeenOf = e.seen.Save()
	// The more episodes and windows there are, the fewer bytes of each line are saved.
	lines := &saved.Lines{Max: min(render.MaxLine, max(64, savedBytes/max(1, 2*e.limits.slots.Total()+e.limits.windows.Total())))}
	share := e.displacedShare()
	for _, rs := range e.order {
		r := saved.Rule{Alert: rs.rule.Alert, Hash: rs.rule.Hash, CapturedNames: rs.rule.CapturedNames}
		out := r
		if !e.runGuarded(rs, e.limits.losses.Now, func() { rs.save(&out, lines); out.Displaced = rs.displaced.save(share) }) {
			// Encoding the rule failed, but its open episodes must be saved, because otherwise a restart would end
			// their alerts.
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

// Append redacts the lines of the copy and appends the copy as JSON, which Restore reads. After an error it returns b
// unchanged.
func (c Copy) Append(b []byte) ([]byte, error) {
	c.redact()
	texts := make([]saved.ClosedTexts, len(c.closed))
	for i, x := range c.engine.renderAll(c.closed, c.at) {
		texts[i] = saved.ClosedTexts{ClosedKey: x.closedKey(), Annotations: x.Annotations, Line: x.Line, First: x.FirstLine, Cause: savedCause(x.Cause)}
	}
	if len(texts) > 0 {
		var err error
		if c.state.Texts, err = c.engine.blocks.Encode(texts, func(t saved.ClosedTexts) saved.ClosedKey { return t.ClosedKey }); err != nil {
			return b, err
		}
	}
	return c.state.Append(b)
}

func (t *transition) save() saved.Closed {
	return saved.Closed{
		Alert: t.Alert, Reason: string(t.Reason), Overflow: t.Overflow, Silent: t.Silent, Labels: t.Labels,
		Starts: instant.FromTime(t.StartsAt), FiredAt: instant.FromTime(t.FiredAt), Newest: instant.FromTime(t.LastSeen),
		Ends: instant.FromTime(t.EndsAt), ConcludedAt: instant.FromTime(t.ConcludedAt), Lines: t.Count, Tenant: t.Tenant, ClockShift: t.clockShift,
	}
}

func (x *Episode) closedKey() saved.ClosedKey {
	return saved.ClosedKey{Print: uint64(x.Fingerprint), Starts: instant.FromTime(x.StartsAt)}
}

// redact redacts the lines of the copy. It also replaces the same lines of the engine, unless they have changed since
// the copy was made.
func (c *Copy) redact() {
	clean := c.lines.Redact(c.engine.renderer.RedactLine)
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	c.lines.ReplaceRedacted(clean)
}

func (rs *ruleState) save(out *saved.Rule, lines *saved.Lines) {
	if n := len(rs.open); n > 0 {
		out.Open = make([]saved.Episode, n)
	}
	for i, ep := range rs.sortedEpisodes() {
		ep.save(&out.Open[i], lines)
	}
	out.BriefFailures = make([]saved.Episode, len(rs.briefFailures))
	for i, l := range rs.briefFailures {
		l.ep.save(&out.BriefFailures[i], lines)
		out.BriefFailures[i].Times, out.BriefFailures[i].ReportedPending = l.times.Pack(), l.shown
	}
	for x, party := range rs.windows.Values() {
		if x.Value.Size() > 0 {
			w := lines.SaveWindow(rs.rule, &x.Value.Window, window.Text{})
			w.Key, w.Identity, w.PartialIdentity, w.Tenant = x.Value.key, x.Value.who.Values(), x.Value.partialIdentity, party
			out.Windows = append(out.Windows, w)
		}
	}
	for x, party := range rs.clearLines.lines.Values() {
		out.Cleared = append(out.Cleared, saved.SaveClears(x.Value, x.Key, party))
	}
	for x, party := range rs.unlessLines.lines.Values() {
		// The engine changes the times in place, so they are copied.
		out.Muted = append(out.Muted, saved.Entry[[]int64]{Key: []byte(x.Key), Value: slices.Clone(x.Value), Tenant: party})
	}
	if rs.armed != nil {
		out.Armed = rs.armed.save(lines)
	}
	if o := &rs.overflow; o.active {
		out.Overflow = &saved.Overflow{Labels: o.labels, Starts: o.starts, ClockShift: o.clockShift, Newest: o.newest, FiredAt: o.firedAt, Lines: o.lines, LimitText: o.limitText, DisplacedCount: o.displacedCount, DisplacedLabels: o.displacedLabels, Hashes: o.keys.Keys()}
	}
}

func (a *armedKeys) save(lines *saved.Lines) []saved.Armed {
	out := make([]saved.Armed, 0, len(a.Items)) // needs its final capacity, because pointers to its items are used later
	for x, party := range a.Values() {
		k := x.Value
		out = append(out, saved.Armed{
			Values: k.values, Identity: k.who.Values(), PartialIdentity: k.partialIdentity, Namespace: k.namespace, Tenant: party, Disarmed: k.disarmed,
			Last: saved.SaveValues(a.rs.rule, window.Hits{&k.last})[0], Log: k.logs.First, Logs: slices.Clone(k.logs.Hashes), OtherNamespaces: slices.Clone(k.logs.OtherNamespaces),
		})
		lines.SaveLine(&out[len(out)-1].Last.Line, &k.last.Line)
	}
	return out
}

// saveBare returns only the fields that identify an episode and state its progress.
func (ep *episode) saveBare() saved.Episode {
	return saved.Episode{
		Values: ep.values, Identity: ep.who.Values(), PartialIdentity: ep.partialIdentity, Nameless: ep.nameless, Labels: ep.labels, State: string(ep.state), Namespace: ep.namespace,
		Starts: ep.starts, ClockShift: ep.clockShift, Newest: ep.newest, WindowStart: ep.windowStart, FiredAt: ep.firedAt, CompletedAt: ep.completedAt, Lines: ep.lines, LastID: ep.lastID,
		Inhibit: string(ep.inhibit), EarlierTriggers: ep.earlier.Pack(), RecentTriggers: ep.recent.Pack(), Since: ep.since,
	}
}

func (ep *episode) save(out *saved.Episode, lines *saved.Lines) {
	*out = ep.saveBare()
	out.Tenant, out.Times, out.Log, out.Logs = ep.tenant(), ep.times.Pack(), ep.logs.First, slices.Clone(ep.logs.Hashes)
	out.OtherNamespaces = slices.Clone(ep.logs.OtherNamespaces)
	out.Sequence = saved.SaveValues(ep.rs.rule, ep.sequence)
	lines.SaveLine(&out.Line, &ep.last.Line)
	if ep.first != ep.last.Line {
		lines.SaveLine(&out.FirstLine, &ep.first)
	}
	if w := ep.window; w != nil {
		x := lines.SaveWindow(ep.rs.rule, &w.Window, ep.last.Line)
		out.Window = &x
	}
}

// Restore loads a snapshot into an engine that already has its rules. Alerts of rules that changed or were removed are
// resolved. The next Evaluate returns everything that is firing or was resolved recently. After an error the engine is
// unchanged.
func (e *Engine) Restore(data []byte, now time.Time) error {
	s, err := saved.Parse(data)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v := &restorer{Engine: e, s: &s, now: instant.FromTime(now)}
	v.older = slices.ContainsFunc(e.cfg.Identity, func(name string) bool { return !slices.Contains(s.Identity, name) })
	v.restoreShared()
	for _, r := range s.Rules {
		rs := e.rules[r.Alert]
		if rs == nil || rs.rule.Hash != r.Hash {
			v.resolveRemoved(r)
			continue
		}
		e.runGuarded(rs, v.now, func() { v.restoreRule(rs, r) })
	}
	e.journal.touchAll(e.order)
	e.unsettled = true
	return nil
}

// restorer loads one snapshot into an engine.
type restorer struct {
	*Engine
	s   *saved.State
	now int64
	// older is set if the snapshot lacks an identity label that the engine has now.
	older bool
}

// restoreShared loads the resolved episodes and the state that rules share.
func (v *restorer) restoreShared() {
	v.seen.Load(v.s.Seen, v.s.SeenOf)
	v.deletedPods.load(v.s.DeletedPods)
	v.departed.load(v.s.Departed)
	texts := map[saved.ClosedKey]saved.ClosedTexts{}
	for _, t := range blocks.Decode[saved.ClosedTexts](v.s.Texts) {
		texts[t.ClosedKey] = t
	}
	for _, c := range v.s.Closed {
		x := v.restoreResolved(c)
		if t, ok := texts[x.closedKey()]; ok {
			x.Annotations, x.Line, x.FirstLine, x.Cause = t.Annotations, t.Line, t.First, loadedCause(t.Cause)
		}
		v.journal.spans.Add(uint64(x.Fingerprint), notified.Span{From: c.Starts + c.ClockShift, To: c.Ends + c.ClockShift, Concluded: c.ConcludedAt})
	}
}

func (v *restorer) restoreResolved(c saved.Closed) *transition {
	t := v.transition(c)
	v.journal.resolve(t)
	return t
}

func (v *restorer) transition(c saved.Closed) *transition {
	t := &transition{done: true, clockShift: c.ClockShift, Episode: Episode{
		FiredBeforeRestore: true, Fingerprint: FingerprintOf(c.Labels), Alert: c.Alert, State: StateResolved, Reason: Reason(c.Reason),
		Overflow: c.Overflow, Silent: c.Silent, Labels: c.Labels, Annotations: c.Annotations,
		StartsAt: instant.ToTime(c.Starts), FiredAt: instant.ToTime(c.FiredAt), LastSeen: instant.ToTime(c.Newest), EndsAt: instant.ToTime(c.Ends),
		ConcludedAt: instant.ToTime(c.ConcludedAt), Count: c.Lines, Tenant: c.Tenant, Line: c.Line, FirstLine: c.FirstLine,
	}}
	if rs := v.rules[c.Alert]; rs != nil {
		t.Rule = rs.rule
	}
	return t
}

// resolveRemoved resolves the firing alerts of a rule that no longer exists.
func (v *restorer) resolveRemoved(r saved.Rule) {
	resolve := func(labels map[string]string, o saved.Closed) {
		o.Alert, o.Reason, o.Labels, o.Ends, o.ConcludedAt = r.Alert, string(ReasonRemoved), labels, max(v.now, o.Starts), v.now
		v.restoreResolved(o).FiredBeforeRestore = false
	}
	for _, ep := range r.Open {
		if State(ep.State) == StateFiring {
			resolve(ep.Labels, saved.Closed{
				Starts: ep.Starts - ep.ClockShift, FiredAt: ep.FiredAt, Newest: ep.Newest, Lines: ep.Lines,
				Line: ep.Line, FirstLine: cmp.Or(ep.FirstLine, ep.Line), Annotations: map[string]string{"line": string(ep.Line)},
			})
		}
	}
	if o := r.Overflow; o != nil {
		resolve(o.Labels, saved.Closed{Starts: o.Starts - o.ClockShift, FiredAt: o.FiredAt, Newest: o.Newest, Lines: o.Lines, Overflow: true})
	}
}

func (v *restorer) restoreRule(rs *ruleState, r saved.Rule) {
	if v.older {
		rs.clearLines.older, rs.unlessLines.older = map[string]window.Clears{}, map[string][]int64{}
		for _, c := range r.Cleared {
			rs.clearLines.older[string(c.Key)] = window.Clears{Newest: c.Value, Since: c.Value}
		}
		for _, m := range r.Muted {
			rs.unlessLines.older[string(m.Key)] = slices.Clone(m.Value)
		}
	}
	for _, s := range r.Open {
		if len(s.Values) != len(rs.rule.By) || State(s.State) != StatePending && State(s.State) != StateFiring {
			continue // skips an entry that this program cannot have written
		}
		if !v.runGuarded(rs, v.now, func() { v.restoreOpen(rs, r.CapturedNames, s) }) {
			v.runGuarded(rs, v.now, func() { v.restoreOpen(rs, r.CapturedNames, s.WithoutInternals()) })
		}
	}
	for _, w := range r.Windows {
		if len(w.Key) == len(rs.rule.By) {
			who := v.in.SavedIdentity(v.s.Identity, w.Identity)
			loaded := rs.newWindow(w.Restore(rs.rule, r.CapturedNames), w.Key, who)
			loaded.partialIdentity = w.PartialIdentity || v.older && who == nil
			rs.windows.Add(intake.JoinKey(w.Key, who), cmp.Or(w.Tenant, rs.partyOfKey(w.Key)), loaded, loaded.Size())
		}
	}
	for _, c := range r.Cleared {
		rs.clearLines.lines.Add(string(c.Key), c.Tenant, c.Restore(), 1)
	}
	v.restoreLapses(rs, r)
	v.restoreDisplaced(rs, r)
	for _, m := range r.Muted {
		rs.unlessLines.lines.Add(string(m.Key), m.Tenant, m.Value, len(m.Value))
	}
	if rs.armed != nil {
		v.restoreArmed(rs.armed, r)
	}
	if o := r.Overflow; o != nil {
		rs.overflow.replaceWith(overflow{active: true, starts: o.Starts, clockShift: o.ClockShift, newest: o.Newest, firedAt: o.FiredAt, restored: true, lines: o.Lines, limitText: o.LimitText, displacedCount: o.DisplacedCount, displacedLabels: o.DisplacedLabels, labels: o.Labels})
		for _, k := range o.Keys {
			rs.overflow.keys.Add(intake.Hash(string(k)), struct{}{})
		}
		for _, k := range o.Hashes {
			rs.overflow.keys.Add(k, struct{}{})
		}
	}
	rs.relabel(v.now) // severity or labels of the rule may have changed since then
}

func (v *restorer) restoreOpen(rs *ruleState, names []string, s saved.Episode) {
	ep := v.restoreEpisode(rs, names, s)
	if rs.open[ep.key] != nil {
		return
	}
	ep.add(cmp.Or(s.Tenant, s.Namespace, rs.partyOfKey(s.Values)))
	if !rs.quarantined {
		ep.armDeadline()
	}
}

func (v *restorer) restoreEpisode(rs *ruleState, names []string, s saved.Episode) *episode {
	who := v.in.SavedIdentity(v.s.Identity, s.Identity)
	ep := &episode{
		rs: rs, key: intake.JoinKey(s.Values, who), values: s.Values, who: who, labels: s.Labels, print: FingerprintOf(s.Labels), state: State(s.State), namespace: s.Namespace, openedTenant: s.Tenant,
		starts: s.Starts, clockShift: s.ClockShift, newest: s.Newest, windowStart: s.WindowStart, firedAt: s.FiredAt, completedAt: s.CompletedAt,
		lines: s.Lines, lastID: s.LastID, sequence: saved.RestoreHits(names, s.Sequence),
		last: window.Hit{Line: window.Text{Clean: s.Line}}, first: window.Text{Clean: cmp.Or(s.FirstLine, s.Line)},
	}
	ep.logs = intake.Logs{First: s.Log, Hashes: s.Logs, OtherNamespaces: s.OtherNamespaces, Namespace: s.Namespace}.Clone()
	ep.symptom = symptom{earlier: window.UnpackTimes(s.EarlierTriggers), recent: window.UnpackTimes(s.RecentTriggers), since: s.Since, inhibit: inhibition(s.Inhibit)}
	if ep.state == StateFiring && ep.inhibit != inhibitYes {
		ep.inhibit = inhibitNo // the episode may already have been reported as firing
	}
	ep.restored = restored{partialIdentity: s.PartialIdentity || v.older && who == nil, nameless: s.Nameless, firedBefore: ep.state == StateFiring}
	if s.Window != nil {
		ep.window = rs.newWindow(s.Window.Restore(rs.rule, names), s.Values, who)
		if n := ep.window.Newest; n != nil && n.Line.Empty() {
			n.Line = ep.last.Line
		}
	}
	ep.noteRestored(v.now)
	if ep.isUndecided() && rs.mustBePending() {
		if ep.times = window.UnpackTimes(s.Times); len(ep.times) == 0 {
			ep.times = slices.Compact(window.Times{ep.starts, ep.newest})
		}
	}
	return ep
}

func (v *restorer) restoreArmed(a *armedKeys, r saved.Rule) {
	for _, s := range r.Armed {
		if len(s.Values) != len(a.rs.rule.By) {
			continue // skips an entry that this program cannot have written
		}
		who := v.in.SavedIdentity(v.s.Identity, s.Identity)
		k := &armedKey{
			key: intake.JoinKey(s.Values, who), values: s.Values, who: who, partialIdentity: s.PartialIdentity || v.older && who == nil, namespace: s.Namespace,
			last: *saved.RestoreHits(r.CapturedNames, []saved.Hit{s.Last})[0], logs: intake.Logs{First: s.Log, Hashes: s.Logs, OtherNamespaces: s.OtherNamespaces, Namespace: s.Namespace}.Clone(),
		}
		a.addKey(k, cmp.Or(s.Tenant, a.rs.partyOfKey(s.Values)), s.Disarmed)
	}
}

// restoreLapses restores the brief failures of a rule. It runs after the clear lines are restored, because they determine when
// a brief failure ended.
func (v *restorer) restoreLapses(rs *ruleState, r saved.Rule) {
	for _, s := range r.BriefFailures {
		ts := window.UnpackTimes(s.Times)
		if len(s.Values) != len(rs.rule.By) || len(ts) == 0 {
			continue // skips an entry that this program cannot have written
		}
		ep := v.restoreEpisode(rs, r.CapturedNames, s)
		ep.times = nil
		ep.computeSharedKeys()
		(&briefFailure{ep: ep, times: ts, shown: s.ReportedPending}).add()
	}
}
