package web

import (
	"net/netip"
	"time"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/redact"
	"crowsnest/rules"
)

// View contains functions that return the state of the daemon. Every function must be set. The functions return copies,
// do not block and are safe for concurrent use.
type View struct {
	// Episodes returns the open and the recently resolved episodes, with the daemon's own alerts.
	Episodes func() []episodes.Episode
	Stats    func() episodes.Stats
	Rules    func() Rules
	Sources  func() []Source
	// Endpoints returns the state of every receiver of alerts.
	Endpoints func() []Endpoint
	Status    func() Status
	// External returns the distinct sets of external labels. The first set is in the configuration, and the others are
	// in the configuration of receivers. A receiver adds a label only to alerts that lack the label.
	External func() []map[string]string
	// Deliveries returns the answers of all receivers to an alert, ordered by time. Equal consecutive answers are
	// merged.
	Deliveries func(episodes.Fingerprint) []Delivery
	// Timeline returns the events of the newest episode of an alert, open or recently ended.
	Timeline func(episodes.Fingerprint) (episodes.Timeline, bool)
	// Unknown returns the failures that no rule describes. UnknownRule returns a pack with a generated rule for one of
	// these failures. Its argument is the fingerprint of the failure.
	Unknown     func() Unknown
	UnknownRule func(fingerprint string) (string, error)
	// History returns the remembered episodes that have ended, the one that started last first. Past returns the ended
	// episodes of one alert. The results are read-only, and empty on an agent.
	History      func() []*history.Entry
	PastEpisodes func(episodes.Fingerprint) []*history.Entry
	// Suppression returns the reason why Alertmanager notifies nobody of an open alert, at most 30 seconds old. It
	// returns nil if Alertmanager notifies somebody, or if this is not known. SuppressionProblem returns the reason why
	// it is not known for any alert, or "".
	Suppression        func(episodes.Fingerprint) *history.Suppression
	SuppressionProblem func() string
	// Links returns addresses of other programs, to which the pages link.
	Links func() Links
}

// Links contains addresses of other programs, for browsers.
type Links struct {
	// Logs is the template for the address of an alert's logs. It is empty if no template is configured. logsLink
	// replaces its placeholders.
	Logs string
	// Alertmanager is the address of Alertmanager's pages. It is empty if it is not known.
	Alertmanager string
	// Silences reports whether the pages may create silences with Options.Silence.
	Silences bool
	// IdentityHeader is the name of the header in which TrustedProxies send the name of the user. It is empty if there
	// is no such header.
	IdentityHeader string
	TrustedProxies []netip.Prefix
	// MCP reports whether /mcp is served.
	MCP bool
}

// Unknown describes the errors that no rule matches.
type Unknown struct {
	Enabled bool `json:"enabled"`
	// Forwarded is set on an agent, because its aggregator draws the conclusions.
	Forwarded bool `json:"forwarded,omitempty"`
	PerDay    int  `json:"alertsPerDay"`
	// Patterns and Components are the numbers of patterns and components that are remembered.
	// Evicted is the number of patterns that were forgotten for lack of room.
	Patterns   int64            `json:"patterns"`
	Components int64            `json:"components"`
	Evicted    int64            `json:"evicted"`
	Failures   []UnknownFailure `json:"failures"`
}

// UnknownFailure is a failure that no rule describes. It contains the worst unmatched errors of one component.
type UnknownFailure struct {
	Fingerprint string `json:"fingerprint"`
	// State is alert, held (because the limit of alerts in 24 hours is reached), or known
	// (because an alert for it fired within a week).
	State string `json:"state"`
	// Reason is new or persists.
	Reason     string            `json:"why"`
	Component  string            `json:"component"`
	Labels     map[string]string `json:"labels"`
	Pattern    redact.Text       `json:"pattern"`
	OtherTexts []redact.Text     `json:"also,omitempty"` // texts of further patterns
	Level      string            `json:"level"`
	Object     redact.Text       `json:"object,omitempty"`
	Since      time.Time         `json:"since"`
	Last       time.Time         `json:"last"`
	Count      int64             `json:"count"` // lower bound of the number of lines
	Pods       []string          `json:"pods,omitempty"`
	Changes    []string          `json:"changes,omitempty"` // changes shortly before the failure began
	Examples   []redact.Text     `json:"examples"`
	Ignore     string            `json:"ignore"` // line of configuration that ignores the failure
}

