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
	// Take takes hits that were found elsewhere, in order of their reading; commit
	// is as with Scan. find turns them into hits of the rules in force and is
	// called once, within the cut; it must not block.
	Take(find func(set *rules.Set) []matcher.Hit, commit func())
	// Rules returns the rules in force. They are shared and read-only.
	Rules() *rules.Set
	// Advance proves that the source, or a part of it that has joined, has read
	// everything up to t.
	Advance(source string, t time.Time)
	// Join makes a part of a source, such as one agent, a source of its own for
	// whatever waits for a proof of reading. Its name begins with that of the
	// source and a slash. Joining twice changes nothing.
	Join(part string)
	// Leave forgets a part: nothing waits for it any more.
	Leave(part string)
	// Gone says that a pod was deleted at t, so that no line of it can come any
	// more. Its labels are those of its streams: namespace, pod and those that the
	// configuration adds.
	Gone(pod matcher.Labels, t time.Time)
}

// Parted is a source that consists of parts that join the pipeline one by one.
// It proves nothing itself.
type Parted interface {
	Source
	// Parts are the names of the parts that are known. Until they have proved
	// something, negative conclusions wait. It is called after Restore and later
	// at any time.
	Parts() []string
}

// Late is a source whose lines may come later than those of a file.
type Late interface {
	// Lateness is how far its watermark stays behind its proof.
	Lateness() time.Duration
}

// Local is a source whose lines bear the time of this machine's clock, so that
// they are of another time when it is set. The method does nothing.
type Local interface{ Local() }

// Remote is a source that another process serves, such as the Kubernetes API or
// Loki. While that process is away the source is reported as not seen; this one
// stays ready and is not restarted. The method does nothing.
type Remote interface{ Remote() }

// RuleUser is a source that reads only what the rules in force can match.
type RuleUser interface {
	// UseRules tells the rules that are in force from now on, first before Run.
	// It must not block. Safe for concurrent use.
	UseRules(set *rules.Set)
}

// Versioned is a source whose parts look for lines by rules of their own.
type Versioned interface {
	// Behind returns the rules of a set that parts have in another version, or not
	// at all, by name. What they would have to find proves nothing. It must not
	// block.
	Behind(set *rules.Set) map[string]Behind
}

// Saver is a source that has to know what of it is on disk.
type Saver interface {
	// Saved says that the positions which Positions returned last are on disk, or
	// that nothing is kept at all.
	Saved()
}

// Status is what a source says of itself.
type Status struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Opened bool   `json:"opened"` // it has been up at least once
	Error  string `json:"last_error,omitempty"`
	// Idle says why there is nothing to watch; "" if there is something. An idle
	// source works, but no rule can match in it.
	Idle    string         `json:"idle,omitempty"`
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
	// Unread are logs that are there and are not read, the first hundred of them in
	// order of their paths.
	Unread []Unread `json:"unread,omitempty"`
	// Parts are the states of the parts of a source that has some, by name. A part
	// that is not up holds what waits for its proof.
	Parts map[string]PartStatus `json:"parts,omitempty"`
	// Conditions are what parts report about themselves, each once.
	Conditions []Condition `json:"conditions,omitempty"`
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

// Condition is something that parts of a source, such as agents, report to be
// wrong with themselves. Its texts come from them.
type Condition struct {
	Alert    string            `json:"alert"` // what they call it
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels,omitempty"`
	Detail   string            `json:"detail,omitempty"` // of one of them
	Since    time.Time         `json:"since"`            // the earliest
	Count    int64             `json:"count,omitempty"`  // of all; 0: it is not counted
	Last     time.Time         `json:"last,omitzero"`
	Parts    []string          `json:"parts"` // that report it, in order
}

// Unread is a log that is there and is not read.
type Unread struct {
	Path  string    `json:"path"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	Holds bool      `json:"holds"` // the watermark: it may be read later
}

// Behind is a rule that parts of a source have in another version.
type Behind struct {
	Since time.Time
	Parts []string // in order
}

// PartStatus is the state of one part of a source, such as one agent.
type PartStatus struct {
	Up     bool      `json:"up"`
	Error  string    `json:"last_error,omitempty"`
	Since  time.Time `json:"since"`  // it was last heard of
	Proved time.Time `json:"proved"` // up to which it is proved to be read
	// Skew is how far its clock is ahead of ours, the way of its words included.
	Skew time.Duration `json:"clock_skew_ns"`
	// Refused is when another one of its name was refused last; zero: never.
	Refused time.Time `json:"refused,omitzero"`
	// Reports are the alerts that it has open about itself, in order.
	Reports []string `json:"reports,omitempty"`
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
