package episodes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"crowsnest/episodes/internal/window"
	"crowsnest/internal/blocks"
)

// Restore loads a snapshot into an engine that already has its rules. Alerts of rules
// that changed or were removed are resolved. The next Evaluate returns everything that
// is firing or was resolved lately. After an error the engine is unchanged.
func (e *Engine) Restore(data []byte, now time.Time) error {
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read snapshot of episodes: %w", err)
	}
	if s.Version != snapshotVersion {
		return fmt.Errorf("read snapshot of episodes: version %d is not %d", s.Version, snapshotVersion)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v := &restorer{Engine: e, s: &s, now: nanos(now)}
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
	return nil
}

// restorer loads one snapshot.
type restorer struct {
	*Engine
	s   *snapshot
	now int64
}

// shared loads what belongs to no rule, and what was resolved.
func (v *restorer) shared() {
	v.seen.Load(v.s.Seen, v.s.SeenOf)
	for _, pod := range v.s.DeletedPods {
		pod.identity = string(pod.Identity)
		v.deletedPods.Add(pod.podName, pod.At)
	}
	v.step = step{old: v.s.Old, by: v.s.By}
	texts := map[closedKey]closedTexts{}
	for _, t := range blocks.Decode[closedTexts](v.s.Texts) {
		texts[t.closedKey] = t
	}
	for _, c := range v.s.Closed {
		x := v.resolve(c)
		if t, ok := texts[x.closedKey()]; ok {
			x.Annotations, x.Line, x.First = t.Annotations, t.Line, t.First
		}
		v.journal.noteSpan(x.Fingerprint, span{v.step.stamped(c.Starts, v.now), v.step.stamped(c.Ends, v.now), c.Concluded})
	}
}

// resolve reports an episode that was resolved.
func (v *restorer) resolve(c savedEpisode) *transition {
	t := &transition{done: true, Episode: Episode{
		Fingerprint: printOf(c.Labels), Alert: c.Alert, State: StateResolved, Reason: c.Reason,
		Overflow: c.Overflow, Silent: c.Silent, Labels: c.Labels, Annotations: c.Annotations,
		StartsAt: instant(c.Starts), FiredAt: instant(c.Fired), LastSeen: instant(c.Newest), EndsAt: instant(c.Ends),
		Concluded: instant(c.Concluded), Count: c.Lines, Party: c.Party, Line: c.Line, First: c.First,
	}}
	if rs := v.rules[c.Alert]; rs != nil {
		t.Rule = rs.rule
	}
	v.journal.resolve(t)
	return t
}

// removed resolves what was firing for a rule that is not in force.
func (v *restorer) removed(r ruleSnapshot) {
	resolve := func(labels map[string]string, o savedEpisode) {
		o.Alert, o.Reason, o.Labels, o.Ends, o.Concluded = r.Alert, ReasonRemoved, labels, max(v.now, o.Starts), v.now
		v.resolve(o)
	}
	for _, ep := range r.Open {
		if ep.State == StateFiring {
			resolve(ep.Labels, savedEpisode{
				Starts: ep.Starts - ep.Moved, Fired: ep.Fired, Newest: ep.Newest, Lines: ep.Lines,
				Line: ep.Line, First: cmp.Or(ep.First, ep.Line), Annotations: map[string]string{"line": ep.Line},
			})
		}
	}
	if o := r.Overflow; o != nil {
		resolve(o.Labels, savedEpisode{Starts: o.Starts - o.Moved, Fired: o.Fired, Newest: o.Newest, Lines: o.Lines, Overflow: true})
	}
}

