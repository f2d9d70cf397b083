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
	// Lease is how long the record must be unchanged before another candidate may
	// take the lead.
	Lease time.Duration
	// Renew is how long a renewal of the record allows to lead, and for how long a
	// standby promises not to take the lead. It is shorter than Lease.
	Renew time.Duration
	// Retry is how often the record is read or renewed.
	Retry time.Duration
	// Grace is how much longer a candidate waits that lacks something that was
	// confirmed: a process that has it may come back.
	Grace time.Duration
	// Empty is how long a candidate without any state waits if there is no record: the
	// other one may have state.
	Empty time.Duration
}

// DefaultTimes are those of the components of Kubernetes.
var DefaultTimes = Times{Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second, Grace: time.Minute, Empty: 10 * time.Second}

// hold is how long a poll waits for a new checkpoint: the standby's promise, which a poll
// renews, must not run out.
func (t Times) hold() time.Duration { return t.Renew / 5 }

// promiseMargin is by how much the leader trusts a promise shorter than it was given:
// the clocks of two machines differ in speed.
const promiseMargin = 500 * time.Millisecond

// Candidate describes this process.
type Candidate struct {
	ID      string // ID of the process's disk, which survives a restart and is lost with the disk
	URL     string // where it serves its checkpoints while it leads
	Version int    // version of the checkpoints that the process writes
	State   bool   // its disk has a state
}

// Elector takes part in the election. Safe for concurrent use.
type Elector struct {
	store Store
	self  Candidate
	times Times
	now   func() time.Time
	kick  chan struct{}
	won   chan struct{} // closed when this process takes the lead
	lost  chan struct{} // closed when another process took it

	turn sync.Mutex // held during a request to the store

	mu       sync.Mutex
	rec      Record
	revision string
	seen     time.Time // when this revision was first seen
	known    bool      // a record was read or written
	leads    bool      // this process wrote the newest record that it knows
	taking   bool      // reports whether the process is writing a record by which it leads
	over     bool      // the lead was lost or released for good
	renewed  time.Time // before the last write that succeeded
	promised time.Time // time from which the standby's last promise counts
	bound    time.Time // time at which our promise to the leader began; zero if there is none
	err      error     // error of the last attempt
	reached  time.Time // when the store last answered
}

// NewElector returns an elector. It starts nothing. now is nil for time.Now.
func NewElector(store Store, self Candidate, times Times, now func() time.Time) *Elector {
	if now == nil {
		now = time.Now
	}
	return &Elector{
		store: store, self: self, times: times, now: now,
		kick: make(chan struct{}, 1), won: make(chan struct{}), lost: make(chan struct{}),
	}
}

// Run tries to take the lead, and then keeps it, until ctx ends.
func (e *Elector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		e.attempt(ctx)
		pause.Sleep(ctx, e.times.Retry, e.kick)
	}
}

// Kick makes Run try now.
func (e *Elector) Kick() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// Won is closed when this process takes the lead.
func (e *Elector) Won() <-chan struct{} { return e.won }

// Lost is closed when another process took the lead from this one.
func (e *Elector) Lost() <-chan struct{} { return e.lost }

// Leads reports whether this process may accept, conclude and notify now. It asks nobody:
// after a pause of any length it is right at once.
func (e *Elector) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading(e.now())
}

// leading reports whether this process leads. The caller holds mu.
func (e *Elector) leading(now time.Time) bool {
	if !e.leads || e.over {
		return false
	}
	return elapsed(e.renewed, now) < e.times.Renew ||
		!e.promised.IsZero() && elapsed(e.promised, now) < e.times.Renew-promiseMargin
}

// elapsed returns the time between two readings of the clock. It trusts the clock that ran
// further: the monotonic one may stand still while a machine sleeps, and the other one can
// be set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// Promised records that the standby will not take the lead for Times.Renew after a time
// at which it had not made the promise yet.
func (e *Elector) Promised(after time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if after.After(e.promised) {
		e.promised = after
	}
}

// Promise makes this process not take the lead for Times.Renew. It returns false, and
// promises nothing, if this process took the lead or is about to.
func (e *Elector) Promise() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leads || e.over || e.taking {
		return false
	}
	e.bound = e.now()
	return true
}

// Withdraw ends a promise because the leader released the lead.
func (e *Elector) Withdraw() {
	e.mu.Lock()
	e.bound = time.Time{}
	e.mu.Unlock()
	e.Kick()
}

