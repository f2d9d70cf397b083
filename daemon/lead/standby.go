package lead

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"crowsnest/internal/pause"
)

const (
	answerWithin = 30 * time.Second
	// silentAfter is the time that a response to a poll may take in addition to the leader's hold time. A leader that
	// takes longer counts as unreachable.
	silentAfter = 2 * time.Second
	keepAgain   = 2 * time.Second
	againAfter  = 250 * time.Millisecond
	maxHead     = 128 << 20
	maxPacked   = 64 << 20
)

// ErrNewer means that the leader writes checkpoints that this version cannot read.
var ErrNewer = errors.New("the leader is a newer version of crowsnest, whose state this version cannot read: upgrade this process")

// Keeper stores the data that a leader sends.
type Keeper interface {
	// Keep stores a packed checkpoint and records of its log. If whole is set, records are the whole log, otherwise
	// they are appended. When Keep returns nil, everything is on disk.
	Keep(packed []byte, records [][]byte, whole bool) error
}

// Standby copies the checkpoints of the leader. It is safe for concurrent use.
type Standby struct {
	elector *Elector
	keeper  Keeper
	version int // newest version of checkpoints that can be read
	client  *http.Client

	process string // ID of the process whose checkpoint is stored
	gen     uint64
	stamp   int64

	mu        sync.Mutex
	synced    time.Time     // time at which the standby last had the newest checkpoint; zero if never
	clockLead time.Duration // duration by which this clock was ahead of the leader's clock at the time synced
	err       error         // error of the last poll
	fetched   int64         // number of bytes received
	rules     []byte        // rule files of namespaces
	rulesID   string        // ID of rules; empty until the leader has sent them
}

// NewStandby returns a standby, which starts nothing. client must send the required credentials.
func NewStandby(e *Elector, keeper Keeper, version int, client *http.Client) *Standby {
	return &Standby{elector: e, keeper: keeper, version: version, client: client}
}

// Run copies checkpoints until ctx ends.
func (s *Standby) Run(ctx context.Context) {
	for ctx.Err() == nil {
		st := s.elector.Status()
		if st.Record.URL == "" || st.Record.Holder == "" || st.Record.Holder == st.Self {
			pause.Sleep(ctx, againAfter, nil)
			continue
		}
		// A poll after a response contains a promise not to take the lead. A poll after a failure contains no promise,
		// because a standby that repeats its promise to a dead leader would never take the lead.
		if s.stamp != 0 && !s.elector.PromiseNotToLead() {
			pause.Sleep(ctx, againAfter, nil)
			continue
		}
		err := s.pollOnce(ctx, st.Record)
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			s.stamp = 0
			s.elector.TryNow()
			pause.Sleep(ctx, againAfter, nil)
		}
	}
}

func (s *Standby) pollOnce(ctx context.Context, leader Record) error {
	h, packed, err := s.sendPoll(ctx, leader)
	if err != nil {
		return err
	}
	if h.Version > s.version {
		return ErrNewer
	}
	if h.RulesID != "" {
		s.mu.Lock()
		s.rules, s.rulesID = h.Rules, h.RulesID
		s.mu.Unlock()
	}
	if h.Size > 0 {
		if err := s.keeper.Keep(packed, h.Records, h.Whole || h.Process != s.process); err != nil {
			s.process, s.gen = "", 0
			pause.Sleep(ctx, keepAgain, nil) // the next response contains everything again
			return err
		}
		s.mu.Lock()
		s.fetched += int64(len(packed))
		s.mu.Unlock()
	}
	s.process, s.stamp = h.Process, h.Stamp
	s.gen = h.Generation
	if s.gen > 0 {
		s.mu.Lock()
		s.synced, s.clockLead = s.elector.now(), 0
		if h.Clock != 0 {
			s.clockLead = s.synced.Round(0).Sub(time.Unix(0, h.Clock))
		}
		s.mu.Unlock()
	}
	if h.Released {
		s.elector.EndPromise()
		pause.Sleep(ctx, againAfter, nil)
	}
	return nil
}

func (s *Standby) sendPoll(ctx context.Context, leader Record) (head, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	silent := time.AfterFunc(s.elector.times.holdTime()+silentAfter, cancel)
	rulesID, _ := s.Rules()
	body, err := json.Marshal(poll{ID: s.elector.self.ID, Version: s.version, Process: s.process, Generation: s.gen, Stamp: s.stamp, Rules: rulesID})
	if err != nil {
		return head{}, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, leader.URL+Path, bytes.NewReader(body))
	if err != nil {
		return head{}, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	silent.Stop()
	if err != nil {
		return head{}, nil, fmt.Errorf("fetch the state from the leader: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return head{}, nil, fmt.Errorf("fetch the state from the leader at %s: status %d: %s", leader.URL, resp.StatusCode, bytes.TrimSpace(text))
	}
	return readAnswer(resp.Body)
}

func readAnswer(r io.Reader) (h head, packed []byte, err error) {
	in := bufio.NewReader(io.LimitReader(r, maxHead))
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err != nil {
		return head{}, nil, fmt.Errorf("read the answer of the leader: %w", err)
	}
	if h.Size < 0 || h.Size > maxPacked {
		return head{}, nil, fmt.Errorf("read the answer of the leader: the leader announces a checkpoint of %d bytes, which is too large", h.Size)
	}
	packed = make([]byte, h.Size)
	if _, err := io.ReadFull(in, packed); err != nil {
		return head{}, nil, fmt.Errorf("read the answer of the leader: %w", err)
	}
	if h.Size > 0 && checksum(packed) != h.Sum {
		return head{}, nil, errors.New("read the answer of the leader: wrong checksum")
	}
	return h, packed, nil
}

// Rules returns the rule files of namespaces that the leader offers, and an identifier of these files. The identifier
// is empty until the leader has sent files. The files are read-only.
func (s *Standby) Rules() (id string, rules []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rulesID, s.rules
}

// SyncStatus describes how far the leader's state was copied to this standby.
type SyncStatus struct {
	Time      time.Time     // time at which the standby last had the newest checkpoint; zero if never
	ClockLead time.Duration // duration by which this process's clock was ahead of the leader's clock at the time Time
	Err       error         // error of the last poll
	Fetched   int64         // number of bytes received
}

// SyncStatus returns how far the leader's state was copied to this standby.
func (s *Standby) SyncStatus() SyncStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SyncStatus{s.synced, s.clockLead, s.err, s.fetched}
}
