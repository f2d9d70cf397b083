package episodes

import (
	"encoding/json"
	"slices"

	"crowsnest/rules"
)

// snapshotVersion is raised when older programs could misread a snapshot.
const snapshotVersion = 1

type snapshot struct {
	Version int `json:"version"`
	// Identity holds the names whose values are the identities. A program that
	// knew none wrote no list.
	Identity []string       `json:"identity,omitempty"`
	Rules    []ruleSnapshot `json:"rules,omitempty"`
	Closed   []savedEpisode `json:"closed,omitempty"`
	// Texts are those of Closed, packed.
	Texts       [][]byte     `json:"closed_texts,omitempty"`
	DeletedPods []deletedPod `json:"gone,omitempty"`
	// Old and By are when and how far the clock was set last.
	Old int64 `json:"clock_old,omitempty"`
	By  int64 `json:"clock_by,omitempty"`
	// Seen holds fingerprints, 8 bytes each, little endian, and SeenOf how many of
	// them are of each party.
	Seen   []byte      `json:"seen,omitempty"`
	SeenOf []seenShare `json:"seen_of,omitempty"`
}

type deletedPod struct {
	podName
	Identity []byte `json:",omitempty"` // end of a key
	At       int64
}

type ruleSnapshot struct {
	Alert         string                   `json:"alert"`
	Hash          string                   `json:"hash"`
	CapturedNames []string                 `json:"wants,omitempty"`
	Open          []episodeSnapshot        `json:"open,omitempty"`
	Windows       []windowSnapshot         `json:"windows,omitempty"`
	Lapses        []episodeSnapshot        `json:"lapses,omitempty"`
	Cleared       []clearSnapshot          `json:"cleared,omitempty"`
	Muted         []entrySnapshot[[]int64] `json:"muted,omitempty"`
	Overflow      *overflowSnapshot        `json:"overflow,omitempty"`
}

type episodeSnapshot struct {
	Values    []string          `json:"values"`
	Identity  []string          `json:"identity,omitempty"`
	Loose     bool              `json:"loose,omitempty"`
	Nameless  bool              `json:"nameless,omitempty"`
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
	Party     string            `json:"party,omitempty"`
	Sequence  []hitSnapshot     `json:"chain,omitempty"`
	Line      string            `json:"line,omitempty"`
	First     string            `json:"first,omitempty"` // if it is not Line
	Log       string            `json:"log,omitempty"`
	Logs      []uint64          `json:"logs,omitempty"`
	Window    *windowSnapshot   `json:"window,omitempty"`
	Times     []byte            `json:"times,omitempty"` // as packed, while it is undecided
	Shown     bool              `json:"shown,omitempty"` // of a lapse
}

type windowSnapshot struct {
	Key      []string        `json:"key,omitempty"` // values of `by`, unless an episode has them
	Party    string          `json:"party,omitempty"`
	Identity []string        `json:"identity,omitempty"`
	Loose    bool            `json:"loose,omitempty"`
	Steps    [][]hitSnapshot `json:"steps,omitempty"`
	Lines    []byte          `json:"lines,omitempty"`  // as packed
	Newest   []hitSnapshot   `json:"newest,omitempty"` // one or none
	Distinct []hitSnapshot   `json:"distinct,omitempty"`
}

type hitSnapshot struct {
	T      int64    `json:"t"`
	ID     uint64   `json:"id,omitempty"` // of steps of a sequence
	Values []string `json:"v,omitempty"`  // of the rule's captured names
	Line   string   `json:"l,omitempty"`
	Multi  bool     `json:"m,omitempty"`
}

type entrySnapshot[V any] struct {
	Key   []byte `json:"k"` // bytes of the log, which need not be UTF-8
	Value V      `json:"v"`
	Party string `json:"p,omitempty"`
}

type overflowSnapshot struct {
	Labels map[string]string `json:"labels"`
	Starts int64             `json:"starts"`
	Moved  int64             `json:"moved,omitempty"`
	Newest int64             `json:"newest"`
	Fired  int64             `json:"fired"`
	Lines  int64             `json:"lines"`
	Why    string            `json:"why"`
	Keys   [][]byte          `json:"keys,omitempty"` // of older programs
	Hashes []uint64          `json:"key_hashes,omitempty"`
}

