// Package casefile makes a file about failures that a person on call can forward and keep. The file contains the
// failures, other failures that were open in the same place, the log lines in order of time, the remediation, and the
// gaps in the data. Secrets are redacted, and no text can act as markup.
package casefile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/replay"
)

// Format is the version of the JSON form. It increases if the meaning of a field changes or a
// field is removed, but not if fields are added.
const Format = 1

// Case is the content of a case file. Its texts are redacted and have no control characters. Only descriptions and
// remediations may have several lines.
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

// Failure is one failure. Failures with Subject set are the topic of the file. The other failures were open in the same
// place at the same time.
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
	OtherRules  []string          `json:"also,omitempty" jsonschema_description:"Further rules about the same failure: more general ones that match all of its lines, and rules of severity info about the same object."`
	Assumes     string            `json:"assumes,omitempty" jsonschema_description:"Something that the recorded lines do not show and that is assumed, such as that the failure continues after them."`
	Preceding   []Link            `json:"after" jsonschema_description:"Failures in the same place that were open when this one began."`
}

// Finding is a failure that a rule describes and whose lines occurred, but that did not become an alert.
type Finding struct {
	Reason       replay.Doubt `json:"reason" jsonschema:"enum=too_short,enum=too_few,enum=waiting,enum=elsewhere,enum=recovered,enum=untrusted" jsonschema_description:"Why the failure did not become an alert."`
	Missing      string       `json:"missing" jsonschema_description:"What an alert needs beyond what the log shows."`
	Others       []string     `json:"others,omitempty" jsonschema_description:"Labels of further failures of the rule, at most 20."`
	FurtherCount int          `json:"further,omitempty" jsonschema_description:"Number of further failures that are not in others."`
	Failure
}

// Unknown is an error in the logs that no rule describes.
type Unknown struct {
	Where   string      `json:"where" jsonschema_description:"Component that reports the problem."`
	Pattern string      `json:"pattern" jsonschema_description:"Text of the lines, without the parts that differ from line to line."`
	Reason  string      `json:"why" jsonschema_description:"Whether the problem is new, persists, repeats, or was seen once in a short log."`
	Since   time.Time   `json:"since,omitzero" jsonschema_description:"Time of the first line. Absent if the line states none."`
	Last    time.Time   `json:"last,omitzero" jsonschema_description:"Time of the newest line. Absent if the line states none."`
	Count   int64       `json:"count" jsonschema_description:"Minimum number of lines."`
	Example redact.Text `json:"example"`
}

// Cause is the failure that caused another failure.
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

// Chain is a group of failures that are connected as cause and symptom, ordered by when they began.
type Chain struct {
	Failures []int `json:"failures" jsonschema_description:"Numbers of the failures."`
}

// Entry is one event of the timeline.
type Entry struct {
	Time       *time.Time  `json:"at,omitempty" jsonschema_description:"Time of the event. Absent for the present state and, in a file about recorded logs, for a line that states no time and for what follows from that line."`
	Kind       string      `json:"kind" jsonschema_description:"line is a line of a log. began, fired and ended are about a failure. Other kinds have the names of the events in the API of the daemon."`
	Source     string      `json:"source,omitempty" jsonschema_description:"Kind of the source of the line: pod log, journal, Events, objects or log."`
	Log        string      `json:"log,omitempty" jsonschema_description:"Log that the line came from."`
	Text       string      `json:"text"`
	Line       redact.Text `json:"line,omitempty"`
	FailureIDs []int       `json:"of" jsonschema_description:"Numbers of the failures that the entry belongs to."`
}

// Gap describes data that could not be seen.
type Gap struct {
	Text         string   `json:"text"`
	Items        []string `json:"items" jsonschema_description:"The first instances."`
	FurtherCount int      `json:"more,omitempty" jsonschema_description:"Number of further instances."`
}

const maxItems = 20

// addGap adds a gap. The text of the gap names the first items.
func (c *Case) addGap(text string, items ...string) {
	g := Gap{Text: text, Items: []string{}, FurtherCount: max(0, len(items)-maxItems)}
	for _, item := range items[:min(len(items), maxItems)] {
		g.Items = append(g.Items, safeLine(item))
	}
	c.NotSeen = append(c.NotSeen, g)
}

func (c *Case) addList(text string, items []string) {
	if len(items) > 0 {
		c.addGap(text, items...)
	}
}

