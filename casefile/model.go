// Package casefile makes a file about failures that a person on call can forward and
// keep: what failed, what else was open there, the lines in order of time, what to do,
// and what could not be seen. Its content is redacted, and nothing in it acts as markup.
package casefile

import (
	"strconv"
	"time"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/replay"
)

// Format is the version of the JSON form. It rises if a field changes its meaning or goes;
// fields may be added.
const Format = 1

// Case is a case file. Its texts are redacted and have no control characters; only
// descriptions and remediations have several lines.
type Case struct {
	Format int       `json:"format" jsonschema:"enum=1" jsonschema_description:"Version of this form. It rises if a field changes its meaning or goes."`
	MadeAt time.Time `json:"made_at" jsonschema_description:"When the file was made."`
	MadeBy string    `json:"made_by" jsonschema_description:"Version of crowsnest that made the file."`

	Evidence Evidence  `json:"evidence" jsonschema_description:"What was read."`
	Failures []Failure `json:"failures" jsonschema_description:"Failures in order of their beginning."`
	Findings []Finding `json:"findings" jsonschema_description:"Failures that lines show and rules describe, and that are no alert: recorded logs only."`
	Unknown  []Unknown `json:"unknown" jsonschema_description:"Complaints that no rule describes: recorded logs only."`
	Chains   []Chain   `json:"chains" jsonschema_description:"Failures that were open at the same time in the same place. The order in time suggests a cause and does not prove it; the causes that rules state are in the failures."`
	Timeline []Entry   `json:"timeline" jsonschema_description:"What happened, over all sources, in order of time."`
	NotSeen  []Gap     `json:"not_seen" jsonschema_description:"What could not be seen, so that its absence proves nothing."`
}

// Evidence describes what a case is made from.
type Evidence struct {
	Kind    string     `json:"kind" jsonschema:"enum=recorded,enum=daemon" jsonschema_description:"Recorded logs, or a running daemon."`
	Names   []string   `json:"names" jsonschema_description:"Files and folders that were read, or the address of the daemon."`
	From    *time.Time `json:"from,omitempty" jsonschema_description:"Time of the first matched line of recorded logs."`
	Until   *time.Time `json:"until,omitempty" jsonschema_description:"Time up to which something is known: of the last line, or when the daemon answered."`
	Lines   int64      `json:"lines" jsonschema_description:"Lines that were read."`
	Rules   int        `json:"rules" jsonschema_description:"Rules that were evaluated."`
	Sources []Source   `json:"sources" jsonschema_description:"What was read, by source."`
}

// Source is one kind of recorded input, or one source of a daemon.
type Source struct {
	Name    string     `json:"name"`
	State   string     `json:"state,omitempty" jsonschema_description:"Whether a source of a daemon can be read, and why not."`
	Streams int        `json:"streams" jsonschema_description:"Recorded inputs, or streams that a daemon follows."`
	Lines   int64      `json:"lines"`
	From    *time.Time `json:"from,omitempty" jsonschema_description:"Time of its first recorded line."`
	Until   *time.Time `json:"until,omitempty" jsonschema_description:"Time up to which all of its lines were read."`
}

// Failure is one failure. With Subject it is one that the file is about; the others were
// open in the same place at the same time.
type Failure struct {
	ID          int               `json:"id" jsonschema_description:"Number of the failure in this file."`
	Subject     bool              `json:"subject" jsonschema_description:"Whether the file is about this failure; the others were open at the same time in the same place."`
	Fingerprint string            `json:"fingerprint"`
	Alert       string            `json:"alert"`
	State       episodes.State    `json:"state" jsonschema:"enum=pending,enum=firing,enum=resolved,enum=dropped"`
	Ended       string            `json:"ended,omitempty" jsonschema_description:"Why it ended."`
	OnHold      bool              `json:"on_hold,omitempty" jsonschema_description:"Whether a conclusion from silence waits for a source."`
	WaitsFor    []string          `json:"waits_for,omitempty" jsonschema_description:"Sources that the conclusion waits for."`
	Severity    string            `json:"severity,omitempty"`
	Summary     string            `json:"summary,omitempty"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels"`
	Since       time.Time         `json:"since,omitzero" jsonschema_description:"When it began as far as lines show; absent: the lines state no time."`
	FiredAt     *time.Time        `json:"fired_at,omitempty" jsonschema_description:"When it was certain."`
	LastSeen    time.Time         `json:"last_seen,omitzero" jsonschema_description:"Time of the newest matching line; absent: it states none."`
	EndsAt      *time.Time        `json:"ends_at,omitempty"`
	Count       int64             `json:"count" jsonschema_description:"Matching lines."`
	Log         string            `json:"log,omitempty" jsonschema_description:"Log that the lines came from."`
	FirstLine   redact.Text       `json:"first_line,omitempty"`
	Line        redact.Text       `json:"line,omitempty" jsonschema_description:"Newest matching line."`
	Remediation string            `json:"remediation,omitempty" jsonschema_description:"What to do."`
	Runbook     string            `json:"runbook_url,omitempty"`
	Affected    string            `json:"affected,omitempty" jsonschema_description:"The running version compared with the affected ones; absent: the rule lists no versions."`
	FixedIn     string            `json:"fixed_in,omitempty"`
	Cause       *Cause            `json:"cause,omitempty" jsonschema_description:"Failure that this one is a symptom of, as its rule states."`
	Also        []string          `json:"also,omitempty" jsonschema_description:"Further rules about the same: more general ones that match all of its lines, and chatter about the same object."`
	Assumes     string            `json:"assumes,omitempty" jsonschema_description:"What recorded lines do not show, such as that the failure goes on after them."`
	After       []Link            `json:"after" jsonschema_description:"Failures in the same place that were open when this one began."`
}

