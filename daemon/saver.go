package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/daemon/loader"
	"crowsnest/daemon/monitor"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/state"
	"crowsnest/unknown/sentinel"
)

// saveEvery is the interval at which a changed state is written. After a kill, lines are read
// again that were read since then and during the write.
const saveEvery = 700 * time.Millisecond

// urgentEvery is how soon the state is written after a receiver that cannot detect repeats has
// accepted an alert. A kill before that notifies the receiver again.
const urgentEvery = 20 * time.Millisecond

// maxSpare is the size of the largest payload whose memory is reused for the next one.
const maxSpare = 4 << 20

// maxWaiting is the number of snapshots that wait until the concluder allows writing them: the
// next one that it will allow, and a newer one.
const maxWaiting = 2

// saver copies a snapshot every saveEvery, if anything changed, and writes it. If writing
// fails, detection continues, and the saved state stays as old as the last successful write.
type saver struct {
	dir          string      // folder of the state; "" means that nothing is saved
	folderTaken  atomic.Bool // whether another instance uses the folder
	pipe         *pipeline
	sources      []sources.Source
	receivers    []sinks.Receiver
	self         stateful           // alerts about crowsnest itself; nil if there are none
	unknown      *sentinel.Sentinel // failures that no rule describes; nil if the sentinel is off
	endedHistory *endedHistory      // ended episodes; nil if none are kept
	replica      replicator         // copy of the state in another process; nil if there is none
	outbox       *outbox            // notifications that wait for the standby; nil if there is none
	// unsavedOutbox holds notifications that wait for the disk; nil if there is none.
	unsavedOutbox *outbox
	log           zerolog.Logger
	urgent        chan struct{}

	restoredSavedAt time.Time         // when the restored state was saved
	clockLead       time.Duration     // how far this clock is ahead of the clock of the process that saved it
	stateLock       *state.HeldLock   // nil if another instance has the lock, or if locking failed
	busy            sync.Mutex        // held while the state is saved
	waiting         []waitingSnapshot // oldest first; guarded by busy
	spare           []byte            // memory for the next payload; guarded by busy

	mu      sync.Mutex
	saved   time.Time
	errors  int64
	failing monitor.SaveFailure // failures since the last successful write
	writing time.Time           // start of the write in progress; zero if there is none
}

// replicator is a copy of the state in another process.
type replicator interface {
	// Offer passes a snapshot to the copy, with the records that belong to the history.
	Offer(payload []byte, records [][]byte) (generation uint64)
	// Wait reports whether the generation is saved or need not be. It returns false if ctx ends before.
	Wait(ctx context.Context, generation uint64) bool
}

type waitingSnapshot struct {
	payload   []byte
	seq       uint64
	outboxSeq uint64 // number of the newest notification in outbox whose conclusions it contains
	unsaved   uint64 // the same number for unsavedOutbox
}

// run saves until ctx ends. The caller saves once more when everything else has stopped.
func (s *saver) run(ctx context.Context) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.urgent:
			if due == nil {
				due = time.After(urgentEvery)
			}
		case <-due:
			due = nil
			s.saveUntil(ctx)
		case <-tick.C:
			s.tryLock()
			if s.savesState() {
				s.step(ctx, false)
			} else {
				s.pipe.withCopyLock(s.updatePositions)
				s.confirm()
			}
		}
	}
}

// accept makes the next turn save the state. If a kill would notify a receiver twice, it makes
// the saver save sooner. It does not block, and is safe for concurrent use.
func (s *saver) accept(unique bool) {
	s.pipe.changed.Store(true)
	if !unique {
		return
	}
	select {
	case s.urgent <- struct{}{}:
	default:
	}
}

// savesState reports whether the state is saved at all.
func (s *saver) savesState() bool { return s.dir != "" && !s.folderTaken.Load() }

func (s *saver) lastFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.failing.Since.IsZero()
}

// save saves the state now. It counts and logs errors, because the caller cannot handle them.
func (s *saver) save() { s.saveUntil(context.Background()) }

// saveUntil saves the state now. It waits for the second process only until ctx ends.
func (s *saver) saveUntil(ctx context.Context) {
	if s.savesState() {
		s.step(ctx, true)
	}
}

// step copies a snapshot, if anything changed, and writes the newest one that the concluder
// allows. With now it always copies one, which replaces the newest if too many wait. It does
// nothing while another call is in progress, because a disk that hangs must not hang the
// callers after it.
func (s *saver) step(ctx context.Context, now bool) {
	if !s.busy.TryLock() {
		return
	}
	defer s.busy.Unlock()
	if now && len(s.waiting) == maxWaiting {
		s.waiting = s.waiting[:maxWaiting-1]
	}
	if now || len(s.waiting) < maxWaiting && (s.pipe.changed.Load() || s.lastFailed()) {
		payload, c, err := s.copyState()
		if err != nil {
			s.write(ctx, waitingSnapshot{outboxSeq: c.outboxSeq, unsaved: c.unsaved}, err)
			return
		}
		if !c.lost {
			s.waiting = append(s.waiting, waitingSnapshot{payload, c.seq, c.outboxSeq, c.unsaved})
		}
	}
	allowed, n := s.pipe.concluder.writableCheckpoint(), 0
	for n < len(s.waiting) && s.waiting[n].seq <= allowed {
		n++
	}
	if n > 0 {
		written := s.waiting[n-1]
		s.write(ctx, written, nil)
		s.waiting = append(s.waiting[:0:0], s.waiting[n:]...)
		if s.replica == nil && cap(written.payload) <= maxSpare { // the second process keeps the payload that it was offered
			s.spare = written.payload[:0]
		}
	}
}

