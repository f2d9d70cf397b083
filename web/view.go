package web

import (
	"time"

	"crowsnest/episodes"
	"crowsnest/history"
	"crowsnest/redact"
	"crowsnest/rules"
)

// View gives the package access to the state of the daemon. Every function is
// set, returns copies, does not block and is safe for concurrent use.
type View struct {
	// Episodes returns the open and the recently resolved episodes, including the
	// daemon's own alerts.
	Episodes func() []episodes.Episode
	Stats    func() episodes.Stats
	Rules    func() Rules
	Sources  func() []Source
	// Endpoints returns the state of every receiver of alerts.
	Endpoints func() []Endpoint
	Status    func() Status
	// External returns the distinct sets of labels that receivers add to alerts that
	// lack them. The first set is that of the configuration.
	External func() []map[string]string
	// Deliveries returns the answers of all receivers to one alert, ordered by time.
	// Repeated answers are merged.
	Deliveries func(episodes.Fingerprint) []Delivery
	// Timeline returns the events of the newest episode of an alert, open or recently
	// ended.
	Timeline func(episodes.Fingerprint) (episodes.Timeline, bool)
	// Unknown returns the failures that no rule describes, and UnknownRule a pack with a
	// rule for one of them, by its fingerprint.
	Unknown     func() Unknown
	UnknownRule func(fingerprint string) (string, error)
	// History returns the ended episodes that are remembered, the newest start first, and
	// Past those of one alert. They are read-only, and empty on an agent.
	History func() []*history.Entry
	Past    func(episodes.Fingerprint) []*history.Entry
	// Links returns where the pages link to.
	Links func() Links
}

// Links are addresses of other programs, for browsers.
type Links struct {
	// Logs is the template of the address of an alert's logs; empty if there is none.
	// logsLink replaces its placeholders.
	Logs string
	// Alertmanager is the address of its pages; empty if not known.
	Alertmanager string
	// Silences lets the pages make silences, with Options.Silence.
	Silences bool
}

// Unknown is what complaints that no rule matches show.
type Unknown struct {
	Enabled bool `json:"enabled"`
	// Forwarded is set on an agent: the aggregator concludes.
	Forwarded bool `json:"forwarded,omitempty"`
	PerDay    int  `json:"alertsPerDay"`
	// Patterns and Components are how many are remembered; Evicted were forgotten for lack
	// of room.
	Patterns   int64            `json:"patterns"`
	Components int64            `json:"components"`
	Evicted    int64            `json:"evicted"`
	Failures   []UnknownFailure `json:"failures"`
}

// UnknownFailure is a failure that no rule describes: the worst complaints of one component.
type UnknownFailure struct {
	Fingerprint string `json:"fingerprint"`
	// State is alert, held (the limit of a day is reached), or known (notified within a
	// week).
	State string `json:"state"`
	// Why is new, or persists.
	Why       string            `json:"why"`
	Component string            `json:"component"`
	Labels    map[string]string `json:"labels"`
	Pattern   redact.Text       `json:"pattern"`
	Also      []redact.Text     `json:"also,omitempty"` // further patterns
	Level     string            `json:"level"`
	Object    redact.Text       `json:"object,omitempty"`
	Since     time.Time         `json:"since"`
	Last      time.Time         `json:"last"`
	Count     int64             `json:"count"` // lines, at least
	Pods      []string          `json:"pods,omitempty"`
	Changes   []string          `json:"changes,omitempty"` // shortly before
	Examples  []redact.Text     `json:"examples"`
	Ignore    string            `json:"ignore"` // line of configuration that turns it off
}

// Rules describes the loaded rules. The maps are keyed by the name of a rule.
type Rules struct {
	Set *rules.Set
	// Broken holds the refused packs and the reasons; Set contains their last good
	// version, if any.
	Broken []BrokenPack
	// Seen is when a stream that a rule applies to was last read; a rule without an
	// entry received no line.
	Seen map[string]time.Time
	// Cost is the total time that the evaluation of a rule took.
	Cost map[string]time.Duration
	// Tries is the number of lines that a rule was tried on.
	Tries map[string]int64
	// OutOfScope holds the rules that are not evaluated here because they need the
	// logs of several nodes.
	OutOfScope map[string]bool
	// Quarantined holds the rules that are no longer evaluated, and the reasons.
	Quarantined map[string]string
	// Running holds the versions of components that run, as tags of images; "" is an unknown
	// one.
	Running map[string][]string
	// Waits holds the rules whose absence-based conclusions wait for agents with
	// another version of the rule, and names these agents.
	Waits map[string]string
}

// BrokenPack is a pack whose newest version was refused.
type BrokenPack struct {
	Pack  string `json:"pack"` // its name, or its file where it has none
	Error string `json:"error"`
	// Missing is set if there is no earlier version either.
	Missing bool `json:"missing,omitempty"`
}

