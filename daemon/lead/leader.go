package lead

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

const (
	// Path is the path at which a leader serves its checkpoints.
	Path = "/api/v1/checkpoints"
	// DefaultAlone is the default time for which a leader waits for an unreachable standby before it continues alone.
	DefaultAlone = 5 * time.Second
	// listEvery is the interval at which a leader updates the list of current disks in the record.
	listEvery = 250 * time.Millisecond
	maxPoll   = 4 << 10
)

type poll struct {
	ID         string `json:"id"`                // ID of the standby's state directory
	Version    int    `json:"version"`           // newest version of checkpoints that the standby can read
	Process    string `json:"process,omitempty"` // ID of the process whose checkpoint the standby has
	Generation uint64 `json:"generation"`        // generation of the checkpoint that the standby has
	Stamp      int64  `json:"stamp"`             // stamp from the leader's last response; zero if the standby promises nothing
	Rules      string `json:"rules,omitempty"`   // ID of the rule files that the standby has; empty if it has none
}

// head is the first line of the response to a poll. The packed checkpoint follows it.
type head struct {
	Process    string   `json:"process"`
	Generation uint64   `json:"generation"` // generation of the newest checkpoint; zero if there is none yet
	Stamp      int64    `json:"stamp"`
	Clock      int64    `json:"clock,omitempty"` // wall clock of the leader in nanoseconds since 1970; zero if the leader is an older version
	Version    int      `json:"version"`
	Whole      bool     `json:"whole,omitempty"` // whether Records are the whole log
	Records    [][]byte `json:"records,omitempty"`
	Size       int      `json:"size"` // size of the packed checkpoint in bytes; zero if there is no new one
	Sum        string   `json:"sum,omitempty"`
	Released   bool     `json:"released,omitempty"` // whether the leader has released the lead
	// Rules are the rule files of namespaces, and RulesID identifies them. Both are absent if the standby has them.
	Rules   []byte `json:"rules,omitempty"`
	RulesID string `json:"rules_id,omitempty"`
}

// Leader serves the checkpoints of the leading process to its standby. It is safe for concurrent use.
//
// A checkpoint is confirmed when Wait returns true for it. Then the checkpoint is also on the standby's disk, or the
// record states that the standby lacks a checkpoint.
type Leader struct {
	elector *Elector
	version int
	alone   time.Duration
	log     func() [][]byte
	process string
	started time.Time // time from which clockStamp counts
	packer  *zstd.Encoder

	mu             sync.Mutex
	changed        chan struct{} // closed when something changes
	gen            uint64        // generation of the newest checkpoint
	payload        []byte
	packed         []byte // compressed payload; nil until a standby requests it
	records        [][]byte
	confirmed      uint64 // generation of the newest confirmed checkpoint
	standby        string // ID of the connected standby; empty if there is none
	acked          uint64 // generation of the checkpoint on the standby's disk
	lastPollAt     time.Time
	behind         time.Time // time since which the standby has lacked the newest checkpoint; zero if it has it
	needed         bool      // whether a checkpoint is confirmed only when it is on the standby's disk
	listed         bool      // whether the record states that the standby has all confirmed checkpoints
	noStandbySince time.Time // time since which no standby has had all checkpoints; zero if one has them
	released       bool
	rules          []byte // rule files of namespaces in a form that only the caller interprets
	rulesID        string // hash of rules; empty until OfferRules was called
	sent           int64  // number of bytes sent to standbys
	want           func()
}

// NewLeader returns a leader that serves nothing yet. log returns the whole log of records that belongs to the newest
// checkpoint. want is called when a standby needs a checkpoint. alone is the time to wait for an unreachable standby.
func NewLeader(e *Elector, version int, alone time.Duration, log func() [][]byte, want func()) *Leader {
	packer, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)) // the options are valid, so there is no error
	return &Leader{
		elector: e, version: version, alone: alone, log: log, want: want, process: rand.Text(), started: e.now(),
		packer: packer, changed: make(chan struct{}), noStandbySince: e.now(),
	}
}