// write writes a snapshot, or records that copying it failed with err.
func (s *saver) write(ctx context.Context, snap waitingSnapshot, err error) {
	began := s.pipe.now()
	s.mu.Lock()
	s.writing = began
	s.mu.Unlock()
	ended, bad := s.endedHistory.pendingBatch()
	both := s.replica == nil
	if s.replica != nil && err == nil {
		both = s.replica.Wait(ctx, s.replica.Offer(snap.payload, ended.Records))
	}
	if both || err != nil { // a snapshot that cannot be made must not delay notifications
		s.outbox.sendUpTo(snap.outboxSeq)
	}
	if err == nil {
		err = state.Save(s.dir, snap.payload)
	}
	s.unsavedOutbox.sendUpTo(snap.unsaved) // a disk that fails must not delay notifications
	now := s.pipe.now()
	saved := err == nil
	if bad == nil {
		ended, bad = s.endedHistory.write(ended, now)
	}
	err = errors.Join(err, bad)
	s.mu.Lock()
	was := !s.failing.Since.IsZero()
	s.writing = time.Time{}
	if saved {
		s.saved = now
	}
	if err != nil {
		s.errors++
		if s.failing.Err = err; !was {
			s.failing.Since = began
		}
	} else {
		s.failing = monitor.SaveFailure{}
	}
	s.mu.Unlock()
	if both && bad == nil {
		s.endedHistory.markWritten(ended)
	}
	if both && saved {
		s.confirm()
	}
	switch {
	case err != nil && !was:
		s.log.Error().Err(err).Msg("state cannot be saved; detection continues, but a restart will read older lines again")
	case err == nil && was:
		s.log.Info().Msg("state is saved again")
	}
}

// updatePositions calls Positions of the sources that need to know which positions are saved.
func (s *saver) updatePositions() {
	for _, src := range s.sources {
		if src.Info().Members != nil {
			src.Positions()
		}
	}
}

func (s *saver) confirm() {
	for _, src := range s.sources {
		if members := src.Info().Members; members != nil {
			members.ConfirmSaved()
		}
	}
}

func (s *saver) copyState() ([]byte, checkpoint, error) {
	snap := snapshot{Version: snapshotVersion, SavedAt: s.pipe.now().UTC(), Sources: map[string]json.RawMessage{}, Sinks: map[string]json.RawMessage{}}
	var err error
	var c checkpoint
	s.pipe.withCopyLock(func() {
		snap.Clock = s.pipe.stamps
		c = s.pipe.concluder.checkpoint()
		c.outboxSeq, c.unsaved = s.outbox.newestSeq(), s.unsavedOutbox.newestSeq()
		for _, src := range s.sources {
			if pos := src.Positions(); pos != nil {
				snap.Sources[src.Name()] = pos
			}
		}
		for _, r := range s.receivers {
			if part, ok := r.(stateful); ok && err == nil {
				snap.Sinks[r.Name()], err = part.Export()
			}
		}
		if s.self != nil && err == nil {
			snap.Self, err = s.self.Export()
		}
		if s.unknown != nil && err == nil {
			snap.Sentinel, err = s.unknown.Export()
		}
		if s.endedHistory != nil && err == nil {
			snap.History, err = s.endedHistory.Export()
		}
	})
	if err != nil {
		s.pipe.changed.Store(true)
		return nil, c, fmt.Errorf("copy state: %w", err)
	}
	payload, err := snap.appendJSON(s.spare, c.append)
	if err != nil {
		s.pipe.changed.Store(true)
		return nil, c, err
	}
	s.spare = nil
	return payload, c, nil
}

// status returns when the state was last written and how often that failed.
func (s *saver) status() (saved time.Time, errors int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved, s.errors
}

// unsavedSince returns since when saving has failed. A write in progress counts as failed.
func (s *saver) unsavedSince() monitor.SaveFailure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.Since.IsZero() && !s.writing.IsZero() {
		return monitor.SaveFailure{Since: s.writing, Err: errors.New("the write has not finished yet")}
	}
	return s.failing
}

// tryLock tries once to lock the folder, if it is not locked: because another instance had it
// at the start, the folder was not writable, or the lock was removed.
func (s *saver) tryLock() {
	once, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.lock(once) // the error is reported when the state is saved
}

// lock locks the folder, if it is not locked. It tries until ctx ends.
func (s *saver) lock(ctx context.Context) error {
	if s.dir == "" || s.stateLock != nil && s.stateLock.Valid() {
		return nil
	}
	held, err := state.Lock(ctx, s.dir)
	switch {
	case err == nil:
		s.unlock()
		s.stateLock = held
		if s.folderTaken.Swap(false) {
			s.pipe.changed.Store(true)
			s.log.Info().Msg("no other instance uses the state: saving starts now")
		}
	case errors.Is(err, state.ErrLocked):
		s.reportLockLoss(err)
	}
	return err
}

func (s *saver) reportLockLoss(err error) {
	if s.folderTaken.Swap(true) {
		return
	}
	now := s.pipe.now()
	s.mu.Lock()
	if s.failing.Since.IsZero() {
		s.failing.Since = now
	}
	s.failing.Err = err
	s.mu.Unlock()
	s.log.Error().Err(err).Msg("continuing without saving the state; retrying")
}

func (s *saver) unlock() {
	if s.stateLock != nil {
		_ = s.stateLock.Release() // Release only closes a descriptor
		s.stateLock = nil
	}
}

func (s *saver) saveRules(files []rules.File) {
	if !s.savesState() {
		return
	}
	if err := loader.SaveLastGood(s.dir, files); err != nil {
		s.log.Error().Err(err).Msg("the active rules cannot be saved; after a restart, an invalid rule file has no last valid version")
	}
}
