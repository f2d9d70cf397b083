package daemon

import (
	"time"

	"crowsnest/daemon/inforce"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// concluder draws conclusions from the hits of this process: with the engine, or in
// agent mode by sending them to an aggregator. All methods are safe for concurrent
// use.
type concluder interface {
	// Wait returns when more hits can be accepted. The caller holds no lock.
	Wait()
	// Take, AddSource, RemoveSource and AdvanceWatermark work like those of
	// episodes.Engine. The callers of Take and AdvanceWatermark hold the checkpoint
	// lock.
	Take(found []matcher.Hit, now time.Time)
	AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool)
	RemoveSource(name string)
	AdvanceWatermark(name string, t time.Time, lagging ...matcher.LaggingStream)

	// checkpoint returns the conclusions for a snapshot. The caller holds the checkpoint
	// lock for writing.
	checkpoint() checkpoint
	// saved returns the newest checkpoint that may be written: the concluder has
	// processed all hits before it.
	saved() uint64
	// Restore reads the encoded checkpoint of the previous process.
	Restore(encoded []byte, now time.Time) error
	// resume is called before the first message if a previous process left a snapshot.
	// save writes the next one.
	resume(save func())
	// release ends every Wait, now and later, because the sources stop.
	release()

	// peer returns the state of the aggregator; the zero value if there is none.
	peer() peer
	// alerts are the alerts about the aggregator.
	alerts(now time.Time) []episodes.Episode
	// report logs changes of the aggregator's state, and sends it what only this process
	// knows: its own alerts, and its rules.
	report(now time.Time, rs *inforce.Rules)
	// ahead returns the rules of which the aggregator has another version, and since
	// when.
	ahead() map[string]time.Time
}

// checkpoint is the part of a snapshot that belongs to the concluder.
type checkpoint struct {
	append func(b []byte) ([]byte, error) // the episodes as JSON; called without the lock
	seq    uint64                         // written when saved returns at least this
	lost   bool                           // hits before it were dropped: it is never written
	// letters is the newest number in the outbox of the daemon, whose conclusions it contains.
	letters uint64
	unsaved uint64 // the same of the outbox that waits for the disk
}

// peer is the state of an aggregator that concludes in place of this process.
type peer struct {
	remote     bool
	absent     string    // why hits do not reach it; "": they do
	unanswered time.Time // time since which the aggregator has not answered; zero while it answers
	blocked    bool      // reading waits for it
	unsaved    int       // bytes that this process keeps for it
}

// local concludes in this process.
type local struct{ *episodes.Engine }

func (l local) checkpoint() checkpoint {
	copied := l.Copy()
	return checkpoint{append: copied.Append}
}

func (local) Wait()                               {}
func (local) saved() uint64                       { return 0 }
func (local) resume(func())                       {}
func (local) release()                            {}
func (local) peer() peer                          { return peer{} }
func (local) alerts(time.Time) []episodes.Episode { return nil }
func (local) ahead() map[string]time.Time         { return nil }
func (local) report(time.Time, *inforce.Rules)    {}
