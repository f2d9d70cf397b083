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
	"crowsnest/daemon/state"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/unknown/sentinel"
)

// saveEvery is the interval at which a changed state is written. After a kill, the lines that were read since the last
// write, and during it, are read again.
const saveEvery = 700 * time.Millisecond

// urgentEvery is the maximum delay of a write after a receiver that cannot recognize repeats has accepted an alert. If
// the process is killed before the write, this receiver is notified again.
const urgentEvery = 20 * time.Millisecond

// maxSpare is the maximum size in bytes of a payload whose memory is reused for the next payload.
const maxSpare = 4 << 20

// maxWaiting is the maximum number of snapshots that wait until the concluder allows writing them. Two are enough,
// because they are the snapshot that the concluder allows next and a newer one.
const maxWaiting = 2

// saver copies a snapshot every saveEvery if anything has changed, and writes the snapshot to disk. If writing fails,
// detection continues, and the state of the last successful write stays on disk.
type saver struct {
	dir          string      // folder of the state; "" means that nothing is saved
	folderTaken  atomic.Bool // whether another instance uses the folder
	pipe         *pipeline
	sources      []sources.Source
	receivers    []sinks.Receiver
	self         stateful           // alerts about crowsnest itself; nil if there are none
	unknown      *sentinel.Sentinel // failures that no rule describes; nil if their detection is off
	endedHistory *endedHistory      // ended episodes; nil if none are kept
	replica      replicator         // copy of the state in the standby; nil if there is no standby
	outbox       *outbox            // notifications that wait for the standby; nil if there is no standby
	// unsavedOutbox holds notifications that wait until the state is on disk. It is nil if no sink needs it.
	unsavedOutbox *outbox
	log           zerolog.Logger
	urgent        chan struct{}

	restoredSavedAt time.Time         // time at which the restored state was saved
	clockLead       time.Duration     // time by which this clock is ahead of the clock of the process that saved the restored state
	stateLock       *state.HeldLock   // nil if another instance holds the lock, or if locking failed
	busy            sync.Mutex        // held while the state is saved
	waiting         []waitingSnapshot // snapshots that wait to be written, oldest first; guarded by busy
	spare           []byte            // memory for the next payload; guarded by busy

	mu      sync.Mutex
	saved   time.Time
	errors  int64
	failing monitor.SaveFailure // failures since the last successful write
	writing time.Time           // start of the write in progress; zero if there is none
}

// replicator sends copies of the state to another process.
type replicator interface {
	// Offer passes a snapshot to the replicator, with the history records that belong to the snapshot. It returns the
	// generation for Wait.
	Offer(payload []byte, records [][]byte) (generation uint64)
	// Wait blocks until the generation is saved or need not be saved, and returns true. It returns false if ctx ends
	// earlier.
	Wait(ctx context.Context, generation uint64) bool
}

type waitingSnapshot struct {
	payload   []byte
	seq       uint64
	outboxSeq uint64 // number of the newest notification in outbox whose episode is in the snapshot
	unsaved   uint64 // the corresponding number of a notification in unsavedOutbox
}

// run saves the state until ctx ends. The caller must save once more when everything else has stopped.
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

// accept makes the next interval save the state. If unique is set, a kill would cause a repeated notification, so
// accept makes the saver save sooner. It does not block, and is safe for concurrent use.
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

// savesState reports whether this process saves its state at all.
func (s *saver) savesState() bool { return s.dir != "" && !s.folderTaken.Load() }

func (s *saver) lastFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.failing.Since.IsZero()
}

// save saves the state now. It counts and logs errors, because the caller cannot handle them.
func (s *saver) save() { s.saveUntil(context.Background()) }

// saveUntil saves the state now. It waits for the standby no longer than ctx lasts.
func (s *saver) saveUntil(ctx context.Context) {
	if s.savesState() {
		s.step(ctx, true)
	}
}

// step copies a snapshot if anything has changed, and writes the newest snapshot that the concluder allows. If now is
// set, step always copies a snapshot, which replaces the newest waiting snapshot if too many wait. If another call is
// in progress, step does nothing, so that callers do not hang when the disk hangs.
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
		if s.replica == nil && cap(written.payload) <= maxSpare { // the replicator keeps the payload after Offer, so its memory cannot be reused
			s.spare = written.payload[:0]
		}
	}
}

// write writes a snapshot. A non-nil err is the error of copying it, which write records instead.
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
	if both || err != nil { // after an error there is no snapshot to wait for, so notifications are sent
		s.outbox.sendUpTo(snap.outboxSeq)
	}
	if err == nil {
		err = state.Save(s.dir, snap.payload)
	}
	s.unsavedOutbox.sendUpTo(snap.unsaved) // also after an error, because a broken disk must not delay notifications
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

// updatePositions passes the saved positions to the sources that need them.
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

// unsavedSince returns since when saving has failed, and why. A write in progress counts as failed from its start.
func (s *saver) unsavedSince() monitor.SaveFailure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.Since.IsZero() && !s.writing.IsZero() {
		return monitor.SaveFailure{Since: s.writing, Err: errors.New("the write has not finished yet")}
	}
	return s.failing
}

// tryLock tries once to lock the folder, unless this process holds the lock. It does not hold the lock if, at the
// start, another instance used the folder or the folder was not writable, or if the lock was removed.
func (s *saver) tryLock() {
	once, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.lock(once) // saving the state reports the same error
}

// lock locks the folder, unless it is locked already. It tries until ctx ends.
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
		s.log.Error().Err(err).Msg("the active rules cannot be saved; if a rule file is invalid after a restart, there is no valid version to use instead")
	}
}
