// Package casefile makes a file about failures that a person on call can forward and keep. The
// file contains what failed and what else was open in the same place, the lines in order of
// time, the remediation, and what could not be seen. Its content is redacted and cannot act as
// markup.
package casefile

import (
	"strconv"
	"time"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/replay"
)

// Format is the version of the JSON form. It increases if the meaning of a field changes or a
// field is removed, but not if fields are added.
const Format = 1

// Case is a case file. Its texts are redacted and have no control characters. Only descriptions
// and remediations may have several lines.
type Case struct {
	Format int       `json:"format" jsonschema:"enum=1" jsonschema_description:"Version of this form. It increases if the meaning of a field changes or a field is removed."`
	MadeAt time.Time `json:"made_at" jsonschema_description:"When the file was made."`
	MadeBy string    `json:"made_by" jsonschema_description:"Version of crowsnest that made the file."`

	Evidence Evidence  `json:"evidence" jsonschema_description:"What was read."`
	Failures []Failure `json:"failures" jsonschema_description:"Failures, ordered by when they began."`
	Findings []Finding `json:"findings" jsonschema_description:"Failures that lines show and rules describe, but that did not become an alert. Only for recorded logs."`
	Unknown  []Unknown `json:"unknown" jsonschema_description:"Problems in the logs that no rule describes. Only for recorded logs."`
	Chains   []Chain   `json:"chains" jsonschema_description:"Groups of failures that were open at the same time in the same place. Their order in time suggests a cause but does not prove it. Causes that rules state are in the failures."`
	Timeline []Entry   `json:"timeline" jsonschema_description:"Events from all sources, ordered by time."`
	NotSeen  []Gap     `json:"not_seen" jsonschema_description:"What could not be seen, so that its absence proves nothing."`
}

// Evidence describes the data from which a case is made.
type Evidence struct {
	Kind    string     `json:"kind" jsonschema:"enum=recorded,enum=daemon" jsonschema_description:"Recorded logs, or a running daemon."`
	Names   []string   `json:"names" jsonschema_description:"Files and folders that were read, or the address of the daemon."`
	From    *time.Time `json:"from,omitempty" jsonschema_description:"Time of the first matched line of recorded logs."`
	Until   *time.Time `json:"until,omitempty" jsonschema_description:"Time of the last line, or time when the daemon answered."`
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
	From    *time.Time `json:"from,omitempty" jsonschema_description:"Time of the first recorded line of the source."`
	Until   *time.Time `json:"until,omitempty" jsonschema_description:"Time up to which all lines of the source were read."`
}

// Failure is one failure. Those with Subject are what the file is about. The others were open
// in the same place at the same time.
type Failure struct {
	ID          int               `json:"id" jsonschema_description:"Number of the failure in this file."`
	Subject     bool              `json:"subject" jsonschema_description:"Whether the file is about this failure; the others were open at the same time in the same place."`
	Fingerprint string            `json:"fingerprint"`
	Alert       string            `json:"alert"`
	State       episodes.State    `json:"state" jsonschema:"enum=pending,enum=firing,enum=resolved,enum=dropped"`
	Ended       string            `json:"ended,omitempty" jsonschema_description:"Why the failure ended."`
	OnHold      bool              `json:"on_hold,omitempty" jsonschema_description:"Whether a conclusion from silence waits for a source."`
	WaitsFor    []string          `json:"waits_for,omitempty" jsonschema_description:"Sources that the conclusion waits for."`
	Severity    string            `json:"severity,omitempty"`
	Summary     string            `json:"summary,omitempty"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels"`
	Since       time.Time         `json:"since,omitzero" jsonschema_description:"When the failure began, as far as lines show. Absent if the lines state no time."`
	FiredAt     *time.Time        `json:"fired_at,omitempty" jsonschema_description:"When the failure was certain and the alert fired."`
	LastSeen    time.Time         `json:"last_seen,omitzero" jsonschema_description:"Time of the newest matching line. Absent if the line states none."`
	EndsAt      *time.Time        `json:"ends_at,omitempty"`
	Count       int64             `json:"count" jsonschema_description:"Number of matching lines."`
	Log         string            `json:"log,omitempty" jsonschema_description:"Log that the lines came from."`
	FirstLine   redact.Text       `json:"first_line,omitempty"`
	Line        redact.Text       `json:"line,omitempty" jsonschema_description:"Newest matching line."`
	Remediation string            `json:"remediation,omitempty" jsonschema_description:"What to do."`
	Runbook     string            `json:"runbook_url,omitempty"`
	Affected    string            `json:"affected,omitempty" jsonschema_description:"The running version compared with the affected ones. Absent if the rule lists no versions."`
	FixedIn     string            `json:"fixed_in,omitempty"`
	Cause       *Cause            `json:"cause,omitempty" jsonschema_description:"Failure of which this one is a symptom, according to its rule."`
	Also        []string          `json:"also,omitempty" jsonschema_description:"Further rules about the same failure: more general ones that match all of its lines, and rules of severity info about the same object."`
	Assumes     string            `json:"assumes,omitempty" jsonschema_description:"Something that the recorded lines do not show and that is assumed, such as that the failure continues after them."`
	After       []Link            `json:"after" jsonschema_description:"Failures in the same place that were open when this one began."`
}

