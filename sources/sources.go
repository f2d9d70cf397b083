// Package sources defines what all sources of log lines share: the contract with the
// pipeline that matches lines and draws conclusions, and the status they report.
//
// A source reads lines, hands them to its Pipeline in blocks of whole lines, and
// moves its position in the same call, so that positions and episodes can be saved
// as one consistent snapshot.
package sources

import (
	"context"
	"encoding/json"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Source reads log lines from one kind of place.
type Source interface {
	// Name is unique among the sources of a process: "kubelet", "files",
	// "stdin", or with a suffix if there are several of a kind.
	Name() string
	// Info returns what the source is and can do. It does not change.
	Info() Info
	// Serves reports whether lines of this source can satisfy the selector.
	Serves(from rules.Selector) bool
	// Run reads until ctx ends or the source is exhausted (stdin). It waits for
	// the goroutines it starts before it returns.
	Run(ctx context.Context, p Pipeline) error
	// Positions returns what Restore needs to continue after the lines that the
	// pipeline has accepted. The caller holds the checkpoint lock, so no Pipeline
	// call is in progress. Positions must not block.
	Positions() json.RawMessage
	// Restore sets the positions before Run. nil means that none were saved;
	// an error means that they are unusable and reading starts without them.
	Restore(json.RawMessage) error
	// Status returns the state for API and metrics. Safe for concurrent use.
	Status() Status
}

// Pipeline receives the lines of a source. All methods are safe for concurrent
// use; calls for one stream must not overlap.
type Pipeline interface {
	// Scan matches a block of whole lines and ingests the hits. commit moves the
	// source's position; it runs under the same hold of the checkpoint lock and
	// must not block. Scan does not retain the block.
	Scan(s *matcher.Stream, block []byte, commit func())
	// Match does the same for one record.
	Match(s *matcher.Stream, rec matcher.Record, commit func())
	// Flush emits the stream's pending partial line.
	Flush(s *matcher.Stream)
	// Ingest accepts hits that another process found, in reading order; commit is
	// as in Scan. find converts them to hits of the active rules. It is called once,
	// under the checkpoint lock, and must not block.
	Ingest(find func(set *rules.Set) []matcher.Hit, commit func())
	// Rules returns the active rules. They are shared and read-only.
	Rules() *rules.Set
	// AdvanceWatermark states that the source or member has read all lines up to t, except
	// those of lagging streams, which it has read only up to their own times: at most
	// matcher.MaxLagging, see matcher.BoundLagging.
	AdvanceWatermark(source string, t time.Time, lagging ...matcher.LaggingStream)
	// AddMember gives a member of a source, such as one agent, a watermark of its
	// own. Its name starts with the name of the source and a slash. Adding it again
	// replaces what it serves, and keeps its watermark.
	AddMember(name string)
	// RemoveMember removes a member: no conclusion waits for it any more.
	RemoveMember(name string)
	// PodDeleted reports that a pod was deleted at t: no more lines can come from it.
	// The labels are those of its streams: namespace, pod and the configured ones.
	PodDeleted(pod matcher.Labels, t time.Time)
}

// Info says what a source is and what it can do.
type Info struct {
	// Local means that this machine's clock stamps the lines, so their times shift when the
	// clock is set.
	Local bool
	// Remote means that the source reads from another process, such as the Kubernetes API or
	// Loki. While that process is down, the source is reported as blind, but this process
	// stays ready and is not restarted.
	Remote bool
	// Lateness is how far the engine keeps the watermark behind the reported one, because
	// lines may arrive late. Zero means rules.Lateness.
	Lateness time.Duration
	// UseRules sets the active rules of a source that reads only what they can match. The
	// first call precedes Run. It must not block, and is safe for concurrent use.
	UseRules func(set *rules.Set)
	// Images is nil unless the source knows the images of containers.
	Images Images
	// Members is nil unless the source has members with watermarks of their own. The source
	// itself has none then.
	Members Members
}

// Members are the members of a source, such as agents, which match lines by their own
// copies of the rules.
type Members interface {
	// Members returns the names of the known members. Absence-based rules are on
	// hold until each member has a watermark. It may be called at any time after
	// Restore.
	Members() []string
	// MemberServes returns whether lines of a member can satisfy a selector, as Serves
	// does for a source. The answers do not change; a member whose lines become others is
	// added again. The function is safe for concurrent use.
	MemberServes(member string) func(from rules.Selector) bool
	// Behind returns, by name, the rules of a set that members lack or have in
	// another version. The silence of those members means nothing for these rules.
	// It must not block.
	Behind(set *rules.Set) map[string]Behind
	// Saved reports that the last result of Positions is on disk, or that the
	// process keeps no state.
	Saved()
}

// Images knows the images of containers. It is safe for concurrent use and does not block.
type Images interface {
	// Image returns the image of a container, "" if it is not known.
	Image(namespace, pod, container string) string
	// Running returns the different images of the containers in trusted namespaces, and what
	// nodes run as images such as node/kubelet:v1.34.1.
	Running(trusted func(namespace string) bool) []string
}

// Status is the state of a source.
type Status struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Opened bool   `json:"opened"` // was up at least once
	Error  string `json:"last_error,omitempty"`
	// Idle explains why the source has nothing to read although it works; "" if it has
	// something. No rule can match in an idle source.
	Idle string `json:"idle,omitempty"`
	// IdleReason classifies Idle; "" means IdleNotInstalled.
	IdleReason IdleReason `json:"idle_reason,omitempty"`
	// Absent is what the source is configured to read and what does not exist yet.
	Absent    []string       `json:"absent,omitempty"`
	Watermark time.Time      `json:"proved"` // all lines up to here were read
	Lag       time.Duration  `json:"lag_ns"` // now minus Watermark while there is unread data
	Streams   []StreamStatus `json:"streams,omitempty"`
	// Lost counts the bytes that were never read, by reason.
	Lost map[string]int64 `json:"lost_bytes,omitempty"`
	// Errors counts failures, by reason.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Losses are the lines that were not read and no longer can be, by reason.
	// They are part of the positions, so a restart keeps them.
	Losses map[string]Loss `json:"losses,omitempty"`
	// LeftOut counts, by namespace, what the source cannot remember for lack of room: that
	// of the namespaces with the most, and of all others under "others".
	LeftOut map[string]int64 `json:"left_out,omitempty"`
	// Unread are logs that exist but are not read: the first hundred, ordered by
	// path. UnreadMore is how many follow.
	Unread     []Unread `json:"unread,omitempty"`
	UnreadMore int      `json:"unread_more,omitempty"`
	// Logs is the number of logs that exist, whether or not they are read. Zero means that
	// the source does not count them.
	Logs int `json:"logs,omitempty"`
	// Members are the states of the members, by name. A member that
	// is down puts absence-based rules on hold.
	Members map[string]MemberStatus `json:"parts,omitempty"`
	// Conditions are the problems that members report about themselves, merged.
	Conditions []Condition `json:"conditions,omitempty"`
	// Lines and Bytes are totals over all streams, closed ones included.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// Lines is the sum of Evaluated, Dropped and the parts of incomplete lines.
	// Evaluated includes Truncated and Unparsed.
	Evaluated int64 `json:"evaluated"`
	Dropped   int64 `json:"dropped"` // parts of lines beyond matcher.MaxMerged
	Truncated int64 `json:"truncated"`
	Unparsed  int64 `json:"unparsed"` // without the envelope of their stream
}

