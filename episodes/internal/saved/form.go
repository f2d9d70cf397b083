// Package saved defines the format of an engine's state in a snapshot. New keys may be added to its JSON, but older
// snapshots must still load.
package saved

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/redact"
)

// version must increase when older programs could misread a snapshot.
const version = 1

// State is the state of an engine. Times are nanoseconds since 1970.
type State struct {
	Version int `json:"version"`
	// Identity holds the names of the identity labels. Versions without identities did not write it.
	Identity []string `json:"identity,omitempty"`
	Rules    []Rule   `json:"rules,omitempty"`
	Closed   []Closed `json:"closed,omitempty"`
	// Texts are the ClosedTexts of the entries of Closed, packed into blocks.
	Texts       [][]byte     `json:"closed_texts,omitempty"`
	DeletedPods []DeletedPod `json:"gone,omitempty"`
	Departed    []DeletedPod `json:"departed,omitempty"` // deleted pods whose lines arm no key
	// Seen holds fingerprints of 8 bytes each, little endian. SeenOf is the number of fingerprints of each tenant.
	Seen   []byte        `json:"seen,omitempty"`
	SeenOf []quota.Share `json:"seen_of,omitempty"`
}

// DeletedPod is a pod that was deleted.
type DeletedPod struct {
	Namespace, Name string
	Identity        []byte `json:",omitempty"` // identity part of the keys that name the pod
	At              int64
}

// Rule is the state of one rule.
type Rule struct {
	Alert         string           `json:"alert"`
	Hash          string           `json:"hash"`
	CapturedNames []string         `json:"wants,omitempty"`
	Open          []Episode        `json:"open,omitempty"`
	Windows       []Window         `json:"windows,omitempty"`
	BriefFailures []Episode        `json:"lapses,omitempty"`
	Cleared       []Clears         `json:"cleared,omitempty"`
	Muted         []Entry[[]int64] `json:"muted,omitempty"`
	Armed         []Armed          `json:"armed,omitempty"`
	Overflow      *Overflow        `json:"overflow,omitempty"`
	Displaced     []Displaced      `json:"displaced,omitempty"` // displaced alerts, the most recent one last
}

// Displaced is a notified alert that lost its place to an alert of another tenant. A clear line ends it.
type Displaced struct {
	Key     []byte `json:"k"` // key of the clear lines that end the alert
	Trigger int64  `json:"n"` // time of the newest trigger
	Closed
}

// Empty reports whether the rule has no state that needs saving.
func (r *Rule) Empty() bool {
	return len(r.Open)+len(r.Windows)+len(r.BriefFailures)+len(r.Cleared)+len(r.Muted)+len(r.Armed)+len(r.Displaced) == 0 && r.Overflow == nil
}

// Episode is an episode that has not ended, or a brief failure.
type Episode struct {
	Values          []redact.Text     `json:"values"`
	Identity        []string          `json:"identity,omitempty"`
	PartialIdentity bool              `json:"loose,omitempty"`
	Nameless        bool              `json:"nameless,omitempty"`
	Labels          map[string]string `json:"labels"`
	State           string            `json:"state"`
	Starts          int64             `json:"starts"`
	ClockShift      int64             `json:"moved,omitempty"` // sum of the clock changes by which StartsAt was moved
	Newest          int64             `json:"newest"`
	WindowStart     int64             `json:"from"`
	FiredAt         int64             `json:"fired,omitempty"`
	CompletedAt     int64             `json:"written"`
	Lines           int64             `json:"lines"`
	LastID          uint64            `json:"last_id"`
	Namespace       string            `json:"namespace,omitempty"`
	Tenant          string            `json:"party,omitempty"`
	Sequence        []Hit             `json:"chain,omitempty"`
	Line            redact.Text       `json:"line,omitempty"`
	FirstLine       redact.Text       `json:"first,omitempty"` // first line, if it differs from Line
	Log             string            `json:"log,omitempty"`
	Logs            []uint64          `json:"logs,omitempty"`
	OtherNamespaces []string          `json:"other_namespaces,omitempty"` // namespaces of later logs; the namespace of the first log is not included
	Window          *Window           `json:"window,omitempty"`
	Times           []byte            `json:"times,omitempty"` // triggers of an undecided episode, encoded by window.Times.Pack
	ReportedPending bool              `json:"shown,omitempty"` // whether a brief failure was reported as pending
	Inhibit         string            `json:"inhibit,omitempty"`
	EarlierTriggers []byte            `json:"earlier,omitempty"` // triggers before Since or the start that were read late, encoded by window.Times.Pack
	RecentTriggers  []byte            `json:"recent,omitempty"`
	Since           int64             `json:"since,omitempty"` // time of the first trigger after a late clear line
}

