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
	"crowsnest/internal/blocks"
)

// Restore loads a snapshot into an engine that already has its rules. Alerts of rules
// that changed or were removed are resolved. The next Evaluate returns everything that
// is firing or was resolved lately. After an error the engine is unchanged.
func (e *Engine) Restore(data []byte, now time.Time) error {
	s, err := saved.Parse(data)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v := &restorer{Engine: e, s: &s, now: instant.Of(now)}
	v.older = slices.ContainsFunc(e.cfg.Identity, func(name string) bool { return !slices.Contains(s.Identity, name) })
	v.shared()
	for _, r := range s.Rules {
		rs := e.rules[r.Alert]
		if rs == nil || rs.rule.Hash != r.Hash {
			v.removed(r)
			continue
		}
		e.guard(rs, v.now, func() { v.rule(rs, r) })
	}
	e.journal.touchAll(e.order)
	e.unsettled = true
	return nil
}

// restorer loads one snapshot.
type restorer struct {
	*Engine
	s   *saved.State
	now int64
	// older is set if the snapshot was written without all labels of the identity.
	older bool
}

// shared loads the state that is not of a single rule, and the resolved episodes.
func (v *restorer) shared() {
	v.seen.Load(v.s.Seen, v.s.SeenOf)
	v.deletedPods.load(v.s.DeletedPods)
	v.departed.load(v.s.Departed)
	texts := map[saved.ClosedKey]saved.ClosedTexts{}
	for _, t := range blocks.Decode[saved.ClosedTexts](v.s.Texts) {
		texts[t.ClosedKey] = t
	}
	for _, c := range v.s.Closed {
		x := v.resolve(c)
		if t, ok := texts[x.closedKey()]; ok {
			x.Annotations, x.Line, x.First, x.Cause = t.Annotations, t.Line, t.First, loadedCause(t.Cause)
		}
		v.journal.spans.Add(uint64(x.Fingerprint), notified.Span{From: c.Starts + c.Moved, To: c.Ends + c.Moved, Concluded: c.Concluded})
	}
}

// resolve reports a resolved episode again.
func (v *restorer) resolve(c saved.Closed) *transition {
	t := v.transition(c)
	v.journal.resolve(t)
	return t
}

// transition returns the last transition of a resolved episode.
func (v *restorer) transition(c saved.Closed) *transition {
	t := &transition{done: true, moved: c.Moved, Episode: Episode{
		Restored: true, Fingerprint: printOf(c.Labels), Alert: c.Alert, State: StateResolved, Reason: Reason(c.Reason),
		Overflow: c.Overflow, Silent: c.Silent, Labels: c.Labels, Annotations: c.Annotations,
		StartsAt: instant.Time(c.Starts), FiredAt: instant.Time(c.Fired), LastSeen: instant.Time(c.Newest), EndsAt: instant.Time(c.Ends),
		Concluded: instant.Time(c.Concluded), Count: c.Lines, Party: c.Party, Line: c.Line, First: c.First,
	}}
	if rs := v.rules[c.Alert]; rs != nil {
		t.Rule = rs.rule
	}
	return t
}

// removed resolves the firing alerts of a rule that is not installed.
func (v *restorer) removed(r saved.Rule) {
	resolve := func(labels map[string]string, o saved.Closed) {
		o.Alert, o.Reason, o.Labels, o.Ends, o.Concluded = r.Alert, string(ReasonRemoved), labels, max(v.now, o.Starts), v.now
		v.resolve(o).Restored = false
	}
	for _, ep := range r.Open {
		if State(ep.State) == StateFiring {
			resolve(ep.Labels, saved.Closed{
				Starts: ep.Starts - ep.Moved, Fired: ep.Fired, Newest: ep.Newest, Lines: ep.Lines,
				Line: ep.Line, First: cmp.Or(ep.First, ep.Line), Annotations: map[string]string{"line": string(ep.Line)},
			})
		}
	}
	if o := r.Overflow; o != nil {
		resolve(o.Labels, saved.Closed{Starts: o.Starts - o.Moved, Fired: o.Fired, Newest: o.Newest, Lines: o.Lines, Overflow: true})
	}
}

