// Package sources defines the parts that all sources of log lines share: the contract between a source and the
// pipeline, which matches lines and decides about failures, and the status that sources report.
//
// A source reads lines and passes them to its Pipeline in blocks of whole lines. It moves its position in the same
// call, so positions and episodes can be saved as one consistent snapshot.
//
// The watermark of a source is the time up to which all of its lines were read, except the lines of lagging streams. A
// member is a reader inside a source that has its own watermark, such as one agent.
package sources

import (
	"context"
	"encoding/json"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Source reads log lines from one kind of place, such as files or an API.
type Source interface {
	// Name is unique among the sources of a process. It is the kind of the source, such as
	// "kubelet". If there are several sources of a kind, it has a suffix.
	Name() string
	// Info returns the properties and abilities of the source. They do not change.
	Info() Info
	// Serves reports whether lines of this source can satisfy the selector.
	Serves(from rules.Selector) bool
	// Run reads until ctx ends or the source is exhausted (stdin). It waits for
	// the goroutines it starts before it returns.
	Run(ctx context.Context, p Pipeline) error
	// Positions returns the state from which Restore continues after the lines that the pipeline has accepted. The
	// caller holds the checkpoint lock, so no call of a Pipeline is in progress. Positions must not block.
	Positions() json.RawMessage
	// Restore sets the positions before Run. nil means that none were saved. An error means
	// that they are unusable, and reading starts without them.
	Restore(json.RawMessage) error
	// Status returns the state for API and metrics. Safe for concurrent use.
	Status() Status
}

// Pipeline receives the lines of a source. All methods are safe for concurrent use, but calls
// for the same stream must not overlap.
type Pipeline interface {
	// Scan matches a block of whole lines and ingests the hits. commit moves the source's
	// position. It runs before the checkpoint lock is released, so that the position and the
	// hits are saved together. It must not block. Scan does not retain the block.
	Scan(s *matcher.Stream, block []byte, commit func())
	// Match matches one record and ingests the hits. commit is called as in Scan.
	Match(s *matcher.Stream, rec matcher.Record, commit func())
	// Flush matches the incomplete line that the stream holds.
	Flush(s *matcher.Stream)
	// Ingest accepts hits that another process found, in the order of reading. find converts them to hits of the active
	// rules. It is called once, under the checkpoint lock, and must not block. commit is called as in Scan.
	Ingest(find func(set *rules.Set) []matcher.Hit, commit func())
	// Rules returns the active rules. They are shared and read-only.
	Rules() *rules.Set
	// AdvanceWatermark states that the source or member has read all lines up to t, except the
	// lines of lagging streams, which were read only up to their own times. There are at most
	// matcher.MaxLagging lagging streams (see matcher.BoundLagging).
	AdvanceWatermark(source string, t time.Time, lagging ...matcher.LaggingStream)
	// AddMember gives a member of a source, such as one agent, its own watermark. The member's name starts with the
	// name of the source and a slash. If the member exists, AddMember keeps the watermark, and only reads again which
	// selectors the member serves.
	AddMember(name string)
	// RemoveMember removes a member. Decisions no longer wait for it.
	RemoveMember(name string)
	// PodDeleted reports that a pod was deleted at t, so no more lines can come from it. pod holds the labels that the
	// streams of the pod share: namespace, pod and the configured labels.
	PodDeleted(pod matcher.Labels, t time.Time)
}

// Info describes the properties and abilities of a source.
type Info struct {
	// Local means that lines get their times from this machine's clock. These times shift when the clock is set.
	Local bool
	// Remote means that the source reads from another process, such as the Kubernetes API or
	// Loki. While that process is down, the source is reported as unable to read, but this
	// process stays ready, because a restart would not help.
	Remote bool
	// Lateness is the longest delay with which a line may arrive. The engine subtracts it from
	// the watermark that the source reports. Zero means rules.Lateness.
	Lateness time.Duration
	// UseRules passes the active rules to a source that reads only lines that the rules can
	// match. The first call precedes Run. It must not block, and is safe for concurrent use.
	UseRules func(set *rules.Set)
	// Images returns images of containers. nil means that the source does not know them.
	Images Images
	// Members are the members of the source. nil means that it has none. A source with members
	// has no watermark of its own.
	Members Members
}

// Members are the members of a source, such as agents. They match lines by their own copies of the rules.
type Members interface {
	// Members returns the names of the known members. Rules about missing lines are on hold
	// until each member has a watermark. It may be called at any time after Restore.
	Members() []string
	// MemberServes returns a function that reports whether lines of the member can satisfy a
	// selector. Its answers do not change. If the member starts to read other lines, AddMember
	// is called again. The function is safe for concurrent use.
	MemberServes(member string) func(from rules.Selector) bool
	// MismatchedRules returns the rules of a set that some members lack or have in another version, by the name of the
	// rule. For such a rule, the absence of lines from these members is not taken into account. It must not block.
	MismatchedRules(set *rules.Set) map[string]RuleMismatch
	// ConfirmSaved is called when the last result of Positions is on disk. If no state is saved, it
	// is called instead of saving.
	ConfirmSaved()
}

// Images returns the images of containers. It is safe for concurrent use and does not block.
type Images interface {
	// Image returns the image of a container, or "" if it is unknown.
	Image(namespace, pod, container string) string
	// Running returns the distinct images of the containers in trusted namespaces, and the
	// programs of nodes in the form of images such as node/kubelet:v1.34.1.
	Running(trusted func(namespace string) bool) []string
}

// Status is the state of a source.
type Status struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Opened bool   `json:"opened"` // whether the source has been up at least once
	Error  string `json:"last_error,omitempty"`
	// Idle explains why a working source has nothing to read. It is "" if the source has
	// something to read. No rule can match in an idle source.
	Idle string `json:"idle,omitempty"`
	// IdleReason classifies Idle. "" means IdleNotInstalled.
	IdleReason IdleReason `json:"idle_reason,omitempty"`
	// Absent lists the configured inputs of the source that do not exist yet.
	Absent    []string       `json:"absent,omitempty"`
	Watermark time.Time      `json:"proved"` // time up to which all lines were read
	Lag       time.Duration  `json:"lag_ns"` // time since Watermark; zero unless there is unread data
	Streams   []StreamStatus `json:"streams,omitempty"`
	// LostBytes counts the bytes that were not read and are lost, by reason.
	LostBytes map[string]int64 `json:"lost_bytes,omitempty"`
	// Errors counts failures, by reason.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Losses describe lines that were not read and are lost, by reason. They are part of the
	// positions, so they survive a restart.
	Losses map[string]Loss `json:"losses,omitempty"`
	// LeftOut counts the objects that the source cannot remember for lack of room, by namespace. It contains the
	// namespaces with the most such objects, and the sum of all other namespaces under "others".
	LeftOut map[string]int64 `json:"left_out,omitempty"`
	// Unread are the first hundred logs that exist but are not read, ordered by path.
	// UnreadMore is the number of further unread logs.
	Unread     []UnreadLog `json:"unread,omitempty"`
	UnreadMore int         `json:"unread_more,omitempty"`
	// Logs is the number of existing logs, whether or not they are read. Zero means that the
	// source does not count them.
	Logs int `json:"logs,omitempty"`
	// Members are the states of the members, by name. While a member is down, rules about missing lines are on hold.
	Members map[string]MemberStatus `json:"parts,omitempty"`
	// Conditions are the problems that members report about themselves, merged.
	Conditions []Condition `json:"conditions,omitempty"`
	// Counters are the totals of all streams, including closed ones.
	matcher.Counters
}