// wakeWaiting wakes the goroutines that wait for a change. The caller holds mu.
func (l *Leader) wakeWaiting() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Offer makes a checkpoint the newest one and returns its generation. records are the records that were appended to the
// log together with the checkpoint. Offer keeps references to payload and records.
func (l *Leader) Offer(payload []byte, records [][]byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gen++
	l.payload, l.packed, l.records = payload, nil, records
	if l.behind.IsZero() {
		l.behind = l.elector.now()
	}
	l.wakeWaiting()
	return l.gen
}

// OfferRules replaces the rule files of namespaces that the standby gets with its next poll. OfferRules keeps a reference
// to them.
func (l *Leader) OfferRules(rules []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules, l.rulesID = rules, checksum(rules)
}

// Wait waits until the checkpoint of a generation is confirmed. It returns false if ctx ends first.
func (l *Leader) Wait(ctx context.Context, gen uint64) bool {
	for {
		l.mu.Lock()
		if !l.needed || l.acked >= gen {
			l.confirmed = max(l.confirmed, gen)
			l.mu.Unlock()
			return true
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// Run updates the list of current disks in the record until ctx ends.
func (l *Leader) Run(ctx context.Context) {
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		l.listStandby(ctx)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// listStandby adds a standby that has all confirmed checkpoints to the list in the record. It removes an unreachable
// standby from the list.
func (l *Leader) listStandby(ctx context.Context) {
	l.mu.Lock()
	standby, away := l.standby, l.elector.now().Sub(l.lastPollAt) >= l.alone
	add := l.needed && !l.listed && !away && l.acked >= l.confirmed
	remove := l.needed && away
	if away && !l.needed {
		l.standby = ""
	}
	l.mu.Unlock()
	switch {
	case add:
		if l.elector.SetCurrent(ctx, l.elector.self.ID, standby) == nil {
			l.mu.Lock()
			l.listed, l.noStandbySince = true, time.Time{}
			l.mu.Unlock()
		}
	case remove:
		// Every candidate must know that the standby lacks a checkpoint before the leader continues alone.
		if l.elector.SetCurrent(ctx, l.elector.self.ID) == nil {
			l.mu.Lock()
			l.needed, l.listed, l.standby, l.noStandbySince = false, false, "", l.elector.now()
			l.wakeWaiting()
			l.mu.Unlock()
		}
	}
}

// AnnounceRelease informs the standby that the lead was released, so that the standby takes it without waiting.
func (l *Leader) AnnounceRelease() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	l.wakeWaiting()
}

// clockStamp returns the current time as a number that has a meaning only in this process.
func (l *Leader) clockStamp() int64 { return max(1, int64(l.elector.now().Sub(l.started))) }

// ServeHTTP responds to a poll of the standby. It waits up to Times.holdTime for a new checkpoint, but less than alone,
// because a standby that sends no poll for that long counts as unreachable.
func (l *Leader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p poll
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPoll)).Decode(&p); err != nil || p.ID == "" {
		http.Error(w, "only the standby of crowsnest may send requests to this address", http.StatusBadRequest)
		return
	}
	if p.Version < l.version { // a process that cannot read these checkpoints cannot be the standby
		writeAnswer(w, head{Version: l.version}, nil)
		return
	}
	if why := l.recordPoll(&p); why != "" {
		http.Error(w, why, http.StatusConflict)
		return
	}
	wait := time.NewTimer(min(l.elector.times.holdTime(), l.alone/2))
	defer wait.Stop()
	for {
		l.mu.Lock()
		news := l.gen > 0 && (p.Process != l.process || p.Generation < l.gen) || l.released
		changed := l.changed
		l.mu.Unlock()
		if news {
			break
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			continue
		case <-wait.C:
		}
		break
	}
	h, packed := l.pollResponse(&p)
	sent := writeAnswer(w, h, packed)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent += int64(sent)
}

func writeAnswer(w http.ResponseWriter, h head, packed []byte) int {
	line, err := json.Marshal(h)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return 0
	}
	line = append(line, '\n')
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(line)+len(packed)))
	_, _ = w.Write(line) // an error means that the standby has disconnected
	_, _ = w.Write(packed)
	return len(line) + len(packed)
}