// Rules describes the loaded rules. The keys of its maps are the names of rules.
type Rules struct {
	Set *rules.Set
	// Broken lists the refused packs with the reasons. Set contains an earlier valid version, if any.
	Broken []BrokenPack
	// LastLines is when a stream to which a rule applies last had a line. A rule without a line has no entry.
	LastLines map[string]time.Time
	// Cost is the total time for evaluating a rule.
	Cost map[string]time.Duration
	// Evaluations is the number of lines on which a rule was evaluated.
	Evaluations map[string]int64
	// OutOfScope contains the rules that are not evaluated here, because they need logs of several nodes.
	OutOfScope map[string]bool
	// Quarantined contains the rules that are no longer evaluated, with the reasons.
	Quarantined map[string]string
	// Running contains the running versions of components, which are tags of images. An unknown version is "".
	Running map[string][]string
	// WaitReasons contains the rules whose conclusions from the absence of lines wait for agents that
	// have another version of the rule. The value names these agents.
	WaitReasons map[string]string
}

// BrokenPack is a pack whose newest version was refused.
type BrokenPack struct {
	Pack  string `json:"pack"` // name of the pack, or of its file if it has none
	Error string `json:"error"`
	// Missing is set if there is no earlier version that could be used instead.
	Missing bool `json:"missing,omitempty"`
	// File is the name of the file.
	File string `json:"file,omitempty"`
	// Namespace is the owner of the pack. It is empty if the pack belongs to the operator.
	Namespace string `json:"namespace,omitempty"`
}

// Source is the state of one source.
type Source struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Opened bool   `json:"opened"` // whether the source has been up at least once
	Error  string `json:"lastError,omitempty"`
	Idle   string `json:"idle,omitempty"` // reason why the source has nothing to read that a rule can match; empty if it has something
	// IdleReason is not_installed, no_logs, unreadable, no_lines or no_rules.
	IdleReason string   `json:"idleReason,omitempty"`
	Absent     []string `json:"absent,omitempty"` // configured inputs that do not exist
	// LeftOut is the number of objects, by namespace, that the source cannot remember for lack of room.
	LeftOut   map[string]int64 `json:"leftOut,omitempty"`
	AwaySince time.Time        `json:"notSeenSince,omitzero"` // start of the outage; zero if there is none
	Watermark time.Time        `json:"proved"`                // time up to which all lines have been read
	Lag       time.Duration    `json:"lagNanoseconds"`
	Lines     int64            `json:"lines"`
	Bytes     int64            `json:"bytes"`
	// Evaluated is the number of lines that were evaluated. Lines is the sum of Evaluated, Dropped and incomplete lines
	Evaluated int64            `json:"evaluated"`
	Dropped   int64            `json:"dropped"`
	Truncated int64            `json:"truncated"`
	Unparsed  int64            `json:"unparsed"`
	Lost      map[string]int64 `json:"lostBytes,omitempty"` // number of lost bytes by reason
	Errors    map[string]int64 `json:"errors,omitempty"`    // number of errors by reason
	// Losses counts, by reason, how often lines were deleted before they could be read.
	Losses  map[string]int64 `json:"losses,omitempty"`
	Streams []Stream         `json:"streams,omitempty"`
	// Unread lists existing logs that are not read.
	Unread []Unread `json:"unread,omitempty"`
	// Filtered is set if the source delivers only lines that some rule may match. Streams is then incomplete.
	Filtered bool `json:"filtered,omitempty"`
	// Members are the members of a source that has no streams of its own, ordered by name.
	Members []Member `json:"parts,omitempty"`
	// LinesPerSecond is the mean over the last complete minutes, at most five. The server sets it once it is known.
	LinesPerSecond *float64 `json:"linesPerSecond,omitempty"`
}

// Member is the state of one member of a source, such as the agent of one node.
type Member struct {
	Name      string        `json:"name"`
	Up        bool          `json:"up"`
	Error     string        `json:"lastError,omitempty"`
	Since     time.Time     `json:"since"`  // time of the last contact
	Watermark time.Time     `json:"proved"` // time up to which all lines have been read
	Skew      time.Duration `json:"clockSkewNanoseconds"`
	// Reports lists the open alerts of the member about itself, by name.
	Reports []string `json:"reports,omitempty"`
	// Idle says why the member has nothing to read that a rule can match.
	Idle string `json:"idle,omitempty"`
}

// Unread is an existing log that is not read.
type Unread struct {
	Path   string    `json:"path"`
	Reason string    `json:"why"`
	Since  time.Time `json:"since"`
}