func (v *restorer) rule(rs *ruleState, r ruleSnapshot) {
	if slices.ContainsFunc(v.cfg.Identity, func(name string) bool { return !slices.Contains(v.s.Identity, name) }) {
		rs.older = newOlder(r) // of a program that did not know all labels
	}
	for _, s := range r.Open {
		if len(s.Values) != len(rs.rule.By) || s.State != StatePending && s.State != StateFiring {
			continue // not written by this program
		}
		if !v.guard(rs, v.now, func() { v.open(rs, r.CapturedNames, s) }) {
			v.guard(rs, v.now, func() { v.open(rs, r.CapturedNames, s.bare()) })
		}
	}
	for _, w := range r.Windows {
		if len(w.Key) == len(rs.rule.By) {
			who := v.in.origins.restored(v.s.Identity, w.Identity)
			loaded := rs.loadWindow(r.CapturedNames, w, who)
			loaded.loose = w.Loose || rs.older != nil && who == nil
			rs.windows.Add(join(w.Key, who), cmp.Or(w.Party, rs.partyOfKey(w.Key)), loaded, loaded.Size())
		}
	}
	for _, c := range r.Cleared {
		rs.cleared.Add(string(c.Key), c.Party, c.clears(), 1)
	}
	v.lapses(rs, r)
	for _, m := range r.Muted {
		rs.muted.Add(string(m.Key), m.Party, m.Value, len(m.Value))
	}
	if o := r.Overflow; o != nil {
		rs.over.set(overflow{active: true, starts: o.Starts, moved: o.Moved, newest: o.Newest, fired: o.Fired, lines: o.Lines, why: o.Why, labels: o.Labels})
		for _, k := range o.Keys {
			rs.over.keys.Add(seedOf(string(k)), struct{}{})
		}
		for _, k := range o.Hashes {
			rs.over.keys.Add(k, struct{}{})
		}
	}
	v.rename(rs, v.now) // severity or labels may have changed meanwhile
}

func (v *restorer) open(rs *ruleState, names []string, s episodeSnapshot) {
	ep := v.episode(rs, names, s)
	if rs.open[ep.key] != nil {
		return
	}
	ep.add(cmp.Or(s.Party, s.Namespace, rs.partyOfKey(s.Values)))
	if !rs.quarantined {
		ep.due.arm()
	}
}

// bare is the episode without what only further lines need.
func (s episodeSnapshot) bare() episodeSnapshot {
	s.Window, s.Sequence, s.Times, s.Logs = nil, nil, nil, nil
	return s
}

func (v *restorer) episode(rs *ruleState, names []string, s episodeSnapshot) *episode {
	who := v.in.origins.restored(v.s.Identity, s.Identity)
	ep := &episode{
		rs: rs, key: join(s.Values, who), values: s.Values, who: who, labels: s.Labels, print: printOf(s.Labels), state: s.State, namespace: s.Namespace, party: s.Party,
		starts: s.Starts, moved: s.Moved, newest: s.Newest, from: s.From, fired: s.Fired, written: s.Written,
		lines: s.Lines, lastID: s.LastID, sequence: loadHits(names, s.Sequence),
		last: window.Hit{Line: window.Text{S: s.Line, Clean: true}}, first: window.Text{S: cmp.Or(s.First, s.Line), Clean: true},
	}
	ep.logs = logs{first: s.Log, known: s.Logs[:min(len(s.Logs), maxLogs)]}
	ep.restored = restored{loose: s.Loose || rs.older != nil && who == nil, nameless: s.Nameless}
	if s.Window != nil {
		s.Window.Key = s.Values
		ep.window = rs.loadWindow(names, *s.Window, who)
		if n := ep.window.Newest; n != nil && n.Line.S == "" {
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

// lapses runs after the clear lines are restored: they determine when a lapse ended.
func (v *restorer) lapses(rs *ruleState, r ruleSnapshot) {
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

func (rs *ruleState) loadWindow(names []string, s windowSnapshot, who *identity) *keyWindow {
	steps := make([]window.Hits, len(s.Steps))
	for i := range steps {
		steps[i] = loadHits(names, s.Steps[i])
	}
	w := window.Load(rs.rule, steps, loadHits(names, s.Distinct), window.Unpack(s.Lines), loadHits(names, s.Newest))
	return rs.newWindow(w, s.Key, who)
}

func loadHits(names []string, in []hitSnapshot) window.Hits {
	out := make(window.Hits, 0, len(in))
	for _, h := range in {
		out = append(out, &window.Hit{T: h.T, ID: h.ID, Values: h.Values, Names: names, Line: window.Text{S: h.Line, Clean: true}, Several: h.Multi})
	}
	return out
}
