// Package history remembers ended episodes, up to limits of number, size and age. Namespaces share the limits.
//
// The package has no clock and no files. The daemon appends the records that the package returns to a log, and loads
// them from there.
package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// Entry is an episode that fired and ended. An Entry that History returns is read-only.
type Entry struct {
	Fingerprint uint64            `json:"fp"` // fingerprint of the labels
	Alert       string            `json:"alert"`
	Pack        string            `json:"pack,omitempty"`
	Reason      string            `json:"reason,omitempty"` // reason why the episode ended
	Silent      bool              `json:"silent,omitempty"`
	Overflow    bool              `json:"overflow,omitempty"`
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary,omitempty"` // summary, redacted and truncated to 300 bytes
	StartsAt    time.Time         `json:"starts"`
	FiredAt     time.Time         `json:"fired,omitzero"`
	LastSeen    time.Time         `json:"seen,omitzero"` // time of the newest line
	EndsAt      time.Time         `json:"ends"`
	ConcludedAt time.Time         `json:"concluded,omitzero"` // time when it became certain that the episode had ended
	Lines       int64             `json:"lines,omitempty"`
	// Notified is the number of notifications that receivers accepted while the episode fired.
	Notified int `json:"notified,omitempty"`
	// Flaps is the number of earlier episodes of the alert in a series. In a series, each episode begins less than an
	// hour after the end of the previous episode. History sets it.
	Flaps int    `json:"flaps,omitempty"`
	Cause *Cause `json:"cause,omitempty"` // cause of which the episode was a symptom; nil if none was known
	// Suppressed is the reason why Alertmanager notified nobody of the alert when the episode ended. It is nil if
	// Alertmanager notified somebody, or if this is not known.
	Suppressed *Suppression `json:"suppressed,omitempty"`
	Tenant     string       `json:"party,omitempty"` // namespace, with its cluster, to which the entry is charged
	// Infrastructure is set if the namespace belongs to the infrastructure.
	Infrastructure bool `json:"infra,omitempty"`
}

// Cause is the alert of which an episode was a symptom.
type Cause struct {
	Fingerprint uint64            `json:"fp"`
	Alert       string            `json:"alert"`
	Severity    string            `json:"severity,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	StartsAt    time.Time         `json:"starts"`
}

// Duration returns how long the failure lasted. It is 0 if the clock was set back meanwhile.
func (e *Entry) Duration() time.Duration { return max(0, e.EndsAt.Sub(e.StartsAt)) }

// key returns the identity of an episode, which consists of its fingerprint and its start.
func (e *Entry) key() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), e.Fingerprint)
	return string(binary.BigEndian.AppendUint64(b, uint64(e.StartsAt.UnixNano())))
}

// sameEnd reports whether two entries of an episode have the same end. After a restart, the end may be concluded again
// with another result.
func (e *Entry) sameEnd(o *Entry) bool { return e.EndsAt.Equal(o.EndsAt) && e.Reason == o.Reason }

// encode returns the record of an entry. The record contains no line breaks.
func (e *Entry) encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		return []byte("{}") // an error would require a time after the year 9999, which no line has
	}
	return b
}

func decode(record []byte) (*Entry, error) {
	var e Entry
	if err := json.Unmarshal(record, &e); err != nil {
		return nil, fmt.Errorf("read a record of the history: %w", err)
	}
	return &e, nil
}
