package lead

import (
	"context"
	"errors"
	"time"
)

// Record is what the candidates agree on.
type Record struct {
	Holder  string    // identity of the leader; "": it released the lead
	URL     string    // where it serves its checkpoints
	Current []string  // identities whose disks have everything that was confirmed
	Version int       // version of the checkpoints
	Since   time.Time // when the holder took the lead
	Turns   int       // how often the lead changed
}

// ErrConflict reports that the record was replaced since it was read.
var ErrConflict = errors.New("another process replaced the record")

// Store keeps the record.
type Store interface {
	// Get returns the record and its revision; empty if there is no record.
	Get(ctx context.Context) (Record, string, error)
	// Put replaces the record of that revision, or creates it if the revision is "". It
	// returns the new revision, which differs even if the record does not. The error is
	// ErrConflict if the revision is not the newest.
	Put(ctx context.Context, rec Record, revision string) (string, error)
	// Where names the record for people.
	Where() string
}