func (v *restorer) rule(rs *ruleState, r saved.Rule) {
	if v.older {
		rs.clear.older, rs.unless.older = map[string]window.Clears{}, map[string][]int64{}
		for _, c := range r.Cleared {
			rs.clear.older[string(c.Key)] = window.Clears{Newest: c.Value, Since: c.Value}
		}
		for _, m := range r.Muted {
			rs.unless.older[string(m.Key)] = slices.Clone(m.Value)
		}
	}
	for _, s := range r.Open {
		if len(s.Values) != len(rs.rule.By) || State(s.State) != StatePending && State(s.State) != StateFiring {
			continue // not written by this program
		}
		if !v.guard(rs, v.now, func() { v.open(rs, r.CapturedNames, s) }) {
			v.guard(rs, v.now, func() { v.open(rs, r.CapturedNames, s.Bare()) })
		}
	}
	for _, w := range r.Windows {
		if len(w.Key) == len(rs.rule.By) {
			who := v.in.SavedIdentity(v.s.Identity, w.Identity)
			loaded := rs.newWindow(w.Load(rs.rule, r.CapturedNames), w.Key, who)
			loaded.loose = w.Loose || v.older && who == nil
			rs.windows.Add(intake.Key(w.Key, who), cmp.Or(w.Party, rs.partyOfKey(w.Key)), loaded, loaded.Size())
		}
	}
	for _, c := range r.Cleared {
		rs.clear.lines.Add(string(c.Key), c.Party, c.Load(), 1)
	}
	v.lapses(rs, r)
	v.displaced(rs, r)
	for _, m := range r.Muted {
		rs.unless.lines.Add(string(m.Key), m.Party, m.Value, len(m.Value))
	}
	if rs.armed != nil {
		v.armed(rs.armed, r)
	}
	if o := r.Overflow; o != nil {
		rs.over.set(overflow{active: true, starts: o.Starts, moved: o.Moved, newest: o.Newest, fired: o.Fired, restored: true, lines: o.Lines, why: o.Why, lost: o.Lost, named: o.Named, labels: o.Labels})
		for _, k := range o.Keys {
			rs.over.keys.Add(intake.Hash(string(k)), struct{}{})
		}
		for _, k := range o.Hashes {
			rs.over.keys.Add(k, struct{}{})
		}
	}
	rs.rename(v.now) // severity or labels may have changed meanwhile
}

func (v *restorer) open(rs *ruleState, names []string, s saved.Episode) {
	ep := v.episode(rs, names, s)
	if rs.open[ep.key] != nil {
		return
	}
	ep.add(cmp.Or(s.Party, s.Namespace, rs.partyOfKey(s.Values)))
	if !rs.quarantined {
		ep.arm()
	}
}

func (v *restorer) episode(rs *ruleState, names []string, s saved.Episode) *episode {
	who := v.in.SavedIdentity(v.s.Identity, s.Identity)
	ep := &episode{
		rs: rs, key: intake.Key(s.Values, who), values: s.Values, who: who, labels: s.Labels, print: printOf(s.Labels), state: State(s.State), namespace: s.Namespace, party: s.Party,
		starts: s.Starts, moved: s.Moved, newest: s.Newest, from: s.From, fired: s.Fired, written: s.Written,
		lines: s.Lines, lastID: s.LastID, sequence: saved.Hits(names, s.Sequence),
		last: window.Hit{Line: window.Text{Clean: s.Line}}, first: window.Text{Clean: cmp.Or(s.First, s.Line)},
	}
	ep.logs = intake.Logs{First: s.Log, Known: s.Logs, Others: s.Others, Home: s.Namespace}.Clone()
	ep.symptom = symptom{earlier: window.Unpack(s.Earlier), recent: window.Unpack(s.Recent), since: s.Since, inhibit: inhibition(s.Inhibit)}
	if ep.state == StateFiring && ep.inhibit != inhibitYes {
		ep.inhibit = inhibitNo // the episode may have been reported as firing
	}
	ep.restored = restored{loose: s.Loose || v.older && who == nil, nameless: s.Nameless, firedBefore: ep.state == StateFiring}
	if s.Window != nil {
		ep.window = rs.newWindow(s.Window.Load(rs.rule, names), s.Values, who)
		if n := ep.window.Newest; n != nil && n.Line.Empty() {
			n.Line = ep.last.Line
		}
	}
	ep.noteRestored(v.now)
	if ep.undecided() && rs.waits() {
		if ep.times = window.Unpack(s.Times); len(ep.times) == 0 {
			ep.times = slices.Compact(window.Times{ep.starts, ep.newest})
		}
	}
	return ep
}

// armed restores the armed keys of a rule.
func (v *restorer) armed(a *armedKeys, r saved.Rule) {
	for _, s := range r.Armed {
		if len(s.Values) != len(a.rs.rule.By) {
			continue // not written by this program
		}
		who := v.in.SavedIdentity(v.s.Identity, s.Identity)
		k := &armedKey{
			key: intake.Key(s.Values, who), values: s.Values, who: who, loose: s.Loose || v.older && who == nil, namespace: s.Namespace,
			last: *saved.Hits(r.CapturedNames, []saved.Hit{s.Last})[0], logs: intake.Logs{First: s.Log, Known: s.Logs, Others: s.Others, Home: s.Namespace}.Clone(),
		}
		a.put(k, cmp.Or(s.Party, a.rs.partyOfKey(s.Values)), s.Disarmed)
	}
}

// lapses runs after the clear lines are restored: they determine when a lapse ended.
func (v *restorer) lapses(rs *ruleState, r saved.Rule) {
	for _, s := range r.Lapses {
		ts := window.Unpack(s.Times)
		if len(s.Values) != len(rs.rule.By) || len(ts) == 0 {
			continue // not written by this program
		}
		ep := v.episode(rs, r.CapturedNames, s)
		ep.times = nil
		ep.share()
		(&lapse{ep: ep, times: ts, shown: s.Shown}).add()
	}
}