// Source is the state of one source.
type Source struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Opened bool   `json:"opened"` // reports whether the source was up at least once
	Error  string `json:"lastError,omitempty"`
	Idle   string `json:"idle,omitempty"` // why it has nothing to read that a rule can match; empty if it has
	// IdleReason is not_installed, no_logs, unreadable, no_lines or no_rules.
	IdleReason string   `json:"idleReason,omitempty"`
	Absent     []string `json:"absent,omitempty"` // what it is configured to read and what does not exist
	// LeftOut counts, by namespace, what it cannot remember for lack of room.
	LeftOut   map[string]int64 `json:"leftOut,omitempty"`
	Away      time.Time        `json:"notSeenSince,omitzero"` // start of the outage; zero if there is none
	Watermark time.Time        `json:"proved"`                // all lines read up to
	Lag       time.Duration    `json:"lagNanoseconds"`
	Lines     int64            `json:"lines"`
	Bytes     int64            `json:"bytes"`
	// Lines is the sum of Evaluated, Dropped and incomplete lines.
	Evaluated int64            `json:"evaluated"`
	Dropped   int64            `json:"dropped"`
	Truncated int64            `json:"truncated"`
	Unparsed  int64            `json:"unparsed"`
	Lost      map[string]int64 `json:"lostBytes,omitempty"` // lost bytes by reason
	Errors    map[string]int64 `json:"errors,omitempty"`    // errors by reason
	// Losses counts, by reason, how often lines were deleted before they were read.
	Losses  map[string]int64 `json:"losses,omitempty"`
	Streams []Stream         `json:"streams,omitempty"`
	// Unread holds existing logs that are not read.
	Unread []Unread `json:"unread,omitempty"`
	// Filtered is set if the source delivers only lines that a rule may match.
	// Streams is then incomplete.
	Filtered bool `json:"filtered,omitempty"`
	// Members are the members of a source without streams of its own, ordered by
	// name.
	Members []Member `json:"parts,omitempty"`
	// LinesPerSecond is the mean of the last complete minutes, at most five. The server sets
	// it once it is known.
	LinesPerSecond *float64 `json:"linesPerSecond,omitempty"`
}

// Member is the state of one member of a source, such as the agent of one node.
type Member struct {
	Name      string        `json:"name"`
	Up        bool          `json:"up"`
	Error     string        `json:"lastError,omitempty"`
	Since     time.Time     `json:"since"`  // last contact
	Watermark time.Time     `json:"proved"` // all lines read up to
	Skew      time.Duration `json:"clockSkewNanoseconds"`
	// Reports are the names of its open alerts about itself.
	Reports []string `json:"reports,omitempty"`
	// Idle explains why it has nothing to read that a rule can match.
	Idle string `json:"idle,omitempty"`
}

// Unread is an existing log that is not read.
type Unread struct {
	Path  string    `json:"path"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
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

// Unread returns the number of bytes between the offset and the known size.
func (s Stream) Unread() int64 { return max(0, s.Size-s.Offset) }

// Endpoint is the state of one receiver of alerts.
type Endpoint struct {
	Sink     string           `json:"sink"`
	Endpoint string           `json:"endpoint"` // without credentials
	Up       bool             `json:"up"`
	Error    string           `json:"lastError,omitempty"`
	Sent     int64            `json:"sent"`
	Failed   map[string]int64 `json:"failed,omitempty"` // failed messages by reason
	Pending  int              `json:"pending"`
	// ClockSkew is how many seconds its clock is ahead of the local one.
	ClockSkew float64 `json:"clockSkewSeconds"`
	// DownSince is when it was first seen down, to 15 seconds. The server sets it.
	DownSince *time.Time `json:"downSince,omitempty"`
}

// Delivery is an answer of one receiver to one alert. Equal consecutive answers
// are one Delivery.
type Delivery struct {
	Sink     string    `json:"sink"`
	Endpoint string    `json:"endpoint"`
	Time     time.Time `json:"time"`           // time of the first of the equal responses
	Last     time.Time `json:"last"`           // time of the last of the equal responses
	Times    int       `json:"times"`          // how many there were
	Resolved bool      `json:"resolved"`       // the alert was sent as resolved
	Code     int       `json:"code,omitempty"` // HTTP status; zero if no answer
	Error    string    `json:"error,omitempty"`
}

// Status is the state of the process.
type Status struct {
	Start time.Time
	// Missing lists what the daemon needs before it is ready.
	Missing []string
	// Absent lists the unreachable peers and what is not watched because of them.
	// The daemon can be ready without them.
	Absent []string
	// Unhealthy names what has stopped permanently; "" if nothing has.
	Unhealthy string
	// Coverage is what is read, as the heartbeat states it; "" before the first check.
	Coverage string
	// Config is the effective configuration as YAML, without secrets.
	Config string
	Flags  map[string]string
	Reload Reload
	// Saved is when the state was last written; zero if never. SaveErrors counts the
	// failed attempts.
	Saved      time.Time
	SaveErrors int64
	Storage    string // directory of the state
	// ExternalURL is the configured address of the pages; empty if there is none.
	ExternalURL string
	Pair        *Pair // nil if this process has no standby and is none
}

// Pair is the part of this process in a pair of which one leads.
type Pair struct {
	Leads     bool      `json:"leads"`
	Since     time.Time `json:"since"`             // when the leader took the lead; 0001-01-01T00:00:00Z: nobody leads
	Leader    string    `json:"leader"`            // where it serves its state; empty if nobody leads
	Record    string    `json:"record"`            // what decides who leads
	StandbyUp bool      `json:"standbyUp"`         // the standby could take over without a loss
	Lag       float64   `json:"standbyLag"`        // seconds for which the standby has lacked a checkpoint
	Problem   string    `json:"problem,omitempty"` // problem of this process
}

// Reload is the outcome of the last load of rules and configuration.
type Reload struct {
	OK      bool
	At      time.Time
	Success time.Time // time of the last successful load
	Error   string
}
