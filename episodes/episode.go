package episodes

import (
	"fmt"
	"time"

	"crowsnest/redact"
	"crowsnest/rules"
)

// State is the state of an episode.
type State string

// The states. An episode that was pending and ended without firing is
// reported as StateDropped.
const (
	StatePending  State = "pending"
	StateFiring   State = "firing"
	StateResolved State = "resolved"
	StateDropped  State = "dropped"
	// StateUnwatched is shown to people for an episode that was resolved with ReasonDisplaced;
	// see ShownState.
	StateUnwatched State = "unwatched"
)

// Reason is the reason why an episode ended.
type Reason string

// The reasons.
const (
	ReasonClear      Reason = "clear"    // a clear line
	ReasonQuiet      Reason = "quiet"    // no trigger for keep_firing_for
	ReasonExpired    Reason = "expired"  // no trigger for expire
	ReasonMuted      Reason = "muted"    // an unless line while pending
	ReasonRemoved    Reason = "removed"  // its rule was removed or changed
	ReasonIdentity   Reason = "identity" // a reload changed its labels
	ReasonPodDeleted Reason = "gone"     // its pod was deleted
	// ReasonDisplaced means that a namespace with fewer open episodes needed its place. Whether
	// the failure is over is unknown, and the rule's overflow alert covers it.
	ReasonDisplaced Reason = "displaced"
)

// Fingerprint identifies an alert. It is a hash of its labels.
type Fingerprint uint64

// String returns 16 hex digits.
func (f Fingerprint) String() string { return fmt.Sprintf("%016x", uint64(f)) }

// Episode is a copy of one episode's state. Its maps may be shared between copies and must
// be treated as read-only.
type Episode struct {
	Fingerprint Fingerprint
	Rule        *rules.Rule // nil for alerts of crowsnest about itself
	Alert       string
	State       State
	Reason      Reason // reason of the end; empty while open
	Silent      bool   // the episode is shown, but nobody is notified
	Overflow    bool   // stands for all keys beyond the rule's limit
	// Heartbeat marks the alert that proves that the program works. A receiver must not keep it
	// firing long after the last report.
	Heartbeat bool

	// Labels is the identity, which consists of alertname, severity, resolves, the values of
	// `by` and the rule's labels. External labels are added by the sinks.
	Labels map[string]string
	// Annotations are rendered, redacted and capped.
	Annotations map[string]string

	// Cause is the open alert that this open alert is a symptom of. It is nil if none is known.
	Cause *Cause
	// Inhibit is set if the alert of the cause may stand for this one. The cause was known when
	// this alert was first reported as firing, has been known since, and is as severe.
	Inhibit bool

	StartsAt time.Time // time of the trigger that opened it; with `silent`, the time when the silence became a failure
	FiredAt  time.Time // time when the engine concluded that it fires; zero while pending
	LastSeen time.Time // time of the newest trigger
	EndsAt   time.Time // event time of the end; zero while open
	// Concluded is the time when the end was concluded; zero while open.
	Concluded time.Time
	// Restored is set while the state is one that was read from a snapshot, and that an earlier
	// process concluded. The times do not show this, because they are by the clock of that
	// time, which may have been changed since.
	Restored bool
	Written  time.Time   // event time of the line that made it fire, which gives the latency
	Count    int64       // lines since the window that opened it
	Line     redact.Text // newest trigger line
	First    redact.Text // line that opened it
	Party    string      // namespace, with its cluster, whose share of every limit it uses
	Origin   string      // the first log of its lines and the number of other logs; empty if unknown

	// OnHold is set while a negative conclusion waits for the watermark of a source.
	OnHold bool
	// WaitsFor are the sources without progress that the conclusion waits for, sorted. It is
	// empty if OnHold is not set, if no source reads the streams of the rule's part, or if
	// the rule is suspended.
	WaitsFor []string
	// Waits are the parts of the rule whose lines the conclusion waits for. It is empty if
	// OnHold is not set, or if the rule is suspended.
	Waits []Wait
	// Deadline is the next time at which the engine may conclude something without another
	// line. It is zero if there is none.
	Deadline time.Time
}

// ActiveAt returns the time when the failure began, as far as the lines show. That is StartsAt,
// or with `silent` the time of the last line.
func (x *Episode) ActiveAt() time.Time {
	if x.StoppedLines() {
		return x.LastSeen
	}
	return x.StartsAt
}

// ShownState is the state for people. An episode that lost its place is neither firing nor
// resolved.
func (x *Episode) ShownState() State {
	if x.State == StateResolved && x.Reason == ReasonDisplaced {
		return StateUnwatched
	}
	return x.State
}

// StoppedLines reports whether the failure is that the lines of a key stopped, which means that
// its rule has `silent`.
func (x *Episode) StoppedLines() bool { return x.Rule != nil && x.Rule.Silent > 0 && !x.Overflow }