// Finding is a failure that lines show and a rule describes, and that is no alert.
type Finding struct {
	Reason  replay.Doubt `json:"reason" jsonschema:"enum=too_short,enum=too_few,enum=waiting,enum=elsewhere,enum=recovered,enum=untrusted" jsonschema_description:"Why it is no alert."`
	Missing string       `json:"missing" jsonschema_description:"What an alert needs beyond what the log shows."`
	Others  []string     `json:"others,omitempty" jsonschema_description:"Labels of further failures of the rule, at most 20."`
	Further int          `json:"further,omitempty" jsonschema_description:"How many more there are."`
	Failure
}

// Unknown is a complaint that no rule describes.
type Unknown struct {
	Where   string      `json:"where" jsonschema_description:"Component that complains."`
	Pattern string      `json:"pattern" jsonschema_description:"Its text without what differs from line to line."`
	Why     string      `json:"why" jsonschema_description:"Whether it is new, persists, repeats, or was seen once in a short log."`
	Since   time.Time   `json:"since,omitzero" jsonschema_description:"Time of the first line; absent: it states none."`
	Last    time.Time   `json:"last,omitzero" jsonschema_description:"The same of the newest one."`
	Count   int64       `json:"count" jsonschema_description:"Number of lines, at least."`
	Example redact.Text `json:"example"`
}

// Cause is the failure that another one is a symptom of.
type Cause struct {
	ID          int       `json:"id,omitempty" jsonschema_description:"Number of the failure; absent: it is not in this file."`
	Alert       string    `json:"alert"`
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
}

// Link points to an earlier failure.
type Link struct {
	ID   int      `json:"id"`
	Same []string `json:"same" jsonschema_description:"What both share, such as namespace kube-system."`
}

// Chain is a group of failures of one place, in order of their beginning.
type Chain struct {
	Failures []int `json:"failures" jsonschema_description:"Numbers of the failures."`
}

// Entry is one event of the timeline.
type Entry struct {
	At     *time.Time  `json:"at,omitempty" jsonschema_description:"Absent: the present state; in a file about recorded logs, a line that states no time, or what follows from it."`
	Kind   string      `json:"kind" jsonschema_description:"line: of a log. began, fired, ended: of a failure. Others have the names of the events in the API of the daemon."`
	Source string      `json:"source,omitempty" jsonschema_description:"Kind of the source of the line: pod log, journal, Events, objects or log."`
	Log    string      `json:"log,omitempty" jsonschema_description:"Log that the line came from."`
	Text   string      `json:"text"`
	Line   redact.Text `json:"line,omitempty"`
	Of     []int       `json:"of" jsonschema_description:"Numbers of the failures that the entry belongs to."`
}

// Gap is something that could not be seen.
type Gap struct {
	Text  string   `json:"text"`
	Items []string `json:"items" jsonschema_description:"The first instances."`
	More  int      `json:"more,omitempty" jsonschema_description:"Number of further instances."`
}

// maxItems bounds the instances of a gap that are named.
const maxItems = 20

// gap returns a gap that names the first instances.
func gap(text string, items ...string) Gap {
	g := Gap{Text: text, Items: []string{}}
	for _, item := range items[:min(len(items), maxItems)] {
		g.Items = append(g.Items, line(item))
	}
	g.More = max(0, len(items)-maxItems)
	return g
}

// Title says what the case is about, in a few words.
func (c *Case) Title() string {
	var subjects []string
	for _, f := range c.Failures {
		if f.Subject {
			subjects = append(subjects, f.Alert)
		}
	}
	switch len(subjects) {
	case 0:
		for _, f := range c.Findings {
			if f.EndsAt == nil {
				return "Not certain: " + f.Alert
			}
		}
		return "No known failure"
	case 1:
		return subjects[0]
	}
	return strconv.Itoa(len(subjects)) + " failures"
}

// Related returns how many failures were open beside the subjects.
func (c *Case) Related() int {
	n := 0
	for _, f := range c.Failures {
		if !f.Subject {
			n++
		}
	}
	return n
}

// With returns what the page needs to show a failure.
func (c *Case) With(f Failure) []any { return []any{c, f} }