// savedEpisode is an episode that was resolved recently, to be reported again.
type savedEpisode struct {
	Alert     string            `json:"alert"`
	Reason    Reason            `json:"reason"`
	Overflow  bool              `json:"overflow,omitempty"`
	Silent    bool              `json:"silent,omitempty"`
	Labels    map[string]string `json:"labels"`
	Starts    int64             `json:"starts"`
	Fired     int64             `json:"fired"`
	Newest    int64             `json:"newest"`
	Ends      int64             `json:"ends"`
	Concluded int64             `json:"concluded"`
	Lines     int64             `json:"lines"`
	Party     string            `json:"party,omitempty"`
	// The texts are here in the snapshots of older programs only.
	Annotations map[string]string `json:"annotations,omitempty"`
	Line        string            `json:"line,omitempty"`
	First       string            `json:"first,omitempty"`
}

// closedKey identifies an episode that was resolved.
type closedKey struct {
	Print  Fingerprint
	Starts int64
}

func (x *Episode) closedKey() closedKey { return closedKey{x.Fingerprint, nanos(x.StartsAt)} }

// closedTexts are the texts of an episode that was resolved.
type closedTexts struct {
	closedKey
	Annotations map[string]string
	Line, First string
}

// Snapshot returns the whole state except for watermarks, as JSON. Its lines and
// captures are redacted.
func (e *Engine) Snapshot() ([]byte, error) { return e.Copy().Encode() }

// Copy is the state of an engine at one moment. It shares nothing that changes.
type Copy struct {
	s     snapshot
	texts []closedTexts // of s.Closed
	pack  *Pack[closedKey, closedTexts]
}

// Encode returns the copy as JSON, for Restore.
func (c Copy) Encode() ([]byte, error) {
	if len(c.texts) > 0 {
		var err error
		if c.s.Texts, err = c.pack.Encode(c.texts, func(t closedTexts) closedKey { return t.closedKey }); err != nil {
			return nil, err
		}
	}
	return json.Marshal(c.s)
}

// Copy copies what Snapshot saves. It is quick; encoding takes longer and can be
// done while the engine goes on.
func (e *Engine) Copy() Copy {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := snapshot{Version: snapshotVersion, Identity: e.cfg.Identity, Old: e.step.old, By: e.step.by}
	s.Seen, s.SeenOf = e.seen.save()
	for _, rs := range e.order {
		if r := e.saveSafely(rs); r.Open != nil || r.Windows != nil || r.Cleared != nil || r.Muted != nil || r.Overflow != nil {
			s.Rules = append(s.Rules, r)
		}
	}
	var texts []closedTexts
	s.Closed, texts = e.saveClosed()
	for _, pod := range e.deletedPods.Keys() {
		at, _ := e.deletedPods.Peek(pod)
		s.DeletedPods = append(s.DeletedPods, deletedPod{pod, []byte(pod.identity), at})
	}
	return Copy{s, texts, &e.pack}
}

// savedLines bounds the bytes of lines of open episodes in a snapshot, to keep it fast.
const savedLines = 1 << 20

// savedLine returns a line as it is saved: the more episodes and windows there
// are, the less of each.
func (e *Engine) savedLine(t *text) string {
	return truncate(e.shown(t), min(maxSample, max(64, savedLines/max(1, 2*e.slots.total()+e.windows.total()))))
}

// saveClosed returns what was resolved, and its texts.
func (e *Engine) saveClosed() ([]savedEpisode, []closedTexts) {
	out, texts := make([]savedEpisode, len(e.closed)), make([]closedTexts, len(e.closed))
	for i := range e.closed {
		x := &e.closed[i]
		out[i] = savedEpisode{
			Alert: x.Alert, Reason: x.Reason, Overflow: x.Overflow, Silent: x.Silent, Labels: x.Labels,
			Starts: nanos(x.StartsAt), Fired: nanos(x.FiredAt), Newest: nanos(x.LastSeen),
			Ends: nanos(x.EndsAt), Concluded: nanos(x.Concluded), Lines: x.Count, Party: x.Party,
		}
		texts[i] = closedTexts{x.closedKey(), x.Annotations, x.Line, x.First}
	}
	return out, texts
}

// saveSafely is saveRule. Of a rule that panics, what identifies its open episodes is
// saved: without them, a restart would end their alerts.
func (e *Engine) saveSafely(rs *ruleState) (out ruleSnapshot) {
	if e.guard(rs, e.evictions.now, func() { out = e.saveRule(rs) }) {
		return out
	}
	out = ruleSnapshot{Alert: rs.rule.Alert, Hash: rs.rule.Hash, CapturedNames: rs.rule.CapturedNames}
	for _, ep := range rs.open {
		out.Open = append(out.Open, ep.saved())
	}
	return out
}

