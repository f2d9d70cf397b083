package episodes

import (
	"crowsnest/episodes/internal/fair"
	"crowsnest/episodes/internal/window"
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
	Seen   []byte       `json:"seen,omitempty"`
	SeenOf []fair.Share `json:"seen_of,omitempty"`
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

// clearSnapshot is clears as they are saved. Programs that knew the newest line alone
// read and wrote k, v and p.
type clearSnapshot struct {
	entrySnapshot[int64]
	Since *int64 `json:"s,omitempty"` // nil: v
	Older []byte `json:"o,omitempty"` // as packed
}

func saveClears(c window.Clears, key, party string) clearSnapshot {
	out := clearSnapshot{entrySnapshot: entrySnapshot[int64]{[]byte(key), c.Newest, party}, Since: &c.Since}
	if c.Older != nil {
		out.Older = c.Older.Pack()
	}
	return out
}

func (s clearSnapshot) clears() window.Clears {
	c := window.Clears{Newest: s.Value, Since: s.Value}
	if s.Since != nil {
		c.Since = *s.Since
	}
	if older := window.Unpack(s.Older); len(older) > 0 {
		c.Older = &older
	}
	return c
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