// Cause is the alert that an ended episode was a symptom of.
type Cause struct {
	Print    uint64            `json:"print"`
	Alert    string            `json:"alert"`
	Severity string            `json:"severity,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Summary  string            `json:"summary,omitempty"`
	Starts   int64             `json:"starts"`
}

// WithoutInternals returns a copy of the episode without the fields that are needed only to process later lines.
func (e Episode) WithoutInternals() Episode {
	e.Window, e.Sequence, e.Times, e.Logs = nil, nil, nil, nil
	return e
}

// Armed is a key of a rule with `silent`, with its newest line.
type Armed struct {
	Values          []redact.Text `json:"values"` // values of `by`
	Identity        []string      `json:"identity,omitempty"`
	PartialIdentity bool          `json:"loose,omitempty"`
	Namespace       string        `json:"namespace,omitempty"`
	Tenant          string        `json:"party,omitempty"`
	Disarmed        bool          `json:"disarmed,omitempty"`
	Last            Hit           `json:"last"`
	Log             string        `json:"log,omitempty"`
	Logs            []uint64      `json:"logs,omitempty"`
	OtherNamespaces []string      `json:"other_namespaces,omitempty"`
}

// Window is the saved window of a key, which holds the key's recent lines.
type Window struct {
	Key             []redact.Text `json:"key,omitempty"` // values of `by`; nil if an episode of the key has them
	Tenant          string        `json:"party,omitempty"`
	Identity        []string      `json:"identity,omitempty"`
	PartialIdentity bool          `json:"loose,omitempty"`
	Steps           [][]Hit       `json:"steps,omitempty"`
	Lines           []byte        `json:"lines,omitempty"`  // times of the lines, encoded by window.Times.Pack
	Newest          []Hit         `json:"newest,omitempty"` // the newest hit, if there is one
	Distinct        []Hit         `json:"distinct,omitempty"`
}

// Hit is a line that was counted.
type Hit struct {
	T      int64         `json:"t"`
	ID     uint64        `json:"id,omitempty"` // ID of a hit that belongs to a sequence
	Values []redact.Text `json:"v,omitempty"`  // values of Rule.CapturedNames
	Line   redact.Text   `json:"l,omitempty"`
	Multi  bool          `json:"m,omitempty"`
}

// Entry is the state of one key of clear or unless lines.
type Entry[V any] struct {
	Key    []byte `json:"k"` // bytes from a log, which may not be valid UTF-8
	Value  V      `json:"v"`
	Tenant string `json:"p,omitempty"`
}

// Overflow is the alert for the keys beyond a limit.
type Overflow struct {
	Labels          map[string]string `json:"labels"`
	Starts          int64             `json:"starts"`
	ClockShift      int64             `json:"moved,omitempty"`
	Newest          int64             `json:"newest"`
	FiredAt         int64             `json:"fired"`
	Lines           int64             `json:"lines"`
	LimitText       string            `json:"why"`
	Keys            [][]byte          `json:"keys,omitempty"` // refused keys, which only older versions wrote
	Hashes          []uint64          `json:"key_hashes,omitempty"`
	DisplacedCount  int64             `json:"lost,omitempty"`  // number of displaced alerts
	DisplacedLabels []string          `json:"named,omitempty"` // labels of the newest displaced alerts
}

// Closed is a recently resolved episode that is reported again after a restart.
type Closed struct {
	Alert       string            `json:"alert"`
	Reason      string            `json:"reason"`
	Overflow    bool              `json:"overflow,omitempty"`
	Silent      bool              `json:"silent,omitempty"`
	Labels      map[string]string `json:"labels"`
	Starts      int64             `json:"starts"`
	FiredAt     int64             `json:"fired"`
	Newest      int64             `json:"newest"`
	Ends        int64             `json:"ends"`
	ConcludedAt int64             `json:"concluded"`
	Lines       int64             `json:"lines"`
	Tenant      string            `json:"party,omitempty"`
	ClockShift  int64             `json:"moved,omitempty"` // sum of the clock changes since the end
	// Annotations were written by older versions; now Texts has them.
	Annotations map[string]string `json:"annotations,omitempty"`
	Line        redact.Text       `json:"line,omitempty"`
	FirstLine   redact.Text       `json:"first,omitempty"`
}

// ClosedKey identifies an episode that was resolved.
type ClosedKey struct {
	Print  uint64
	Starts int64
}

// ClosedTexts are the texts of an episode that was resolved.
type ClosedTexts struct {
	ClosedKey
	Annotations map[string]string
	Line, First redact.Text
	Cause       *Cause `json:",omitempty"`
}

// Clears holds the clear lines of one key. Versions that knew only the newest line wrote only k, v and p.
type Clears struct {
	Entry[int64]
	Since *int64 `json:"s,omitempty"` // clear lines up to this time may have been dropped; nil means that it equals v
	Older []byte `json:"o,omitempty"` // times, encoded by window.Times.Pack
}

// SaveClears converts the clear lines of a key to their saved form.
func SaveClears(c window.Clears, key, party string) Clears {
	out := Clears{Entry: Entry[int64]{[]byte(key), c.Newest, party}, Since: &c.Since}
	if c.Older != nil {
		out.Older = c.Older.Pack()
	}
	return out
}

// Restore is the inverse of SaveClears.
func (c Clears) Restore() window.Clears {
	out := window.Clears{Newest: c.Value, Since: c.Value}
	if c.Since != nil {
		out.Since = *c.Since
	}
	if older := window.UnpackTimes(c.Older); len(older) > 0 {
		out.Older = &older
	}
	return out
}

// Append appends the JSON of the state, which Parse reads. It encodes the long lists one element at a time, because a
// buffer for a whole list would be allocated again at each call. After an error it returns b unchanged.
func (s State) Append(b []byte) ([]byte, error) {
	to := bytes.NewBuffer(b)
	enc := json.NewEncoder(to)
	rest := s
	rest.Rules, rest.Closed, rest.Texts, rest.Seen = nil, nil, nil, nil
	to.WriteByte('{')
	err := errors.Join(writeList(to, enc, "rules", s.Rules), writeList(to, enc, "closed", s.Closed), writeList(to, enc, "closed_texts", s.Texts))
	if len(s.Seen) > 0 {
		to.WriteString(`"seen":"`)
		to.Write(base64.StdEncoding.AppendEncode(to.AvailableBuffer(), s.Seen))
		to.WriteString(`",`)
	}
	tail, more := json.Marshal(rest)
	if err = errors.Join(err, more); err != nil {
		return b, err
	}
	to.Write(tail[1:])
	return to.Bytes(), nil
}

// writeList writes a list as a member of an object that has more members after it.
func writeList[V any](buf *bytes.Buffer, enc *json.Encoder, name string, values []V) error {
	if len(values) == 0 {
		return nil
	}
	fmt.Fprintf(buf, "%q:[", name)
	for i := range values {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := enc.Encode(values[i]); err != nil {
			return err
		}
		buf.Truncate(buf.Len() - 1) // drops the newline of the encoder
	}
	buf.WriteString("],")
	return nil
}

// New returns a state without rules. Its version is the one that Parse reads.
func New(identity []string) State { return State{Version: version, Identity: identity} }

// Parse reads the JSON of a State.
func Parse(data []byte) (s State, err error) {
	if err = json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read snapshot of episodes: %w", err)
	}
	if s.Version != version {
		return s, fmt.Errorf("read snapshot of episodes: its version is %d, but this release reads only version %d", s.Version, version)
	}
	return s, nil
}