// attempt renews the record if this process leads, and otherwise reads it and takes the
// lead if that is allowed.
func (e *Elector) attempt(ctx context.Context) {
	e.turn.Lock()
	defer e.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, e.times.Renew/2)
	defer cancel()
	e.mu.Lock()
	leads, over, rec := e.leads, e.over, e.rec
	e.mu.Unlock()
	var err error
	switch {
	case over:
		return
	case leads:
		err = e.write(ctx, rec)
	default:
		err = e.campaign(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// campaign reads the record, and takes the lead if that is allowed.
func (e *Elector) campaign(ctx context.Context) error {
	if err := e.read(ctx); err != nil {
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
	return e.write(ctx, Record{
		Holder: e.self.ID, URL: e.self.URL, Current: []string{e.self.ID}, Version: e.self.Version,
		Since: e.now().UTC(), Turns: rec.Turns + 1,
	})
}

// read reads the record.
func (e *Elector) read(ctx context.Context) error {
	rec, revision, err := e.store.Get(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.reached = now
	if revision != e.revision || e.seen.IsZero() {
		e.seen = now
	}
	if e.revision = revision; revision != "" {
		e.rec, e.known = rec, true // what a record said that was removed is remembered
	}
	return nil
}

// mayTake reports whether this process may take the lead. The caller holds mu.
func (e *Elector) mayTake(now time.Time) bool {
	// Only the monotonic clock decides. It may stand still while a machine sleeps, and waiting too long is safe. The
	// wall clock can be set back by a day.
	quiet := now.Sub(e.seen)
	if !e.bound.IsZero() && now.Sub(e.bound) < e.times.Renew {
		return false
	}
	if !e.known {
		return e.self.State || quiet >= e.times.Empty
	}
	wait := e.times.Lease
	if e.revision != "" {
		switch e.rec.Holder {
		case e.self.ID: // an earlier process with this disk, which has ended
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

// write replaces the record by one that this process leads by. The caller holds turn.
func (e *Elector) write(ctx context.Context, rec Record) error {
	e.mu.Lock()
	revision, began := e.revision, e.now()
	e.mu.Unlock()
	next, err := e.store.Put(ctx, rec, revision)
	if errors.Is(err, ErrConflict) {
		return e.resolve(ctx)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rec, e.revision, e.seen, e.known, e.reached = rec, next, e.now(), true, e.now()
	if rec.Holder != e.self.ID {
		return nil
	}
	e.renewed = began
	if !e.leads && !e.over {
		e.leads = true
		close(e.won)
	}
	return nil
}

// resolve reads the record that another process wrote or removed.
func (e *Elector) resolve(ctx context.Context) error {
	e.mu.Lock()
	was, mine := e.leads, e.rec
	e.mu.Unlock()
	if err := e.read(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !was || e.over:
	case e.revision == "":
		e.rec = mine // the record was removed, so the next attempt creates it
	case e.rec.Holder != e.self.ID:
		e.leads, e.over = false, true
		close(e.lost)
	default:
		e.rec = mine // an answer was lost, or somebody edited it
	}
	return nil
}

// SetCurrent records whose disks have everything that was confirmed. When it returns nil,
// every candidate knows it.
func (e *Elector) SetCurrent(ctx context.Context, ids ...string) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, e.times.Renew/2)
	defer cancel()
	e.mu.Lock()
	rec, leads := e.rec, e.leads && !e.over
	e.mu.Unlock()
	if !leads {
		return errors.New("this process does not lead")
	}
	rec.Current = ids
	if err := e.write(ctx, rec); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || !slices.Equal(e.rec.Current, ids) {
		return ErrConflict
	}
	return nil
}

// Release gives up the lead: from now on Leads returns false, and another process may lead
// at once. Without a lead it does nothing.
func (e *Elector) Release(ctx context.Context) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.mu.Lock()
	rec, leads := e.rec, e.leads && !e.over
	e.over = true
	e.mu.Unlock()
	if !leads {
		return nil
	}
	rec.Holder = ""
	return e.write(ctx, rec)
}

// Status is the state of an election.
type Status struct {
	Leads   bool
	Self    string // identity of this process
	Record  Record // as last read or written; the zero value: there is none
	Where   string // the record
	Err     error  // error of the last request
	Reached time.Time
	// Promised is set if this process leads only because its standby promised not to
	// take the lead: the record cannot be renewed.
	Promised bool
}

// Status returns the state of the election.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	leads := e.leading(now)
	rec := e.rec
	rec.Current = slices.Clone(rec.Current)
	return Status{
		Leads: leads, Self: e.self.ID, Record: rec, Where: e.store.Where(), Err: e.err, Reached: e.reached,
		Promised: leads && elapsed(e.renewed, now) >= e.times.Renew,
	}
}