// addCount adds a gap whose text contains the number n of things. It does nothing if n is zero.
func (c *Case) addCount(format string, n int64, noun string) {
	if n > 0 {
		c.addGap(fmt.Sprintf(format, formatCount(n, noun)))
	}
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

// Related reports whether the case contains failures that are not subjects.
func (c *Case) Related() bool {
	return slices.ContainsFunc(c.Failures, func(f Failure) bool { return !f.Subject })
}

// With returns the case and the failure f as the data of a template that shows f.
func (c *Case) With(f Failure) []any { return []any{c, f} }

// safeLine returns s on one line without control characters. The text may come from a log.
func safeLine(s string) string { return strings.Join(strings.Fields(redact.Sanitise(s)), " ") }

func safeLines(s string) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range all {
		all[i] = redact.Sanitise(l)
	}
	return strings.Join(all, "\n")
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// noTime is shown instead of a time if the lines state none.
const noTime = "no time in the log"

func formatTime(t time.Time) string {
	if t.IsZero() {
		return noTime
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func formatSince(t time.Time) string {
	if t.IsZero() {
		return noTime
	}
	return "since " + formatTime(t)
}

// WithoutTime returns the text that is shown in place of the time for entries without a time.
func (c *Case) WithoutTime() string {
	if c.Evidence.Kind == kindRecorded {
		return noTime
	}
	return "now"
}

func (e Entry) entryTime() time.Time {
	if e.Time == nil {
		return time.Time{}
	}
	return *e.Time
}

// formatDuration formats a duration with at most two units.
func formatDuration(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

func formatCount(n int64, noun string) string {
	return text.GroupThousands(n) + " " + text.PluralNoun(n, noun)
}

// Pair is the name and value of a label.
type Pair struct{ Name, Value string }

// Where returns the labels that state the place of a failure.
func (f Failure) Where() []Pair {
	var out []Pair
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		switch name {
		case "alertname", "severity", "resolves":
			continue
		}
		out = append(out, Pair{name, f.Labels[name]})
	}
	return out
}

// Place formats the labels that state the place of a failure as name=value.
func (f Failure) Place() string { return joinLabels(f.Labels, "=", " ") }

func joinLabels(labels map[string]string, equals, separator string) string {
	var out []string
	for _, p := range (Failure{Labels: labels}).Where() {
		out = append(out, p.Name+equals+p.Value)
	}
	return strings.Join(out, separator)
}

// ExampleLines returns the first and the newest line of a failure.
func (f Failure) ExampleLines() string {
	lines := slices.Compact([]string{string(f.FirstLine), string(f.Line)})
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
}

// When returns a text about the time for which a failure has been open, or was open.
func (f Failure) When() string {
	out := formatSince(f.Since)
	switch {
	case f.Since.IsZero() && f.EndsAt == nil:
	case f.Since.IsZero():
		out = "ended " + formatTime(*f.EndsAt)
	case f.EndsAt != nil:
		out = fmt.Sprintf("%s to %s (%s)", formatTime(f.Since), formatTime(*f.EndsAt), formatDuration(f.EndsAt.Sub(f.Since)))
	case f.FiredAt == nil:
		out += ", not certain yet"
	}
	if f.FiredAt != nil {
		if d := f.FiredAt.Sub(f.Since); d >= time.Second {
			out += ", certain after " + formatDuration(d)
		}
	}
	if f.Ended != "" {
		out += "; ended: " + f.Ended
	}
	return out
}

// Newest returns a clause about the time of the newest line. It returns "" if the line has no timestamp.
func (f Failure) Newest() string {
	if f.LastSeen.IsZero() {
		return ""
	}
	return "; newest line " + formatTime(f.LastSeen)
}

// Waiting returns a text about what a failure on hold waits for. It returns "" if the failure is not on hold.
func (f Failure) Waiting() string {
	switch {
	case !f.OnHold:
		return ""
	case len(f.WaitsFor) == 0:
		return "on hold: no source reads the lines that decide"
	}
	return "on hold: no progress from " + strings.Join(f.WaitsFor, ", ")
}

// Versions compares the running version of a component with the affected versions.
func (f Failure) Versions() string {
	switch {
	case f.Affected == "":
		return "No affected versions are known for this failure."
	case f.FixedIn == "" || strings.Contains(f.Affected, f.FixedIn):
		return f.Affected
	}
	return f.Affected + " Fixed in " + f.FixedIn + "."
}

// Began returns a text about the failures that were open when f began, and how much earlier they began.
func (c *Case) Began(f Failure) string {
	if len(f.Preceding) == 0 {
		return "nothing else in this file was open there before"
	}
	var parts []string
	for _, l := range f.Preceding[:min(3, len(f.Preceding))] {
		before := c.Failures[l.ID-1]
		parts = append(parts, fmt.Sprintf("%d %s, %s earlier (same %s)", l.ID, before.Alert, formatDuration(f.Since.Sub(before.Since)), strings.Join(l.Same, ", ")))
	}
	out := "began while these were open: " + strings.Join(parts, "; ")
	if n := len(f.Preceding) - 3; n > 0 {
		out += fmt.Sprintf("; and %d more", n)
	}
	return out
}

// CauseText returns a text about the failure that caused f. It returns "" if no cause is known.
func (f Failure) CauseText() string {
	switch {
	case f.Cause == nil:
		return ""
	case f.Cause.ID > 0:
		return fmt.Sprintf("symptom of failure %d, %s, as its rule states", f.Cause.ID, f.Cause.Alert)
	}
	return fmt.Sprintf("symptom of %s, %s, as its rule states; that failure is not in this file", f.Cause.Alert, formatSince(f.Cause.Since))
}

// Failure returns the failure with this number in the file. Numbers start at 1.
func (c *Case) Failure(id int) Failure { return c.Failures[id-1] }

// Covers describes the data from which the file is made.
func (c *Case) Covers() string {
	e := c.Evidence
	if e.Kind == kindDaemon {
		out := "From the running daemon " + strings.Join(e.Names, ", ")
		if e.Until != nil {
			out += ", as of " + formatTime(*e.Until)
		}
		return out
	}
	out := fmt.Sprintf("From %s: %s, evaluated with %s", strings.Join(e.Names, ", "), formatCount(e.Lines, "line"), formatCount(int64(e.Rules), "rule"))
	if e.From != nil && e.Until != nil {
		out += fmt.Sprintf("; matching lines from %s, last line %s", formatTime(*e.From), formatTime(*e.Until))
	}
	return out
}

// Rest returns a text with the number of items that the gap does not name. It returns "" if the gap names all items.
func (g Gap) Rest() string {
	if g.FurtherCount == 0 {
		return ""
	}
	return "and " + text.GroupThousands(int64(g.FurtherCount)) + " more"
}
