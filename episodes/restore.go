package episodes

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"crowsnest/rules"
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
	e.seen.load(s.Seen, s.SeenOf)
	for _, pod := range s.DeletedPods {
		pod.identity = string(pod.Identity)
		e.deletedPods.Add(pod.podName, pod.At)
	}
	e.step = step{old: s.Old, by: s.By}
	texts := map[closedKey]closedTexts{}
	for _, t := range Unpack[closedTexts](s.Texts) {
		texts[t.closedKey] = t
	}
	for _, c := range s.Closed {
		x := c.episode(e.rules)
		if t, ok := texts[x.closedKey()]; ok {
			x.Annotations, x.Line, x.First = t.Annotations, t.Line, t.First
		}
		e.closed = append(e.closed, x)
		e.changes = append(e.changes, x)
		at := nanos(now)
		e.noteSpan(x.Fingerprint, span{e.stamped(c.Starts, at), e.stamped(c.Ends, at), c.Concluded})
	}
	for _, r := range s.Rules {
		rs := e.rules[r.Alert]
		if rs == nil || rs.rule.Hash != r.Hash {
			e.restoreRemoved(r, nanos(now))
			continue
		}
		e.guard(rs, nanos(now), func() { e.restoreRule(rs, r, &s, nanos(now)) })
	}
	e.touchAll()
	return nil
}

func (c savedEpisode) episode(known map[string]*ruleState) Episode {
	x := Episode{
		Fingerprint: printOf(c.Labels), Alert: c.Alert, State: StateResolved, Reason: c.Reason,
		Overflow: c.Overflow, Silent: c.Silent, Labels: c.Labels, Annotations: c.Annotations,
		StartsAt: instant(c.Starts), FiredAt: instant(c.Fired), LastSeen: instant(c.Newest), EndsAt: instant(c.Ends),
		Concluded: instant(c.Concluded), Count: c.Lines, Party: c.Party, Line: c.Line, First: c.First,
	}
	if rs := known[c.Alert]; rs != nil {
		x.Rule = rs.rule
	}
	return x
}

// restoreRemoved resolves what was firing for a rule that is not in force.
func (e *Engine) restoreRemoved(r ruleSnapshot, now int64) {
	resolve := func(labels map[string]string, o savedEpisode) {
		o.Alert, o.Reason, o.Labels, o.Ends, o.Concluded = r.Alert, ReasonRemoved, labels, max(now, o.Starts), now
		x := o.episode(e.rules)
		e.closed = append(e.closed, x)
		e.changes = append(e.changes, x)
	}
	for _, ep := range r.Open {
		if ep.State == StateFiring {
			if ep.First == "" {
				ep.First = ep.Line
			}
			resolve(ep.Labels, savedEpisode{
				Starts: ep.Starts - ep.Moved, Fired: ep.Fired, Newest: ep.Newest, Lines: ep.Lines,
				Line: ep.Line, First: ep.First, Annotations: map[string]string{"line": ep.Line},
			})
		}
	}
	if o := r.Overflow; o != nil {
		resolve(o.Labels, savedEpisode{Starts: o.Starts - o.Moved, Fired: o.Fired, Newest: o.Newest, Lines: o.Lines, Overflow: true})
	}
}

func (e *Engine) restoreRule(rs *ruleState, r ruleSnapshot, from *snapshot, now int64) {
	if !e.knows(from.Identity) {
		rs.older = newOlder(r)
	}
	for _, s := range r.Open {
		if len(s.Values) != len(rs.rule.By) || s.State != StatePending && s.State != StateFiring {
			continue // not written by this program
		}
		if !e.guard(rs, now, func() { e.restoreOpen(rs, r.CapturedNames, s, from, now) }) {
			e.guard(rs, now, func() { e.restoreOpen(rs, r.CapturedNames, s.bare(), from, now) })
		}
	}
	for _, w := range r.Windows {
		if len(w.Key) == len(rs.rule.By) {
			who := e.restoredIdentity(from.Identity, w.Identity)
			loaded := rs.loadWindow(r.CapturedNames, w, who)
			loaded.loose = w.Loose || rs.older != nil && who == nil
			rs.windows.add(join(w.Key, who), cmp.Or(w.Party, rs.partyOfKey(w.Key)), loaded, loaded.size())
		}
	}
	for _, c := range r.Cleared {
		rs.cleared.add(string(c.Key), c.Party, c.clears(), 1)
	}
	e.restoreLapses(rs, r, from, now)
	for _, m := range r.Muted {
		rs.muted.add(string(m.Key), m.Party, m.Value, len(m.Value))
	}
	if o := r.Overflow; o != nil {
		rs.over.due.disarm()
		rs.over = overflow{due: deadline{rs: rs}, active: true, starts: o.Starts, moved: o.Moved, newest: o.Newest, fired: o.Fired, lines: o.Lines, why: o.Why, labels: o.Labels, print: printOf(o.Labels), keys: newKeys(rs)}
		for _, k := range o.Keys {
			rs.over.keys.Add(seedOf(string(k)), struct{}{})
		}
		for _, k := range o.Hashes {
			rs.over.keys.Add(k, struct{}{})
		}
		rs.over.due.arm()
	}
	e.rename(rs, now) // severity or labels may have changed meanwhile
}