// IdleReason classifies why a source has nothing to read.
type IdleReason string

// Reasons why a source has nothing to read.
const (
	IdleNotInstalled IdleReason = "not_installed" // the files or objects that the source reads do not exist here
	IdleNoLogs       IdleReason = "no_logs"       // the configuration selects no logs
	IdleUnreadable   IdleReason = "unreadable"    // logs exist, but the source must not read any of them
	IdleNoLines      IdleReason = "no_lines"      // logs exist, but none ever had a line
	IdleNoRules      IdleReason = "no_rules"      // no active rule can match a line of the source
)

// Loss counts lines that were lost or may have been lost for the same reason.
type Loss struct {
	Count int64     `json:"count"`
	Time  time.Time `json:"at"`   // time of the newest loss
	Path  string    `json:"path"` // place of the newest loss
}

// Condition is a problem that members of a source, such as agents, report about themselves. Its
// texts come from the members.
type Condition struct {
	Alert    string            `json:"alert"` // name of the alert that the members report
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels,omitempty"`
	Detail   string            `json:"detail,omitempty"` // detail of one of the reports
	Since    time.Time         `json:"since"`            // earliest start at a member
	// Count is the sum of the occurrences at all members. Zero means that they are not counted.
	Count    int64     `json:"count,omitempty"`
	LastSeen time.Time `json:"last,omitzero"`
	Members  []string  `json:"parts"` // names of the members that report the condition, sorted
}

// UnreadLog is a log that exists but is not read.
type UnreadLog struct {
	Path   string    `json:"path"`
	Reason string    `json:"why"`
	Since  time.Time `json:"since"`
	Holds  bool      `json:"holds"` // whether the log may still be read, so that decisions wait for it
	// Name is the log as namespace/pod/container, or "" if only its path is known.
	Name string `json:"name,omitempty"`
}

// RuleMismatch is a rule that members of a source lack or have in another version.
type RuleMismatch struct {
	Since   time.Time
	Members []string // names of these members, sorted
}

// MemberStatus is the state of one member of a source, such as one agent.
type MemberStatus struct {
	Up        bool      `json:"up"`
	Error     string    `json:"last_error,omitempty"`
	Since     time.Time `json:"since"`  // time of the last contact with the member
	Watermark time.Time `json:"proved"` // time up to which all lines of the member were read
	// Lagging are the streams of the member that were read only up to earlier times.
	Lagging []matcher.LaggingStream `json:"lagging,omitempty"`
	// Skew is the time by which the member's clock is ahead of ours, plus the network delay.
	Skew time.Duration `json:"clock_skew_ns"`
	// RefusedAt is the time at which another member with the same name was last refused. It is
	// zero if that never happened.
	RefusedAt time.Time `json:"refused,omitzero"`
	// Reports are the member's open alerts about itself, sorted.
	Reports []string `json:"reports,omitempty"`
	// Idle explains why the member has nothing to read. It is "" if the member has something to read.
	Idle string `json:"idle,omitempty"`
}

// SetUnread lists the logs that exist but are not read. all must be ordered by path.
func (s *Status) SetUnread(all []UnreadLog) {
	const most = 100
	n := min(len(all), most)
	s.Unread, s.UnreadMore = all[:n], len(all)-n
}

// LossCounts returns the number of losses, by reason.
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
