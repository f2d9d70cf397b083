// Package history remembers ended episodes, within bounds of number, size and age. The
// namespaces of the lines share the bounds.
//
// It has no clock and no files: the daemon writes the records that it returns to a log, and
// loads them from there.
package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// Entry is one episode that fired and ended. One that History returned is read-only.
type Entry struct {
	Fingerprint uint64            `json:"fp"` // fingerprint of the labels
	Alert       string            `json:"alert"`
	Pack        string            `json:"pack,omitempty"`
	Reason      string            `json:"reason,omitempty"` // reason of the end
	Silent      bool              `json:"silent,omitempty"`
	Overflow    bool              `json:"overflow,omitempty"`
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary,omitempty"` // redacted, truncated to 300 bytes
	StartsAt    time.Time         `json:"starts"`
	FiredAt     time.Time         `json:"fired,omitzero"`
	LastSeen    time.Time         `json:"seen,omitzero"` // newest line
	EndsAt      time.Time         `json:"ends"`
	Concluded   time.Time         `json:"concluded,omitzero"` // when the end became certain
	Lines       int64             `json:"lines,omitempty"`
	// Notified is how many notifications receivers accepted while it fired.
	Notified int `json:"notified,omitempty"`
	// Flaps is how many episodes of the alert preceded this one, each less than an hour after
	// the end of the one before. History sets it.
	Flaps int    `json:"flaps,omitempty"`
	Cause *Cause `json:"cause,omitempty"` // cause whose symptom the episode was; nil if none was known
	Party string `json:"party,omitempty"` // the namespace, in its cluster, that is charged for it
	// Infrastructure is set if the namespace is one of infrastructure.
	Infrastructure bool `json:"infra,omitempty"`
}

// Cause is the alert that an episode was a symptom of.
type Cause struct {
	Fingerprint uint64            `json:"fp"`
	Alert       string            `json:"alert"`
	Severity    string            `json:"severity,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	StartsAt    time.Time         `json:"starts"`
}

// Duration is how long the failure lasted; 0 if the clock was set back meanwhile.
func (e *Entry) Duration() time.Duration { return max(0, e.EndsAt.Sub(e.StartsAt)) }

// key identifies an episode: its fingerprint and start.
func (e *Entry) key() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), e.Fingerprint)
	return string(binary.BigEndian.AppendUint64(b, uint64(e.StartsAt.UnixNano())))
}

// sameEnd reports whether an episode ended the same way: it was concluded again after a
// restart.
func (e *Entry) sameEnd(o *Entry) bool { return e.EndsAt.Equal(o.EndsAt) && e.Reason == o.Reason }

// encode returns the record of an entry, without line breaks.
func (e *Entry) encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		return []byte("{}") // a time beyond the year 9999, which no line has
	}
	return b
}

// decode is the inverse of encode.
func decode(record []byte) (*Entry, error) {
	var e Entry
	if err := json.Unmarshal(record, &e); err != nil {
		return nil, fmt.Errorf("read a record of the history: %w", err)
	}
	return &e, nil
}