func (e *Engine) restoreOpen(rs *ruleState, names []string, s episodeSnapshot, from *snapshot, now int64) {
	ep := e.restoreEpisode(rs, names, s, from, now)
	if rs.open[ep.key] != nil {
		return
	}
	e.add(ep, cmp.Or(s.Party, s.Namespace, rs.partyOfKey(s.Values)))
	if !rs.quarantined {
		ep.due.arm()
	}
}

// bare is the episode without what only further lines need.
func (s episodeSnapshot) bare() episodeSnapshot {
	s.Window, s.Sequence, s.Times, s.Logs = nil, nil, nil, nil
	return s
}

func (e *Engine) restoreEpisode(rs *ruleState, names []string, s episodeSnapshot, from *snapshot, now int64) *episode {
	who := e.restoredIdentity(from.Identity, s.Identity)
	ep := &episode{
		rs: rs, key: join(s.Values, who), values: s.Values, who: who, labels: s.Labels, print: printOf(s.Labels), state: s.State, namespace: s.Namespace, party: s.Party,
		starts: s.Starts, moved: s.Moved, newest: s.Newest, from: s.From, fired: s.Fired, written: s.Written,
		lines: s.Lines, lastID: s.LastID, sequence: loadHits(names, s.Sequence),
		last: hit{line: text{s: s.Line, clean: true}}, first: text{s: s.First, clean: true},
	}
	ep.logs = logs{first: s.Log, known: s.Logs[:min(len(s.Logs), maxLogs)]}
	ep.restored = restored{loose: s.Loose || rs.older != nil && who == nil, nameless: s.Nameless}
	if s.First == "" {
		ep.first = ep.last.line
	}
	if s.Window != nil {
		s.Window.Key = s.Values
		ep.window = rs.loadWindow(names, *s.Window, who)
		if n := ep.window.newest; n != nil && n.line.s == "" {
			n.line = ep.last.line
		}
	}
	ep.noteRestored(now)
	if ep.undecided() && rs.waits() {
		if ep.times = unpack(s.Times); len(ep.times) == 0 {
			ep.times = slices.Compact(times{ep.starts, ep.newest})
		}
	}
	return ep
}

// restoreLapses runs after the clear lines are restored: they determine when a lapse
// ended.
func (e *Engine) restoreLapses(rs *ruleState, r ruleSnapshot, from *snapshot, now int64) {
	for _, s := range r.Lapses {
		ts := unpack(s.Times)
		if len(s.Values) != len(rs.rule.By) || len(ts) == 0 {
			continue // not written by this program
		}
		ep := e.restoreEpisode(rs, r.CapturedNames, s, from, now)
		ep.times = nil
		ep.clears, ep.noClear = rs.shared(rs.clearAt, ep.values, ep.who)
		ep.mutes, _ = rs.shared(rs.muteAt, ep.values, ep.who)
		e.addLapse(&lapse{ep: ep, times: ts, shown: s.Shown})
	}
}

func (rs *ruleState) loadWindow(names []string, s windowSnapshot, who *identity) *window {
	w := rs.newWindow(s.Key, who)
	for i := range min(len(s.Steps), len(w.steps)) {
		w.steps[i] = loadHits(names, s.Steps[i])
		w.several = w.several || slices.ContainsFunc(w.steps[i], func(h *hit) bool { return h.several })
	}
	w.values, w.lines = loadHits(names, s.Distinct), unpack(s.Lines)
	w.extra = w.values.extra()
	for _, hs := range w.steps {
		w.extra += hs.extra()
	}
	if len(s.Newest) > 0 && len(w.lines) > 0 {
		w.newest = loadHits(names, s.Newest)[0]
	}
	return w
}

// pack writes the first time and the differences to the ones before as varints.
func (ts times) pack() []byte {
	if len(ts) == 0 {
		return nil
	}
	b := binary.AppendVarint(make([]byte, 0, 10+4*len(ts)), ts[0])
	for i := 1; i < len(ts); i++ {
		b = binary.AppendUvarint(b, uint64(ts[i]-ts[i-1]))
	}
	return b
}

// unpack is the inverse of pack. It returns what it can make sense of.
func unpack(b []byte) times {
	t, n := binary.Varint(b)
	if n <= 0 {
		return nil
	}
	ts := times{t}
	for b = b[n:]; len(b) > 0 && len(ts) < rules.MaxHits; b = b[n:] {
		var d uint64
		if d, n = binary.Uvarint(b); n <= 0 || t+int64(d) < t {
			break
		}
		t += int64(d)
		ts = append(ts, t)
	}
	return ts
}

func loadHits(names []string, in []hitSnapshot) hits {
	out := make(hits, 0, len(in))
	for _, h := range in {
		out = append(out, &hit{t: h.T, id: h.ID, values: h.Values, names: names, line: text{s: h.Line, clean: true}, several: h.Multi})
	}
	return out
}
