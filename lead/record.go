package lead

import (
	"context"
	"errors"
	"time"
)

// Record is the state on which the candidates agree.
type Record struct {
	Holder  string    // ID of the leader; "" if it has released the lead
	URL     string    // address at which the leader serves its checkpoints
	Current []string  // IDs of the disks that have everything that was confirmed
	Version int       // version of the leader's checkpoints
	Since   time.Time // time at which the leader took the lead
	Turns   int       // number of changes of the leader
}

// ErrConflict means that the record was replaced after it was read.
var ErrConflict = errors.New("another process replaced the record")

// Store keeps the record of an election.
type Store interface {
	// Get returns the record and its revision. The revision is "" if there is no record.
	Get(ctx context.Context) (Record, string, error)
	// Put replaces the record of this revision, or creates a record if the revision is "". It
	// returns the new revision, which differs even if the content does not. The error is
	// ErrConflict if the revision is not the newest one.
	Put(ctx context.Context, rec Record, revision string) (string, error)
	// Where returns the name of the record for people.
	Where() string
}
