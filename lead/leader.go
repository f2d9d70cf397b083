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
	// Path is where a leader serves its checkpoints.
	Path = "/api/v1/checkpoints"
	// DefaultAlone is how long a leader waits for a standby that is away before it goes
	// on alone.
	DefaultAlone = 5 * time.Second
	// listEvery is how often a leader tries to change the record.
	listEvery = 250 * time.Millisecond
	maxPoll   = 4 << 10
)

// poll is what a standby sends.
type poll struct {
	ID         string `json:"id"`                // ID of the standby's disk
	Version    int    `json:"version"`           // newest version of checkpoints that the standby can read
	Process    string `json:"process,omitempty"` // process of the leader whose checkpoint the standby has
	Generation uint64 `json:"generation"`        // generation of that checkpoint
	Stamp      int64  `json:"stamp"`             // timestamp of the leader's last response; zero if the standby promises nothing
}

// head is the first line of an answer. The packed checkpoint follows it.
type head struct {
	Process    string   `json:"process"`
	Generation uint64   `json:"generation"` // zero if there is no checkpoint yet
	Stamp      int64    `json:"stamp"`
	Clock      int64    `json:"clock,omitempty"` // the leader's clock in nanoseconds since 1970; zero from an older leader
	Version    int      `json:"version"`
	Whole      bool     `json:"whole,omitempty"` // Records are the whole log
	Records    [][]byte `json:"records,omitempty"`
	Size       int      `json:"size"` // zero if nothing is new
	Sum        string   `json:"sum,omitempty"`
	Released   bool     `json:"released,omitempty"` // the leader has stopped
}

// Leader serves the checkpoints of a leader to its standby. Safe for concurrent use.
//
// A checkpoint is confirmed when Wait returns true for it: it is on the disk of the standby
// as well, or the record says that the standby lacks it.
type Leader struct {
	elector *Elector
	version int
	alone   time.Duration
	log     func() [][]byte
	process string
	started time.Time // the origin of stamps
	packer  *zstd.Encoder

	mu        sync.Mutex
	changed   chan struct{} // closed at each change
	gen       uint64        // generation of the newest checkpoint
	payload   []byte
	packed    []byte // payload, once a standby asked for it
	records   [][]byte
	confirmed uint64 // the newest confirmed checkpoint
	standby   string // id; empty if none is connected
	acked     uint64 // on its disk
	heard     time.Time
	behind    time.Time // time since which the standby has lacked a checkpoint; zero if it has the newest
	needed    bool      // confirming waits for it
	listed    bool      // the record says that it has everything
	lonely    time.Time // time since which no standby has had everything
	released  bool
	sent      int64 // bytes
	want      func()
}

// NewLeader returns a leader that serves nothing yet. log returns the whole log of records
// that belongs to the checkpoints; want asks for a checkpoint. alone is how long to wait
// for a standby that is away.
func NewLeader(e *Elector, version int, alone time.Duration, log func() [][]byte, want func()) *Leader {
	packer, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)) // the options are valid
	return &Leader{
		elector: e, version: version, alone: alone, log: log, want: want, process: rand.Text(), started: e.now(),
		packer: packer, changed: make(chan struct{}), lonely: e.now(),
	}
}

// broadcast wakes who waits for a change. The caller holds mu.
func (l *Leader) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Offer makes a checkpoint the newest, with the records that join the log with it, and
// returns its generation. It keeps both.
func (l *Leader) Offer(payload []byte, records [][]byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gen++
	l.payload, l.packed, l.records = payload, nil, records
	if l.behind.IsZero() {
		l.behind = l.elector.now()
	}
	l.broadcast()
	return l.gen
}

// Wait returns true once the checkpoint of that generation is confirmed, and false if ctx
// ends before.
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

// Run maintains the list of who has everything until ctx ends.
func (l *Leader) Run(ctx context.Context) {
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		l.list(ctx)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// list adds a standby that has everything to the record, or removes one that is away.
func (l *Leader) list(ctx context.Context) {
	l.mu.Lock()
	standby, away := l.standby, l.elector.now().Sub(l.heard) >= l.alone
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
			l.listed, l.lonely = true, time.Time{}
			l.mu.Unlock()
		}
	case remove:
		// Nothing is confirmed without it before every candidate knows that it lacks it.
		if l.elector.SetCurrent(ctx, l.elector.self.ID) == nil {
			l.mu.Lock()
			l.needed, l.listed, l.standby, l.lonely = false, false, "", l.elector.now()
			l.broadcast()
			l.mu.Unlock()
		}
	}
}

