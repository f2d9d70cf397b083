package episodes

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/rules"
)

// snapshotVersion is raised when older programs could misread a snapshot.
const snapshotVersion = 1

type snapshot struct {
	Version int            `json:"version"`
	Rules   []ruleSnapshot `json:"rules,omitempty"`
	Closed  []savedEpisode `json:"closed,omitempty"`
	Gone    []gonePod      `json:"gone,omitempty"`
	// Old and By are when and how far the clock was set last.
	Old int64 `json:"clock_old,omitempty"`
	By  int64 `json:"clock_by,omitempty"`
	// Seen holds fingerprints, oldest first, 8 bytes each, little endian.
	Seen string `json:"seen,omitempty"`
}

type gonePod struct {
	podName
	At int64
}

type ruleSnapshot struct {
	Alert    string                   `json:"alert"`
	Hash     string                   `json:"hash"`
	Wants    []string                 `json:"wants,omitempty"`
	Open     []episodeSnapshot        `json:"open,omitempty"`
	Windows  []windowSnapshot         `json:"windows,omitempty"`
	Cleared  []entrySnapshot[int64]   `json:"cleared,omitempty"`
	Muted    []entrySnapshot[[]int64] `json:"muted,omitempty"`
	Overflow *overflowSnapshot        `json:"overflow,omitempty"`
}

type episodeSnapshot struct {
	Values    []string          `json:"values"`
	Labels    map[string]string `json:"labels"`
	State     State             `json:"state"`
	Starts    int64             `json:"starts"`
	Moved     int64             `json:"moved,omitempty"` // with the clock
	Newest    int64             `json:"newest"`
	From      int64             `json:"from"`
	Fired     int64             `json:"fired,omitempty"`
	Written   int64             `json:"written"`
	Lines     int64             `json:"lines"`
	LastID    uint64            `json:"last_id"`
	Namespace string            `json:"namespace,omitempty"`
	Chain     []hitSnapshot     `json:"chain,omitempty"`
	Line      string            `json:"line,omitempty"`
	First     string            `json:"first,omitempty"` // if it is not Line
	Window    *windowSnapshot   `json:"window,omitempty"`
}

type windowSnapshot struct {
	Key      []string        `json:"key,omitempty"` // values of `by`, unless an episode has them
	Steps    [][]hitSnapshot `json:"steps,omitempty"`
	Lines    []byte          `json:"lines,omitempty"`  // as packed
	Newest   []hitSnapshot   `json:"newest,omitempty"` // one or none
	Distinct []hitSnapshot   `json:"distinct,omitempty"`
}

type hitSnapshot struct {
	T      int64    `json:"t"`
	ID     uint64   `json:"id,omitempty"` // of steps of a sequence
	Values []string `json:"v,omitempty"`  // of the rule's wants
	Line   string   `json:"l,omitempty"`
	Multi  bool     `json:"m,omitempty"`
}

type entrySnapshot[V any] struct {
	Key   []byte `json:"k"` // bytes of the log, which need not be UTF-8
	Value V      `json:"v"`
}

type overflowSnapshot struct {
	Labels map[string]string `json:"labels"`
	Starts int64             `json:"starts"`
	Moved  int64             `json:"moved,omitempty"`
	Newest int64             `json:"newest"`
	Fired  int64             `json:"fired"`
	Lines  int64             `json:"lines"`
	Why    string            `json:"why"`
	Keys   [][]byte          `json:"keys,omitempty"`
}