// IdleReason classifies why a source has nothing to read.
type IdleReason string

// Reasons why a source has nothing to read.
const (
	IdleNotInstalled IdleReason = "not_installed" // what the source watches does not exist here
	IdleNoLogs       IdleReason = "no_logs"       // the configuration selects no log
	IdleUnreadable   IdleReason = "unreadable"    // logs exist, and every one of them is refused
	IdleNoLines      IdleReason = "no_lines"      // logs exist, and none has ever had a line
	IdleNoRules      IdleReason = "no_rules"      // no active rule can match a line of the source
)

// Loss counts lines that were or may have been lost for one reason.
type Loss struct {
	Count int64     `json:"count"`
	At    time.Time `json:"at"`   // time of the newest loss
	Path  string    `json:"path"` // where it occurred
}

// Condition is a problem that members of a source, such as agents, report about
// themselves. Its texts come from them.
type Condition struct {
	Alert    string            `json:"alert"` // the alert's name on the members
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels,omitempty"`
	Detail   string            `json:"detail,omitempty"` // from one of them
	Since    time.Time         `json:"since"`            // the earliest
	Count    int64             `json:"count,omitempty"`  // sum over all members; zero if not counted
	Last     time.Time         `json:"last,omitzero"`
	Members  []string          `json:"parts"` // reporting it, sorted
}

// Unread is a log that exists but is not read.
type Unread struct {
	Path  string    `json:"path"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	Holds bool      `json:"holds"` // the log may still be read
	// Name is the log as namespace/pod/container; "" if it is known by its path alone.
	Name string `json:"name,omitempty"`
}

// Behind is a rule that members of a source have in another version.
type Behind struct {
	Since   time.Time
	Members []string // sorted
}

// MemberStatus is the state of one member of a source, such as one agent.
type MemberStatus struct {
	Up        bool      `json:"up"`
	Error     string    `json:"last_error,omitempty"`
	Since     time.Time `json:"since"`  // last contact
	Watermark time.Time `json:"proved"` // all its lines up to here were read
	// Lagging are its streams that are read only up to earlier times.
	Lagging []matcher.LaggingStream `json:"lagging,omitempty"`
	// Skew is how far its clock is ahead of ours, plus the network delay.
	Skew time.Duration `json:"clock_skew_ns"`
	// Refused is when another member of the same name was last refused; zero if never.
	Refused time.Time `json:"refused,omitzero"`
	// Reports are its open alerts about itself, sorted.
	Reports []string `json:"reports,omitempty"`
	// Idle explains why the member has nothing to read; "" if it has something.
	Idle string `json:"idle,omitempty"`
}

// Count sets the totals.
func (s *Status) Count(c matcher.Counters) {
	s.Lines, s.Bytes = c.Lines, c.Bytes
	s.Evaluated, s.Dropped, s.Truncated, s.Unparsed = c.Evaluated, c.Dropped, c.Truncated, c.Unparsed
}

// LossCounts returns how often lines were lost, by reason.
func (s Status) LossCounts() map[string]int64 {
	out := make(map[string]int64, len(s.Losses))
	for reason, l := range s.Losses {
		out[reason] = l.Count
	}
	return out
}

// StreamStatus is the state of one stream.
type StreamStatus struct {
	Labels   matcher.Labels `json:"labels"`
	Path     string         `json:"path,omitempty"`
	Offset   int64          `json:"offset"`
	Size     int64          `json:"size"`
	Lines    int64          `json:"lines"`
	LastRead time.Time      `json:"last_read"`
	Rules    int            `json:"rules"` // number of rules that may match the stream
}
