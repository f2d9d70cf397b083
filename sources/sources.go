// Package sources is what all sources of log lines share: the contract with the
// pipeline that matches and concludes, and the state that they report.
//
// A source reads lines, gives them to a Sink of its own in blocks of whole
// lines, and moves its position in the same call, so that positions and
// episodes can be saved as one consistent cut.
package sources

import (
	"context"
	"encoding/json"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Source is a place that log lines come from.
type Source interface {
	// Name is unique among the sources of a process: "kubelet", "files",
	// "stdin", or with a suffix if there are several of a kind.
	Name() string
	// Serves tells whether lines of this source can satisfy the selector.
	Serves(from rules.Selector) bool
	// Run reads until ctx ends or the source is exhausted (stdin). It starts
	// goroutines and has waited for all of them when it returns.
	Run(ctx context.Context, p Pipeline) error
	// Positions returns what Restore needs to go on reading after what has
	// been taken. It is called while no Take is under way and must not block.
	Positions() json.RawMessage
	// Restore sets the positions before Run. nil means that there are none;
	// an error means that they are unusable, and reading starts without them.
	Restore(json.RawMessage) error
	// Status is for the API and the metrics. Safe for concurrent use.
	Status() Status
}

// Pipeline is what a source hands lines to. All methods are safe for concurrent
// use; calls for one stream must not overlap.
type Pipeline interface {
	// Scan matches a block of whole lines and takes the hits. commit moves the
	// source's position; it runs within the same consistent cut and must not
	// block. The block is not kept.
	Scan(s *matcher.Stream, block []byte, commit func())
	// Match does the same for one record.
	Match(s *matcher.Stream, rec matcher.Record, commit func())
	// Flush ends what the stream has unfinished.
	Flush(s *matcher.Stream)
	// Advance proves that the source has read everything up to t.
	Advance(source string, t time.Time)
}

// Status is what a source says of itself.
type Status struct {
	Name    string         `json:"name"`
	Up      bool           `json:"up"`
	Opened  bool           `json:"opened"` // it has been up at least once
	Error   string         `json:"last_error,omitempty"`
	Proved  time.Time      `json:"proved"` // up to which it is proved to be read
	Lag     time.Duration  `json:"lag_ns"` // now minus Proved while there is unread data
	Streams []StreamStatus `json:"streams,omitempty"`
	// Lost counts bytes that were never read, by reason.
	Lost map[string]int64 `json:"lost_bytes,omitempty"`
	// Errors counts failures, by reason.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Losses are the reasons for which lines were not read and cannot be read
	// any more. They are part of the positions, so a restart keeps them.
	Losses map[string]Loss `json:"losses,omitempty"`
	// Lines and Bytes are totals over all streams, closed ones included.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// What became of the lines: Lines is the sum of Evaluated, Dropped and the
	// parts of lines that are not complete yet. Truncated and Unparsed are
	// among the evaluated ones.
	Evaluated int64 `json:"evaluated"`
	Dropped   int64 `json:"dropped"` // parts of lines beyond matcher.MaxMerged
	Truncated int64 `json:"truncated"`
	Unparsed  int64 `json:"unparsed"` // without the envelope of their stream
}

// Loss is one reason for which lines were lost, or may have been.
type Loss struct {
	Count int64     `json:"count"`
	At    time.Time `json:"at"`   // of the newest one
	Path  string    `json:"path"` // where that was
}

// Count sets the totals.
func (s *Status) Count(c matcher.Counters) {
	s.Lines, s.Bytes = c.Lines, c.Bytes
	s.Evaluated, s.Dropped, s.Truncated, s.Unparsed = c.Evaluated, c.Dropped, c.Truncated, c.Unparsed
}

// StreamStatus is the state of one stream.
type StreamStatus struct {
	Labels   matcher.Labels `json:"labels"`
	Path     string         `json:"path,omitempty"`
	Offset   int64          `json:"offset"`
	Size     int64          `json:"size"`
	Lines    int64          `json:"lines"`
	LastRead time.Time      `json:"last_read"`
	Rules    int            `json:"rules"` // that may apply to it
}