// Released makes the standby take the lead without waiting. The caller has released it.
func (l *Leader) Released() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	l.broadcast()
}

// stamp returns the clock as a number that only this process understands.
func (l *Leader) stamp() int64 { return max(1, int64(l.elector.now().Sub(l.started))) }

// ServeHTTP answers a poll of the standby, which is authenticated. It waits for something
// new, for Times.hold.
func (l *Leader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p poll
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPoll)).Decode(&p); err != nil || p.ID == "" {
		http.Error(w, "this address is for the standby of crowsnest", http.StatusBadRequest)
		return
	}
	if p.Version < l.version { // a process that cannot read these checkpoints is no standby
		writeAnswer(w, head{Version: l.version}, nil)
		return
	}
	if why := l.admit(&p); why != "" {
		http.Error(w, why, http.StatusConflict)
		return
	}
	wait := time.NewTimer(l.elector.times.hold())
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
	h, packed := l.answer(&p)
	sent := writeAnswer(w, h, packed)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent += int64(sent)
}

// writeAnswer returns how many bytes it wrote.
func writeAnswer(w http.ResponseWriter, h head, packed []byte) int {
	line, err := json.Marshal(h)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return 0
	}
	line = append(line, '\n')
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(line)+len(packed)))
	_, _ = w.Write(line) // the standby may be gone
	_, _ = w.Write(packed)
	return len(line) + len(packed)
}

// admit records what a standby has. It returns why it is refused.
func (l *Leader) admit(p *poll) string {
	if p.ID == l.elector.self.ID {
		return "the standby has the state folder of the leader: give each its own"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.elector.now()
	if l.standby != "" && l.standby != p.ID && (l.needed || now.Sub(l.heard) < l.alone) {
		return fmt.Sprintf("another standby is connected, or was until %v ago: one is enough", now.Sub(l.heard).Round(time.Second))
	}
	if l.standby != p.ID {
		l.standby, l.acked = p.ID, 0
	}
	l.heard = now
	if p.Process != l.process {
		if l.needed { // the standby lost what it had
			l.acked, l.listed = 0, false
		}
		if l.gen == 0 {
			l.want()
		}
		return ""
	}
	if p.Stamp > 0 {
		l.elector.Promised(l.started.Add(time.Duration(p.Stamp)))
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
	l.broadcast()
	return ""
}

// answer returns what the standby lacks.
func (l *Leader) answer(p *poll) (head, []byte) {
	l.mu.Lock()
	h := head{Process: l.process, Generation: l.gen, Stamp: l.stamp(), Clock: l.elector.now().UnixNano(), Version: l.version, Released: l.released}
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
		h.Records = l.log() // what joined it meanwhile does no harm
	}
	h.Size, h.Sum = len(packed), sumOf(packed)
	return h, packed
}

// sumOf detects a damaged transfer. The file on the disk has a stronger checksum.
func sumOf(b []byte) string { return strconv.FormatUint(xxhash.Sum64(b), 16) }

// Unpack returns the payload of a packed checkpoint of at most maxSize bytes.
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

// Replication is the state of a leader's standby.
type Replication struct {
	Up      bool          // reports whether the standby has everything that is confirmed
	Standby string        // identity; empty if none is connected
	Lonely  time.Time     // time since which no standby has had everything; zero if one does
	Lag     time.Duration // time for which the standby has lacked a checkpoint
	Sent    int64         // bytes
}

// Replication returns the state of the standby.
func (l *Leader) Replication() Replication {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.elector.now()
	out := Replication{Up: l.listed, Standby: l.standby, Lonely: l.lonely, Sent: l.sent}
	if !l.behind.IsZero() && l.standby != "" {
		out.Lag = max(0, now.Sub(l.behind))
	}
	return out
}