// Finding is a failure that lines show and a rule describes, but that did not become an alert.
type Finding struct {
	Reason  replay.Doubt `json:"reason" jsonschema:"enum=too_short,enum=too_few,enum=waiting,enum=elsewhere,enum=recovered,enum=untrusted" jsonschema_description:"Why the failure did not become an alert."`
	Missing string       `json:"missing" jsonschema_description:"What an alert needs beyond what the log shows."`
	Others  []string     `json:"others,omitempty" jsonschema_description:"Labels of further failures of the rule, at most 20."`
	Further int          `json:"further,omitempty" jsonschema_description:"Number of further failures that are not in others."`
	Failure
}

// Unknown is an error in the logs that no rule describes.
type Unknown struct {
	Where   string      `json:"where" jsonschema_description:"Component that reports the problem."`
	Pattern string      `json:"pattern" jsonschema_description:"Text of the lines, without the parts that differ from line to line."`
	Why     string      `json:"why" jsonschema_description:"Whether the problem is new, persists, repeats, or was seen once in a short log."`
	Since   time.Time   `json:"since,omitzero" jsonschema_description:"Time of the first line. Absent if the line states none."`
	Last    time.Time   `json:"last,omitzero" jsonschema_description:"Time of the newest line. Absent if the line states none."`
	Count   int64       `json:"count" jsonschema_description:"Minimum number of lines."`
	Example redact.Text `json:"example"`
}

// Cause is the failure of which another failure is a symptom.
type Cause struct {
	ID          int       `json:"id,omitempty" jsonschema_description:"Number of the failure. Absent if the failure is not in this file."`
	Alert       string    `json:"alert"`
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
}

// Link refers to an earlier failure.
type Link struct {
	ID   int      `json:"id"`
	Same []string `json:"same" jsonschema_description:"What the two failures have in common, such as namespace kube-system."`
}

// Chain is a group of related failures, ordered by when they began.
type Chain struct {
	Failures []int `json:"failures" jsonschema_description:"Numbers of the failures."`
}

// Entry is one event of the timeline.
type Entry struct {
	At     *time.Time  `json:"at,omitempty" jsonschema_description:"Time of the event. Absent for the present state and, in a file about recorded logs, for a line that states no time and for what follows from that line."`
	Kind   string      `json:"kind" jsonschema_description:"line is a line of a log. began, fired and ended are about a failure. Other kinds have the names of the events in the API of the daemon."`
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

// maxItems is the maximum number of items that a gap names.
const maxItems = 20

// newGap returns a gap that names the first items.
func newGap(text string, items ...string) Gap {
	g := Gap{Text: text, Items: []string{}}
	for _, item := range items[:min(len(items), maxItems)] {
		g.Items = append(g.Items, safeLine(item))
	}
	g.More = max(0, len(items)-maxItems)
	return g
}

// Title returns a few words about the subject of the case.
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

// Related returns the number of failures that were open besides the subjects.
func (c *Case) Related() int {
	n := 0
	for _, f := range c.Failures {
		if !f.Subject {
			n++
		}
	}
	return n
}

// With returns the data that the page template needs to show a failure.
func (c *Case) With(f Failure) []any { return []any{c, f} }
