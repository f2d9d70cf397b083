package daemon

import (
	"time"

	"crowsnest/daemon/inforce"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// concluder draws conclusions from the hits of this process. It is the engine, or in agent mode
// it sends the hits to an aggregator. All methods are safe for concurrent use.
type concluder interface {
	// Wait returns when more hits can be accepted. The caller must hold no lock.
	Wait()
	// Take, AddSource, RemoveSource and AdvanceWatermark work like those of episodes.Engine. The callers of
	// Take and AdvanceWatermark hold the checkpoint lock.
	Take(found []matcher.Hit, now time.Time)
	AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool)
	RemoveSource(name string)
	AdvanceWatermark(name string, t time.Time, lagging ...matcher.LaggingStream)

	// checkpoint returns the conclusions for a snapshot. The caller holds the checkpoint lock for writing.
	checkpoint() checkpoint
	// writableCheckpoint returns the number of the newest checkpoint that may be written: all hits before it are processed.
	writableCheckpoint() uint64
	// Restore reads the encoded checkpoint of a previous process.
	Restore(encoded []byte, now time.Time) error
	// resume is called before the first message after a restart. save writes the next snapshot.
	resume(save func())
	// release makes every Wait return, now and in the future, because the sources stop.
	release()

	// aggregatorState returns the state of the aggregator, or the zero value if there is none.
	aggregatorState() aggregatorState
	// alerts returns the alerts about the aggregator.
	alerts(now time.Time) []episodes.Episode
	// report logs changes of the aggregator's state, and sends it the alerts and rules of this process.
	report(now time.Time, rs *inforce.Rules)
	// mismatchedRules returns the rules of which the aggregator has another version, and since when.
	mismatchedRules() map[string]time.Time
}

// checkpoint is the concluder's part of a snapshot.
type checkpoint struct {
	append func(b []byte) ([]byte, error) // appends the episodes as JSON; called without the lock
	seq    uint64                         // the checkpoint may be written when saved returns at least seq
	lost   bool                           // whether hits before it were dropped, so that it must never be written
	// outboxSeq is the number of the newest notification in the outbox whose conclusions the checkpoint has.
	outboxSeq uint64
	unsaved   uint64 // unsaved is that number for the outbox that waits for the disk
}

// aggregatorState is the state of the aggregator that draws the conclusions of this process.
type aggregatorState struct {
	remote       bool
	absent       string    // reason why hits do not reach it; "" if they do
	unanswered   time.Time // start of the time in which the aggregator has not answered; zero while it answers
	blocked      bool      // whether reading waits for it
	unackedBytes int       // bytes that this process keeps for it
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
