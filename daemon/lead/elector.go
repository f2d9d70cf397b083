package lead

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/pause"
)

// Times are the durations of an election.
type Times struct {
	// Lease is the time for which the record must be unchanged before another candidate may take the lead.
	Lease time.Duration
	// Renew is the time for which a process may lead after it renewed the record. It is also the time for which a
	// standby's promise not to take the lead is valid. It is shorter than Lease.
	Renew time.Duration
	// Retry is the interval at which the record is read or renewed.
	Retry time.Duration
	// Grace is the additional time for which a candidate that lacks a confirmed checkpoint waits for a process that has
	// it.
	Grace time.Duration
	// Empty is the time for which a candidate without state waits if there is no record, because the other process may
	// have state.
	Empty time.Duration
}

// DefaultTimes are the defaults of the components of Kubernetes.
var DefaultTimes = Times{Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second, Grace: time.Minute, Empty: 10 * time.Second}

// holdTime returns the time for which the leader delays its response to a poll until there is a new checkpoint. It is
// short, because each poll renews the standby's promise, which must not expire.
func (t Times) holdTime() time.Duration { return t.Renew / 5 }

// promiseMargin is the time by which the leader treats a promise as shorter, because clocks differ in speed.
const promiseMargin = 500 * time.Millisecond

// Candidate describes this process in the election.
type Candidate struct {
	ID      string // ID of the process's state directory, which survives a restart of the process
	URL     string // address at which the process serves its checkpoints while it leads
	Version int    // version of the checkpoints that it writes
	State   bool   // whether the state directory contains state
}

// Elector takes part in the election for one process. It is safe for concurrent use.
type Elector struct {
	store Store
	self  Candidate
	times Times
	now   func() time.Time
	wake  chan struct{}
	won   chan struct{} // closed when this process takes the lead
	lost  chan struct{} // closed when another process has taken the lead from this one

	turn sync.Mutex // held during a request to the store

	mu             sync.Mutex
	rec            Record
	revision       string
	revisionSeenAt time.Time // time at which the current revision was first seen
	known          bool      // whether a record was ever read or written
	leads          bool      // whether this process wrote the newest known record as the leader
	taking         bool      // whether this process is writing a record to take the lead
	ended          bool      // whether the lead was finally lost or released
	renewed        time.Time // time just before the last successful write
	promised       time.Time // time from which the newest promise of the standby counts
	bound          time.Time // start of this process's promise to the leader; zero if there is none
	err            error     // error of the last attempt
}

// NewElector returns an elector. It starts nothing. If now is nil, time.Now is used.
func NewElector(store Store, self Candidate, times Times, now func() time.Time) *Elector {
	if now == nil {
		now = time.Now
	}
	return &Elector{
		store: store, self: self, times: times, now: now,
		wake: make(chan struct{}, 1), won: make(chan struct{}), lost: make(chan struct{}),
	}
}

// Run tries to take the lead, and then to keep it, until ctx ends.
func (e *Elector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		e.renewOrCampaign(ctx)
		pause.Sleep(ctx, e.times.Retry, e.wake)
	}
}

// TryNow makes Run try immediately.
func (e *Elector) TryNow() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Won returns a channel that is closed when this process takes the lead.
func (e *Elector) Won() <-chan struct{} { return e.won }

// Lost returns a channel that is closed when another process has taken the lead from this one.
func (e *Elector) Lost() <-chan struct{} { return e.lost }

// IsLeading reports whether this process may now accept lines, draw conclusions and notify. It depends only on the
// clock, so it is right even immediately after a long pause of the process.
func (e *Elector) IsLeading() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if !e.leads || e.ended {
		return false
	}
	return timeBetween(e.renewed, now) < e.times.Renew ||
		!e.promised.IsZero() && timeBetween(e.promised, now) < e.times.Renew-promiseMargin
}

// timeBetween returns the time between two readings of the clock. It returns the difference by the monotonic clock or
// by the wall clock, whichever is larger. The monotonic clock may stand still while a machine sleeps, and the wall
// clock can be set back.
func timeBetween(earlier, later time.Time) time.Duration {
	return max(later.Sub(earlier), later.Round(0).Sub(earlier.Round(0)))
}

// NotePromise records a promise of the standby not to take the lead for Times.Renew. The standby made the promise later
// than after, so Times.Renew is counted from after.
func (e *Elector) NotePromise(after time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if after.After(e.promised) {
		e.promised = after
	}
}

// PromiseNotToLead promises that this process will not take the lead for Times.Renew. It
// returns false and promises nothing if this process has taken the lead or is taking it.
func (e *Elector) PromiseNotToLead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leads || e.ended || e.taking {
		return false
	}
	e.bound = e.now()
	return true
}

// EndPromise ends the promise, because the leader has released the lead.
func (e *Elector) EndPromise() {
	e.mu.Lock()
	e.bound = time.Time{}
	e.mu.Unlock()
	e.TryNow()
}