// savedEpisode is an episode that was resolved not long ago, to be told again.
type savedEpisode struct {
	Alert       string            `json:"alert"`
	Reason      Reason            `json:"reason"`
	Overflow    bool              `json:"overflow,omitempty"`
	Silent      bool              `json:"silent,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Starts      int64             `json:"starts"`
	Fired       int64             `json:"fired"`
	Newest      int64             `json:"newest"`
	Ends        int64             `json:"ends"`
	Concluded   int64             `json:"concluded"`
	Lines       int64             `json:"lines"`
	Line        string            `json:"line,omitempty"`
	First       string            `json:"first,omitempty"`
}

// Snapshot returns the whole state but for proofs of reading, as JSON. Lines
// and captures in it are redacted.
func (e *Engine) Snapshot() ([]byte, error) { return e.Copy().Encode() }

// Copy is the state of an engine at one moment. It shares nothing that changes.
type Copy struct{ s snapshot }

// Encode returns the copy as JSON, for Restore.
func (c Copy) Encode() ([]byte, error) { return json.Marshal(c.s) }

// Copy copies what Snapshot saves. It is quick; encoding takes longer and can be
// done while the engine goes on.
func (e *Engine) Copy() Copy {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := snapshot{Version: snapshotVersion, Seen: e.saveSeen(), Old: e.step.old, By: e.step.by}
	for _, rs := range e.order {
		if r := e.saveRule(rs); r.Open != nil || r.Windows != nil || r.Cleared != nil || r.Muted != nil || r.Overflow != nil {
			s.Rules = append(s.Rules, r)
		}
	}
	s.Closed = e.saveClosed()
	for _, pod := range e.gone.Keys() {
		at, _ := e.gone.Peek(pod)
		s.Gone = append(s.Gone, gonePod{pod, at})
	}
	return Copy{s}
}

// Bounds of a snapshot, in bytes, so that saving stays quick.
const (
	savedLines  = 1 << 20   // lines of open episodes
	savedClosed = 256 << 10 // texts of resolved ones
)

// savedLine returns a line as it is saved: the more episodes and windows there
// are, the less of each.
func (e *Engine) savedLine(t *text) string {
	return cut(e.shown(t), min(maxSample, max(64, savedLines/max(1, 2*e.active+e.keys))))
}

// saveClosed saves what was resolved; the texts of those that ended long ago
// are left out if there are many.
func (e *Engine) saveClosed() []savedEpisode {
	out := make([]savedEpisode, len(e.closed))
	room := savedClosed
	for i := len(e.closed) - 1; i >= 0; i-- {
		x := e.closed[i]
		out[i] = savedEpisode{
			Alert: x.Alert, Reason: x.Reason, Overflow: x.Overflow, Silent: x.Silent, Labels: x.Labels,
			Starts: nanos(x.StartsAt), Fired: nanos(x.FiredAt), Newest: nanos(x.LastSeen),
			Ends: nanos(x.EndsAt), Concluded: nanos(x.Concluded), Lines: x.Count,
		}
		room -= len(x.Line) + len(x.First)
		for name, text := range x.Annotations {
			room -= len(name) + len(text)
		}
		if room > 0 {
			out[i].Annotations, out[i].Line, out[i].First = x.Annotations, x.Line, x.First
		}
	}
	return out
}

func (e *Engine) saveSeen() string {
	keys := e.seen.Keys()
	b := make([]byte, 0, 8*len(keys))
	for _, k := range keys {
		b = binary.LittleEndian.AppendUint64(b, k)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func (e *Engine) saveRule(rs *ruleState) ruleSnapshot {
	out := ruleSnapshot{Alert: rs.rule.Alert, Hash: rs.rule.Hash, Wants: rs.rule.Wants}
	for _, ep := range rs.sorted() {
		x := episodeSnapshot{
			Values: ep.values, Labels: ep.labels, State: ep.state, Namespace: ep.namespace, Starts: ep.starts, Moved: ep.moved, Newest: ep.newest,
			From: ep.from, Fired: ep.fired, Written: ep.written, Lines: ep.lines, LastID: ep.lastID,
			Chain: saveValues(rs.rule, ep.chain), Line: e.savedLine(&ep.line), First: e.savedLine(&ep.first),
		}
		if x.First == x.Line {
			x.First = ""
		}
		if ep.window != nil {
			w := e.saveWindow(rs.rule, ep.window)
			w.Key = nil
			if len(w.Newest) > 0 && w.Newest[0].Line == x.Line {
				w.Newest[0].Line = ""
			}
			x.Window = &w
		}
		out.Open = append(out.Open, x)
	}
	for _, key := range rs.windows.Keys() {
		if w, _ := rs.windows.Peek(key); w.size() > 0 {
			out.Windows = append(out.Windows, e.saveWindow(rs.rule, w))
		}
	}
	out.Cleared = saveEntries(rs.cleared)
	out.Muted = saveEntries(rs.muted)
	for i := range out.Muted {
		out.Muted[i].Value = slices.Clone(out.Muted[i].Value) // it is changed in place
	}
	if o := &rs.over; o.active {
		x := &overflowSnapshot{Labels: o.labels, Starts: o.starts, Moved: o.moved, Newest: o.newest, Fired: o.fired, Lines: o.lines, Why: o.why}
		for _, k := range o.keys.Keys() {
			x.Keys = append(x.Keys, []byte(k))
		}
		out.Overflow = x
	}
	return out
}

func saveEntries[V any](lru *simplelru.LRU[string, V]) []entrySnapshot[V] {
	var out []entrySnapshot[V]
	for _, k := range lru.Keys() {
		v, _ := lru.Peek(k)
		out = append(out, entrySnapshot[V]{[]byte(k), v})
	}
	return out
}

func (e *Engine) saveWindow(r *rules.Rule, w *window) windowSnapshot {
	out := windowSnapshot{Key: w.key, Distinct: e.saveHits(r, w.values), Lines: w.lines.pack()}
	if w.newest != nil {
		out.Newest = e.saveHits(r, hits{w.newest})
	}
	for _, hs := range w.steps {
		out.Steps = append(out.Steps, e.saveHits(r, hs))
	}
	return out
}

// saveHits saves what triggers to come may look at.
func (e *Engine) saveHits(r *rules.Rule, hs hits) []hitSnapshot {
	out := saveValues(r, hs)
	for i, h := range hs {
		out[i].Line, out[i].Multi = e.savedLine(&h.line), h.several
		if r.Sequence {
			out[i].ID = h.id
		}
	}
	return out
}

// saveValues saves what templates look at.
func saveValues(r *rules.Rule, hs hits) []hitSnapshot {
	out := make([]hitSnapshot, len(hs))
	for i, h := range hs {
		out[i].T = h.t
		for _, name := range r.Wants {
			out[i].Values = append(out[i].Values, h.value(name))
		}
	}
	return out
}

// Restore puts a snapshot into an engine whose rules are in force already. What
// belongs to rules that changed or are gone is resolved. The next Evaluate
// tells everything that is firing or was resolved lately. After an error the
// engine is as it was.
func (e *Engine) Restore(data []byte, now time.Time) error {
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read snapshot of episodes: %w", err)
	}
	if s.Version != snapshotVersion {
		return fmt.Errorf("read snapshot of episodes: version %d is not %d", s.Version, snapshotVersion)
	}
	seen, err := base64.StdEncoding.DecodeString(s.Seen)
	if err != nil {
		return fmt.Errorf("read snapshot of episodes: fingerprints: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for ; len(seen) >= 8; seen = seen[8:] {
		e.seen.Add(binary.LittleEndian.Uint64(seen), struct{}{})
	}
	for _, pod := range s.Gone {
		e.gone.Add(pod.podName, pod.At)
	}
	for _, c := range s.Closed {
		x := c.episode(e.rules)
		e.closed = append(e.closed, x)
		e.changes = append(e.changes, x)
	}
	for _, r := range s.Rules {
		rs := e.rules[r.Alert]
		if rs == nil || rs.rule.Hash != r.Hash {
			e.restoreGone(r, nanos(now))
			continue
		}
		e.restoreRule(rs, r, nanos(now))
	}
	e.step = step{old: s.Old, by: s.By}
	e.tellAll()
	return nil
}

func (c savedEpisode) episode(known map[string]*ruleState) Episode {
	x := Episode{
		Fingerprint: printOf(c.Labels), Alert: c.Alert, State: StateResolved, Reason: c.Reason,
		Overflow: c.Overflow, Silent: c.Silent, Labels: c.Labels, Annotations: c.Annotations,
		StartsAt: instant(c.Starts), FiredAt: instant(c.Fired), LastSeen: instant(c.Newest), EndsAt: instant(c.Ends),
		Concluded: instant(c.Concluded), Count: c.Lines, Line: c.Line, First: c.First,
	}
	if rs := known[c.Alert]; rs != nil {
		x.Rule = rs.rule
	}
	return x
}

// restoreGone resolves what was firing for a rule that is not in force.
func (e *Engine) restoreGone(r ruleSnapshot, now int64) {
	gone := func(labels map[string]string, o savedEpisode) {
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
			gone(ep.Labels, savedEpisode{
				Starts: ep.Starts - ep.Moved, Fired: ep.Fired, Newest: ep.Newest, Lines: ep.Lines,
				Line: ep.Line, First: ep.First, Annotations: map[string]string{"line": ep.Line},
			})
		}
	}
	if o := r.Overflow; o != nil {
		gone(o.Labels, savedEpisode{Starts: o.Starts - o.Moved, Fired: o.Fired, Newest: o.Newest, Lines: o.Lines, Overflow: true})
	}
}

func (e *Engine) restoreRule(rs *ruleState, r ruleSnapshot, now int64) {
	for _, s := range r.Open {
		if len(s.Values) != len(rs.rule.By) || s.State != StatePending && s.State != StateFiring {
			continue // not written by this program
		}
		ep := &episode{
			rs: rs, key: join(s.Values), values: s.Values, labels: s.Labels, print: printOf(s.Labels), state: s.State, namespace: s.Namespace,
			starts: s.Starts, moved: s.Moved, newest: s.Newest, from: s.From, fired: s.Fired, written: s.Written,
			lines: s.Lines, lastID: s.LastID, chain: loadHits(r.Wants, s.Chain),
			line: text{s.Line, true}, first: text{s.First, true},
		}
		if s.First == "" {
			ep.first = ep.line
		}
		if s.Window != nil {
			s.Window.Key = s.Values
			ep.window = loadWindow(rs.rule, r.Wants, *s.Window)
			if n := ep.window.newest; n != nil && n.line.s == "" {
				n.line = ep.line
			}
		}
		if rs.open[ep.key] == nil {
			e.add(ep)
		}
	}
	for _, w := range r.Windows {
		if len(w.Key) == len(rs.rule.By) {
			e.keep(rs, join(w.Key), loadWindow(rs.rule, r.Wants, w))
		}
	}
	for _, c := range r.Cleared {
		rs.cleared.Add(string(c.Key), c.Value)
	}
	for _, m := range r.Muted {
		rs.muted.Add(string(m.Key), m.Value)
	}
	if o := r.Overflow; o != nil {
		rs.over = overflow{active: true, starts: o.Starts, moved: o.Moved, newest: o.Newest, fired: o.Fired, lines: o.Lines, why: o.Why, labels: o.Labels, print: printOf(o.Labels), keys: newKeys(rs)}
		for _, k := range o.Keys {
			rs.over.keys.Add(string(k), struct{}{})
		}
	}
	e.rename(rs, now) // severity or labels may have changed meanwhile
	rs.nextDeadline()
}

func loadWindow(r *rules.Rule, wants []string, s windowSnapshot) *window {
	w := newWindow(r, s.Key)
	for i := range min(len(s.Steps), len(w.steps)) {
		w.steps[i] = loadHits(wants, s.Steps[i])
	}
	w.values, w.lines = loadHits(wants, s.Distinct), unpack(s.Lines)
	if len(s.Newest) > 0 && len(w.lines) > 0 {
		w.newest = loadHits(wants, s.Newest)[0]
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

func loadHits(wants []string, in []hitSnapshot) hits {
	out := make(hits, 0, len(in))
	for _, h := range in {
		out = append(out, &hit{t: h.T, id: h.ID, values: h.Values, wants: wants, line: text{h.Line, true}, several: h.Multi})
	}
	return out
}
