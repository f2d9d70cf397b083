package web

import (
	"context"
	"time"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// View is how the package looks into the daemon. Every function is set, returns
// copies, does not block and is safe for concurrent use.
type View struct {
	// Agent says that this process concludes nothing: it hands what it finds to an
	// aggregator, and its metrics are those of its own part.
	Agent bool
	// Episodes returns what is open and what was resolved lately, the
	// program's own alerts included.
	Episodes func() []episodes.Episode
	Stats    func() episodes.Stats
	Rules    func() Rules
	Sources  func() []Source
	// Endpoints are the receivers of alerts.
	Endpoints func() []Endpoint
	Status    func() Status
	// External returns the labels that the receivers add to every alert that does
	// not have them, each set once; the first is that of the configuration.
	External func() []map[string]string
	// Deliveries returns what the receivers answered to one alert, in order of time;
	// answers that repeat are one.
	Deliveries func(episodes.Fingerprint) []Delivery
	// Timeline returns what happened to the newest episode of an alert, open or
	// ended lately.
	Timeline func(episodes.Fingerprint) (episodes.Timeline, bool)
}

// Rules is what is loaded.
type Rules struct {
	Set *rules.Set
	// Broken holds the packs that were refused and why; their last good
	// version, if any, is in Set.
	Broken []BrokenPack
	// Seen is when a rule last saw a line of a stream that it applies to, by
	// name; a rule that is absent saw none.
	Seen map[string]time.Time
	// Cost is how long the evaluation of each rule took in all, by name.
	Cost map[string]time.Duration
	// Tries is on how many lines each rule was tried, by name.
	Tries map[string]int64
	// OutOfScope holds the rules that are not evaluated here because they need the
	// logs of several nodes.
	OutOfScope map[string]bool
	// GivenUp holds the rules that are not evaluated any more, by name, and
	// says why.
	GivenUp map[string]string
	// Waits holds the rules whose conclusions from silence wait for agents that
	// have another version of them, by name, and says which.
	Waits map[string]string
}

// BrokenPack is a pack whose newest version was refused.
type BrokenPack struct {
	Pack  string `json:"pack"` // its name, or its file where it has none
	Error string `json:"error"`
}

// Source is the state of one source.
type Source struct {
	Name      string        `json:"name"`
	Up        bool          `json:"up"`
	Opened    bool          `json:"opened"` // it was up at least once
	Error     string        `json:"lastError,omitempty"`
	Idle      string        `json:"idle,omitempty"`        // why there is nothing to watch; "": there is
	Away      time.Time     `json:"notSeenSince,omitzero"` // zero: it is seen
	Watermark time.Time     `json:"proved"`                // read up to here for sure
	Lag       time.Duration `json:"lagNanoseconds"`
	Lines     int64         `json:"lines"`
	Bytes     int64         `json:"bytes"`
	// Lines is the sum of Evaluated, Dropped and what is not complete yet.
	Evaluated int64            `json:"evaluated"`
	Dropped   int64            `json:"dropped"`
	Truncated int64            `json:"truncated"`
	Unparsed  int64            `json:"unparsed"`
	Lost      map[string]int64 `json:"lostBytes,omitempty"` // by reason
	Errors    map[string]int64 `json:"errors,omitempty"`    // by reason
	// Losses counts by reason how often lines were gone before they were read.
	Losses  map[string]int64 `json:"losses,omitempty"`
	Streams []Stream         `json:"streams,omitempty"`
	// Unread are logs that are there and are not read.
	Unread []Unread `json:"unread,omitempty"`
	// Filtered tells that it hands on only lines that a rule may match, so that
	// Streams are not all that there are.
	Filtered bool `json:"filtered,omitempty"`
	// Parts are what a source consists of that has no streams of its own, in order.
	Parts []Part `json:"parts,omitempty"`
}

// Part is the state of one part of a source, such as the agent of one node.
type Part struct {
	Name      string        `json:"name"`
	Up        bool          `json:"up"`
	Error     string        `json:"lastError,omitempty"`
	Since     time.Time     `json:"since"`  // it was last heard of
	Watermark time.Time     `json:"proved"` // read up to here for sure
	Skew      time.Duration `json:"clockSkewNanoseconds"`
	// Reports are the alerts that it has open about itself.
	Reports []string `json:"reports,omitempty"`
}

// Unread is a log that is there and is not read.
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

// Unread is how many bytes are known and not read yet.
func (s Stream) Unread() int64 { return max(0, s.Size-s.Offset) }

// Endpoint is the state of one receiver of alerts.
type Endpoint struct {
	Sink     string           `json:"sink"`
	Endpoint string           `json:"endpoint"` // without credentials
	Up       bool             `json:"up"`
	Error    string           `json:"lastError,omitempty"`
	Sent     int64            `json:"sent"`
	Failed   map[string]int64 `json:"failed,omitempty"` // by reason
	Pending  int              `json:"pending"`
	// ClockSkew is by how many seconds its clock is ahead of ours.
	ClockSkew float64 `json:"clockSkewSeconds"`
}

// Delivery is an answer of one receiver to one alert, once or several times in a
// row.
type Delivery struct {
	Sink     string    `json:"sink"`
	Endpoint string    `json:"endpoint"`
	Time     time.Time `json:"time"`
	Last     time.Time `json:"last"`           // the newest time that it answered so
	Times    int       `json:"times"`          // that it answered so
	Resolved bool      `json:"resolved"`       // told as resolved
	Code     int       `json:"code,omitempty"` // status of the answer; 0: there was none
	Error    string    `json:"error,omitempty"`
}

// Status is the state of the process.
type Status struct {
	Start time.Time
	// Missing says what is still missing before the daemon is ready.
	Missing []string
	// Absent says which peers are away and what is not seen because of them. It
	// does not keep the daemon from being ready.
	Absent []string
	// Unhealthy says what has stopped for good; "" if nothing has.
	Unhealthy string
	// Config is the effective configuration as YAML, without secrets.
	Config string
	Flags  map[string]string
	Reload Reload
	// Saved is when state was last written; zero: never. SaveErrors counts
	// failures.
	Saved      time.Time
	SaveErrors int64
	Storage    string // the folder of the state
}

// Reload is the outcome of the last reload, the first load included.
type Reload struct {
	OK      bool
	At      time.Time
	Success time.Time // of the last one that succeeded
	Error   string
}

// ReloadFunc loads rules and configuration again and returns the whole error.
type ReloadFunc func(ctx context.Context) error