// renewOrCampaign renews the record if this process leads. Otherwise it reads the record, and takes the lead if it may.
func (e *Elector) renewOrCampaign(ctx context.Context) {
	e.turn.Lock()
	defer e.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, e.times.Renew/2)
	defer cancel()
	e.mu.Lock()
	leads, over, rec := e.leads, e.ended, e.rec
	e.mu.Unlock()
	var err error
	switch {
	case over:
		return
	case leads:
		err = e.writeRecord(ctx, rec)
	default:
		err = e.campaign(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// campaign reads the record and takes the lead if it may.
func (e *Elector) campaign(ctx context.Context) error {
	if err := e.readRecord(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	rec, take := e.rec, e.mayTake(e.now())
	e.taking = take
	e.mu.Unlock()
	if !take {
		return nil
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.taking = false
	}()
	return e.writeRecord(ctx, Record{
		Holder: e.self.ID, URL: e.self.URL, Current: []string{e.self.ID}, Version: e.self.Version,
		Since: e.now().UTC(), Turns: rec.Turns + 1,
	})
}

func (e *Elector) readRecord(ctx context.Context) error {
	rec, revision, err := e.store.Get(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if revision != e.revision || e.revisionSeenAt.IsZero() {
		e.revisionSeenAt = e.now()
	}
	if e.revision = revision; revision != "" {
		e.rec, e.known = rec, true // after the record was removed, its last content is still known
	}
	return nil
}

// mayTake reports whether this process may take the lead at now. The caller holds mu.
func (e *Elector) mayTake(now time.Time) bool {
	// Only the monotonic clock is used. It may stand still while a machine sleeps, but waiting too long is safe.
	// Somebody could set the wall clock ahead by a day.
	quiet := now.Sub(e.revisionSeenAt)
	if !e.bound.IsZero() && now.Sub(e.bound) < e.times.Renew {
		return false
	}
	if !e.known {
		return e.self.State || quiet >= e.times.Empty
	}
	wait := e.times.Lease
	if e.revision != "" {
		switch e.rec.Holder {
		case e.self.ID: // the holder was an earlier process with the same state directory, which has ended
			return true
		case "":
			wait = 0
		}
	}
	if !slices.Contains(e.rec.Current, e.self.ID) {
		wait += e.times.Grace
	}
	return quiet >= wait
}

// writeRecord replaces the record by rec. If rec names this process, this process leads from then on. The caller holds
// turn.
func (e *Elector) writeRecord(ctx context.Context, rec Record) error {
	e.mu.Lock()
	revision, began := e.revision, e.now()
	e.mu.Unlock()
	next, err := e.store.Put(ctx, rec, revision)
	if errors.Is(err, ErrConflict) {
		return e.readConflict(ctx)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rec, e.revision, e.revisionSeenAt, e.known = rec, next, e.now(), true
	if rec.Holder != e.self.ID {
		return nil
	}
	e.renewed = began
	if !e.leads && !e.ended {
		e.leads = true
		close(e.won)
	}
	return nil
}

// readConflict reads the record after another process has written or removed it.
func (e *Elector) readConflict(ctx context.Context) error {
	e.mu.Lock()
	was, mine := e.leads, e.rec
	e.mu.Unlock()
	if err := e.readRecord(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !was || e.ended:
	case e.revision == "":
		e.rec = mine // the record was removed, so the next attempt creates it again
	case e.rec.Holder != e.self.ID:
		e.leads, e.ended = false, true
		close(e.lost)
	default:
		e.rec = mine // the response to our write was lost, or a person edited the record
	}
	return nil
}

// SetCurrent stores in the record the IDs of the processes whose disks have all confirmed checkpoints. When it returns
// nil, all candidates use this list.
func (e *Elector) SetCurrent(ctx context.Context, ids ...string) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, e.times.Renew/2)
	defer cancel()
	e.mu.Lock()
	rec, leads := e.rec, e.leads && !e.ended
	e.mu.Unlock()
	if !leads {
		return errors.New("this process is not the leader")
	}
	rec.Current = ids
	if err := e.writeRecord(ctx, rec); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || !slices.Equal(e.rec.Current, ids) {
		return ErrConflict
	}
	return nil
}

// Release gives up the lead. From then on, IsLeading returns false, and another process may
// take the lead immediately. If this process does not lead, Release does nothing.
func (e *Elector) Release(ctx context.Context) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.mu.Lock()
	rec, leads := e.rec, e.leads && !e.ended
	e.ended = true
	e.mu.Unlock()
	if !leads {
		return nil
	}
	rec.Holder = ""
	return e.writeRecord(ctx, rec)
}

// Status is the state of an election.
type Status struct {
	Self   string // ID of this process
	Record Record // record that was last read or written; the zero value means that there is none
	Where  string // name of the record, such as the Lease, for people
	Err    error  // error of the last attempt
}

// Status returns the state of the election.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	rec := e.rec
	rec.Current = slices.Clone(rec.Current)
	return Status{Self: e.self.ID, Record: rec, Where: e.store.Where(), Err: e.err}
}

// Record is the state on which the candidates agree.
type Record struct {
	Holder  string    // ID of the leader; "" if the leader has released the lead
	URL     string    // address at which the leader serves its checkpoints
	Current []string  // IDs of the processes whose disks have all confirmed checkpoints
	Version int       // version of the leader's checkpoints
	Since   time.Time // time at which the leader took the lead
	Turns   int       // number of changes of the leader
}

// ErrConflict means that the record was replaced after it was read.
var ErrConflict = errors.New("another process changed the leader record at the same time")

// Store keeps the record of an election.
type Store interface {
	// Get returns the record and its revision. The revision is "" if there is no record.
	Get(ctx context.Context) (Record, string, error)
	// Put replaces the record of this revision. If the revision is "", Put creates a record. Put returns the new
	// revision, which differs even if the content does not. The error is ErrConflict if the revision is not the newest
	// one.
	Put(ctx context.Context, rec Record, revision string) (string, error)
	// Where returns the name of the record for people.
	Where() string
}