func (e *Engine) saveRule(rs *ruleState) ruleSnapshot {
	out := ruleSnapshot{Alert: rs.rule.Alert, Hash: rs.rule.Hash, CapturedNames: rs.rule.CapturedNames}
	if n := len(rs.open); n > 0 {
		out.Open = make([]episodeSnapshot, 0, n)
	}
	for _, ep := range rs.sorted() {
		x := e.saveEpisode(ep)
		out.Open = append(out.Open, x)
	}
	for _, l := range rs.lapses {
		x := e.saveEpisode(l.ep)
		x.Times, x.Shown = l.times.pack(), l.shown
		out.Lapses = append(out.Lapses, x)
	}
	for x, party := range rs.windows.values() {
		if x.value.size() > 0 {
			w := e.saveWindow(rs.rule, x.value)
			w.Party = party
			out.Windows = append(out.Windows, w)
		}
	}
	for x, party := range rs.cleared.values() {
		out.Cleared = append(out.Cleared, saveClears(x.value, x.key, party))
	}
	out.Muted = saveEntries(rs.muted)
	for i := range out.Muted {
		out.Muted[i].Value = slices.Clone(out.Muted[i].Value) // it is changed in place
	}
	if o := &rs.over; o.active {
		x := &overflowSnapshot{Labels: o.labels, Starts: o.starts, Moved: o.moved, Newest: o.newest, Fired: o.fired, Lines: o.lines, Why: o.why}
		x.Hashes = o.keys.Keys()
		out.Overflow = x
	}
	return out
}

// saved returns the identity and progress of an episode.
func (ep *episode) saved() episodeSnapshot {
	return episodeSnapshot{
		Values: ep.values, Identity: ep.who.saved(), Loose: ep.loose, Nameless: ep.nameless, Labels: ep.labels, State: ep.state, Namespace: ep.namespace,
		Starts: ep.starts, Moved: ep.moved, Newest: ep.newest, From: ep.from, Fired: ep.fired, Written: ep.written, Lines: ep.lines, LastID: ep.lastID,
	}
}

// saveEpisode saves an episode.
func (e *Engine) saveEpisode(ep *episode) episodeSnapshot {
	x := ep.saved()
	x.Party, x.Times, x.Log, x.Logs = ep.charged(), ep.times.pack(), ep.logs.first, slices.Clone(ep.logs.known)
	x.Sequence, x.Line, x.First = saveValues(ep.rs.rule, ep.sequence), e.savedLine(&ep.last.line), e.savedLine(&ep.first)
	if x.First == x.Line {
		x.First = ""
	}
	if ep.window != nil {
		w := e.saveWindow(ep.rs.rule, ep.window)
		w.Key, w.Identity, w.Loose = nil, nil, false
		if len(w.Newest) > 0 && w.Newest[0].Line == x.Line {
			w.Newest[0].Line = ""
		}
		x.Window = &w
	}
	return x
}

func saveEntries[V any](k *cache[V]) []entrySnapshot[V] {
	var out []entrySnapshot[V]
	for x, party := range k.values() {
		out = append(out, entrySnapshot[V]{[]byte(x.key), x.value, party})
	}
	return out
}

func (e *Engine) saveWindow(r *rules.Rule, w *window) windowSnapshot {
	out := windowSnapshot{Key: w.key, Identity: w.who.saved(), Loose: w.loose, Distinct: e.saveHits(r, w.values), Lines: w.lines.pack()}
	if w.newest != nil {
		out.Newest = e.saveHits(r, hits{w.newest})
	}
	for _, hs := range w.steps {
		out.Steps = append(out.Steps, e.saveHits(r, hs))
	}
	return out
}

// saveHits saves the parts of hits that future triggers need.
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

// saveValues saves the parts of hits that templates need. The values of a hit never
// change, so they are shared.
func saveValues(r *rules.Rule, hs hits) []hitSnapshot {
	out := make([]hitSnapshot, len(hs))
	for i, h := range hs {
		out[i].T = h.t
		if len(h.values) == len(r.CapturedNames) && slices.Equal(h.names, r.CapturedNames) {
			out[i].Values = h.values
			continue
		}
		for _, name := range r.CapturedNames {
			out[i].Values = append(out[i].Values, h.value(name))
		}
	}
	return out
}
