package episodes

import (
	"fmt"
	"time"

	"crowsnest/redact"
	"crowsnest/rules"
)

// State is the state of an episode.
type State string

// The states. A pending episode that ended without firing is reported as StateDropped.
const (
	StatePending  State = "pending"
	StateFiring   State = "firing"
	StateResolved State = "resolved"
	StateDropped  State = "dropped"
	// StateUnwatched is shown to people instead of StateResolved for an episode that ended with ReasonDisplaced; see
	// ShownState.
	StateUnwatched State = "unwatched"
)

// Reason is the reason why an episode ended.
type Reason string

// The reasons.
const (
	ReasonClear      Reason = "clear"    // a clear line was read
	ReasonQuiet      Reason = "quiet"    // there was no trigger for keep_firing_for
	ReasonExpired    Reason = "expired"  // there was no trigger for expire
	ReasonMuted      Reason = "muted"    // an unless line was read while the episode was pending
	ReasonRemoved    Reason = "removed"  // the rule was removed or changed
	ReasonIdentity   Reason = "identity" // a reload changed the labels of the alert
	ReasonPodDeleted Reason = "gone"     // the pod was deleted
	// ReasonDisplaced means that the episode lost its place to an episode of a namespace with fewer open episodes.
	// Whether the failure is over is unknown. The rule's overflow alert counts the failure.
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
	Silent      bool   // whether the episode is only shown, and nobody is notified
	Overflow    bool   // whether this is the alert for all keys beyond the rule's limit
	// Heartbeat marks the alert that proves that the program works. A receiver must not keep it
	// firing long after the last report.
	Heartbeat bool

	// Labels are the identity of the alert, which consists of alertname, severity, resolves, the values of `by` and the
	// rule's labels. The sinks add the external labels.
	Labels map[string]string
	// Annotations are rendered, redacted and of limited length.
	Annotations map[string]string

	// Cause is the open alert of which this alert is a symptom. It is nil if no cause is known.
	Cause *Cause
	// Inhibit is set if a receiver may suppress this alert while the alert of the cause fires. This requires that the
	// cause was known when this alert was first reported as firing, has been known since then, and is at least as
	// severe.
	Inhibit bool

	StartsAt time.Time // time of the trigger that opened the episode; with `silent`, the time when the silence became a failure
	FiredAt  time.Time // the clock's time when the engine concluded that the episode fires; zero while pending
	LastSeen time.Time // time of the newest trigger
	EndsAt   time.Time // event time of the end; zero while open
	// ConcludedAt is the clock's time when the end was concluded. It is zero while the episode is open.
	ConcludedAt time.Time
	// FiredBeforeRestore is set while an episode has the firing state that an earlier process saved in a snapshot. The
	// times do not show this, because the clock may have been set since then.
	FiredBeforeRestore bool
	EventTime          time.Time   // event time of the line that made the episode fire, from which the latency is computed
	Count              int64       // number of lines since the start of the window that opened the episode
	Line               redact.Text // line of the newest trigger
	FirstLine          redact.Text // line that opened the episode
	Tenant             string      // tenant whose limits count the episode
	Origin             string      // name of the first log of its lines, and the number of other logs; empty if unknown

	// OnHold is set while a negative conclusion waits for the watermark of a source.
	OnHold bool
	// WaitsFor are the sorted names of the sources without progress that the conclusion waits for. It is empty if
	// OnHold is not set, if no source reads the streams of the awaited part, or if the rule is suspended.
	WaitsFor []string
	// AwaitedParts are the parts of the rule whose lines the conclusion waits for. It is empty if OnHold is not set, or
	// if the rule is suspended.
	AwaitedParts []AwaitedPart
	// Deadline is the next time at which the engine may conclude something without another
	// line. It is zero if there is none.
	Deadline time.Time
}

// ActiveAt returns the time when the failure began, as far as the lines show. This is StartsAt, or with `silent` the
// time of the last line.
func (x *Episode) ActiveAt() time.Time {
	if x.StoppedLines() {
		return x.LastSeen
	}
	return x.StartsAt
}

// ShownState returns the state to show to people. A displaced episode is neither firing nor resolved.
func (x *Episode) ShownState() State {
	if x.State == StateResolved && x.Reason == ReasonDisplaced {
		return StateUnwatched
	}
	return x.State
}

// StoppedLines reports whether the failure is the silence of a key, which means that its rule has `silent`.
func (x *Episode) StoppedLines() bool { return x.Rule != nil && x.Rule.Silent > 0 && !x.Overflow }
