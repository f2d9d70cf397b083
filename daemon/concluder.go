package daemon

import (
	"time"

	"crowsnest/daemon/inforce"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// concluder turns the hits of this process into conclusions about failures. It is either the local engine or, in agent
// mode, a client that sends the hits to an aggregator. All methods are safe for concurrent use.
type concluder interface {
	// Wait blocks until more hits can be accepted. The caller must not hold a lock.
	Wait()
	// Take, AddSource, RemoveSource and AdvanceWatermark work like those of episodes.Engine. The callers of
	// Take and AdvanceWatermark hold the checkpoint lock.
	Take(found []matcher.Hit, now time.Time)
	AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool)
	RemoveSource(name string)
	AdvanceWatermark(name string, t time.Time, lagging ...matcher.LaggingStream)

	// checkpoint returns the part of a snapshot that holds the conclusions. The caller must hold the checkpoint lock
	// for writing.
	checkpoint() checkpoint
	// writableCheckpoint returns the number of the newest checkpoint that may be written to disk. All hits before this
	// checkpoint have been processed.
	writableCheckpoint() uint64
	// Restore reads the encoded checkpoint of a previous process.
	Restore(encoded []byte, now time.Time) error
	// resume is called before the first message after a restart. The function save writes the next snapshot.
	resume(save func())
	// release makes all current and future calls of Wait return, because the sources are stopping.
	release()

	// aggregatorState returns the state of the aggregator, or the zero value if there is none.
	aggregatorState() aggregatorState
	// alerts returns the alerts about the aggregator.
	alerts(now time.Time) []episodes.Episode
	// report logs changes of the aggregator's state, and sends the alerts and rules of this process to the aggregator.
	report(now time.Time, rs *inforce.Rules)
	// mismatchedRules returns the names of the rules of which the aggregator has another version, with the time since
	// when.
	mismatchedRules() map[string]time.Time
}

// checkpoint is the concluder's part of a snapshot.
type checkpoint struct {
	append func(b []byte) ([]byte, error) // appends the episodes as JSON; called without the lock
	seq    uint64                         // checkpoint number; the checkpoint may be written once writableCheckpoint returns at least seq
	lost   bool                           // whether hits before the checkpoint were dropped, so that the checkpoint must never be written
	// outboxSeq is the number of the newest notification in the outbox whose episode is in the checkpoint.
	outboxSeq uint64
	unsaved   uint64 // the corresponding number of a notification in the outbox that waits for the disk
}

// aggregatorState is the state of the aggregator that receives the hits of this process.
type aggregatorState struct {
	remote       bool
	absent       string    // reason why hits do not reach the aggregator; "" if they do
	unanswered   time.Time // start of the time without an answer from the aggregator; zero while the aggregator answers
	blocked      bool      // whether reading is paused until the aggregator accepts hits again
	unackedBytes int       // number of bytes that the aggregator has not acknowledged and that this process therefore keeps
}

// local is a concluder whose engine runs in this process.
type local struct{ *episodes.Engine }

func (l local) checkpoint() checkpoint {
	copied := l.Copy()
	return checkpoint{append: copied.Append}
}

func (local) Wait()                                 {}
func (local) writableCheckpoint() uint64            { return 0 }
func (local) resume(func())                         {}
func (local) release()                              {}
func (local) aggregatorState() aggregatorState      { return aggregatorState{} }
func (local) alerts(time.Time) []episodes.Episode   { return nil }
func (local) mismatchedRules() map[string]time.Time { return nil }
func (local) report(time.Time, *inforce.Rules)      {}