// Stream is the state of one log stream.
type Stream struct {
	Labels   map[string]string `json:"labels"`
	Path     string            `json:"path,omitempty"`
	Offset   int64             `json:"offset"`
	Size     int64             `json:"size"`
	Lines    int64             `json:"lines"`
	LastRead time.Time         `json:"lastRead"`
	Rules    int               `json:"rules"`
}

// UnreadBytes returns the number of bytes between the offset and the known size.
func (s Stream) UnreadBytes() int64 { return max(0, s.Size-s.Offset) }

// Endpoint is the state of one receiver of alerts.
type Endpoint struct {
	Sink     string           `json:"sink"`
	Endpoint string           `json:"endpoint"` // address without credentials
	Up       bool             `json:"up"`
	Error    string           `json:"lastError,omitempty"`
	Sent     int64            `json:"sent"`
	Failed   map[string]int64 `json:"failed,omitempty"` // number of failed messages by reason
	Pending  int              `json:"pending"`
	// ClockSkew is the number of seconds by which the clock of the receiver is ahead of the local clock.
	ClockSkew float64 `json:"clockSkewSeconds"`
	// DownSince is the time when the receiver was first found down, to within 15 seconds. The server sets it.
	DownSince *time.Time `json:"downSince,omitempty"`
}

// Discovery is the state of a lookup that finds receivers.
type Discovery struct {
	Sink      string `json:"sink"`
	Discovery string `json:"discovery"`           // DNS name with the type of its records, or pattern of files
	Up        bool   `json:"up"`                  // whether the last lookup found receivers
	Error     string `json:"lastError,omitempty"` // empty if the last lookup succeeded
	Targets   int    `json:"targets"`             // number of receivers that the last successful lookup found
	Failures  int64  `json:"failures"`
	// FailingSince is the time of the first of the last consecutive failures.
	FailingSince time.Time `json:"failingSince,omitzero"`
}

// Delivery is the answer of one receiver to one alert. Equal consecutive answers are one Delivery.
type Delivery struct {
	Sink     string    `json:"sink"`
	Endpoint string    `json:"endpoint"`
	Time     time.Time `json:"time"`           // time of the first of the equal answers
	Last     time.Time `json:"last"`           // time of the last of the equal answers
	Times    int       `json:"times"`          // number of equal answers
	Resolved bool      `json:"resolved"`       // whether the alert was sent as resolved
	Code     int       `json:"code,omitempty"` // HTTP status; zero if there was no answer
	Error    string    `json:"error,omitempty"`
}

// Status is the state of the process.
type Status struct {
	Start time.Time
	// Missing lists what the daemon lacks to be ready.
	Missing []string
	// Discoveries are the lookups that find receivers.
	Discoveries []Discovery
	// Absent lists the unreachable peers, with the objects that are not watched because of
	// them. The daemon can be ready without these peers.
	Absent []string
	// Unhealthy names the part that has stopped permanently. It is empty if none has.
	Unhealthy string
	// Coverage says which sources are read, like the heartbeat. It is empty before the first check.
	Coverage string
	// Config is the effective configuration as YAML, without secrets.
	Config string
	Flags  map[string]string
	Reload Reload
	// SavedAt is when the state was last written, or zero. SaveErrors is the number of failed attempts.
	SavedAt    time.Time
	SaveErrors int64
	Storage    string // directory that contains the state
	// ExternalURL is the configured address of the pages. It is empty if there is none.
	ExternalURL string
	Pair        *Pair // nil if this process is not part of a pair
}

// Pair describes the role of this process in a pair of processes, of which one leads.
type Pair struct {
	Leads     bool      `json:"leads"`
	Since     time.Time `json:"since"`             // time when the leader took the lead, or 0001-01-01T00:00:00Z if nobody leads
	Leader    string    `json:"leader"`            // address where the leader serves its state; empty if nobody leads
	Record    string    `json:"record"`            // backend that decides which process leads
	StandbyUp bool      `json:"standbyUp"`         // whether the standby could take over without a loss
	Lag       float64   `json:"standbyLag"`        // number of seconds for which the standby has lacked a checkpoint
	Problem   string    `json:"problem,omitempty"` // problem of this process; empty if it has none
}

// Reload is the outcome of the last load of rules and configuration.
type Reload struct {
	OK      bool
	Time    time.Time
	Success time.Time // time of the last successful load
	Error   string
}