// recordPoll records which checkpoint the standby has. It returns the reason why the standby is refused, or "".
func (l *Leader) recordPoll(p *poll) string {
	if p.ID == l.elector.self.ID {
		return "the standby uses the same state folder as the leader; give each process its own"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.elector.now()
	if l.standby != "" && l.standby != p.ID && (l.needed || now.Sub(l.lastPollAt) < l.alone) {
		return fmt.Sprintf("another standby is connected, or was until %v ago; only one is allowed", now.Sub(l.lastPollAt).Round(time.Second))
	}
	if l.standby != p.ID {
		l.standby, l.acked = p.ID, 0
	}
	l.lastPollAt = now
	if p.Process != l.process {
		if l.needed { // the standby has lost the checkpoint that it had
			l.acked, l.listed = 0, false
		}
		if l.gen == 0 {
			l.want()
		}
		return ""
	}
	if p.Stamp > 0 {
		l.elector.NotePromise(l.started.Add(time.Duration(p.Stamp)))
	}
	if p.Generation > l.gen {
		return ""
	}
	l.acked = p.Generation
	if l.gen > 0 && l.acked >= l.confirmed {
		l.needed = true
	}
	if l.acked == l.gen {
		l.behind = time.Time{}
	}
	l.wakeWaiting()
	return ""
}

// pollResponse returns the response to a poll, with everything that the standby lacks.
func (l *Leader) pollResponse(p *poll) (head, []byte) {
	l.mu.Lock()
	h := head{Process: l.process, Generation: l.gen, Stamp: l.clockStamp(), Clock: l.elector.now().UnixNano(), Version: l.version, Released: l.released}
	if p.Rules != l.rulesID {
		h.Rules, h.RulesID = l.rules, l.rulesID
	}
	has := p.Process == l.process
	if l.gen == 0 || has && p.Generation == l.gen {
		l.mu.Unlock()
		return h, nil
	}
	if l.packed == nil {
		l.packed = l.packer.EncodeAll(l.payload, nil)
	}
	packed := l.packed
	h.Records, h.Whole = l.records, !has || p.Generation != l.gen-1
	l.mu.Unlock()
	if h.Whole {
		h.Records = l.log() // it may contain records that are newer than the checkpoint, which does no harm
	}
	h.Size, h.Sum = len(packed), checksum(packed)
	return h, packed
}

// checksum detects a damaged transfer. The file on disk has a stronger checksum.
func checksum(b []byte) string { return strconv.FormatUint(xxhash.Sum64(b), 16) }

// Unpack returns the payload of a packed checkpoint. It fails if the payload is larger than maxSize bytes.
func Unpack(packed []byte, maxSize uint64) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxSize))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack a checkpoint: %w", err)
	}
	return b, nil
}

// Replication describes how far the leader's state was copied to its standby.
type Replication struct {
	Up             bool          // whether the standby has all confirmed checkpoints
	NoStandbySince time.Time     // time since which no standby has had all checkpoints; zero if one has them
	Lag            time.Duration // time for which the standby has lacked the newest checkpoint
	Sent           int64         // number of bytes sent
}

// Replication returns how far the state was copied to the standby.
func (l *Leader) Replication() Replication {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.elector.now()
	out := Replication{Up: l.listed, NoStandbySince: l.noStandbySince, Sent: l.sent}
	if !l.behind.IsZero() && l.standby != "" {
		out.Lag = max(0, now.Sub(l.behind))
	}
	return out
}
