package casefile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/unknown/sentinel"
	"crowsnest/web"
)

// Values of Evidence.Kind.
const (
	kindRecorded = "recorded"
	kindDaemon   = "daemon"
)

// Kinds of timeline entries from recorded logs.
const (
	kindLine  = "line"
	kindBegan = "began"
	kindFired = "fired"
	kindEnded = "ended"
)

// contextTime is the time before and after the failures in which lines of other rules are shown.
const contextTime = 15 * time.Minute

// RecordedScan contains the result of a scan, and the files that the scan could not read.
type RecordedScan struct {
	Names  []string       // arguments of the scan
	Inputs []replay.Input // inputs of the scan
	Set    *rules.Set
	Report replay.Report
	// Unknown contains the errors in the logs that no rule describes.
	Unknown []sentinel.UnknownFailure
	Lines   *Recorder
	// UnreadFiles contains the files that were not read, with the reasons. Errors contains the errors from reading other
	// files.
	UnreadFiles, Errors []string
	Now                 time.Time
	Version             string // version of crowsnest
	// SubjectFilter selects the subjects of the case, by alert name or by fingerprint. If it is "", all
	// failures are subjects.
	SubjectFilter string
}

// FromReport makes the case file of recorded logs. It returns an error if SubjectFilter selects no failure.
func FromReport(in RecordedScan) (*Case, error) {
	c := &Case{Format: Format, MadeAt: in.Now.UTC(), MadeBy: in.Version, Evidence: Evidence{
		Kind: kindRecorded, Names: []string{}, From: optionalTime(in.Report.Start), Until: optionalTime(in.Report.End),
		Lines: in.Report.Lines, Rules: len(in.Set.Rules), Sources: in.listSources(),
	}, Failures: []Failure{}, Findings: in.listFindings(), Unknown: in.listUnknown(), NotSeen: []Gap{}}
	for _, name := range in.Names {
		c.Evidence.Names = append(c.Evidence.Names, in.Lines.redactText(name))
	}
	byAlert := map[string]*rules.Rule{}
	for _, a := range in.Report.Alerts {
		c.Failures = append(c.Failures, in.newFailure(a))
		byAlert[a.Episode.Alert] = a.Episode.Rule
	}
	if in.SubjectFilter != "" && !slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Subject }) {
		return nil, fmt.Errorf("no alert of the input has the name or fingerprint %s; %s", safeLine(in.SubjectFilter), listAlerts(c.Failures))
	}
	omitted := c.linkFailures()
	rulesOf := make([]*rules.Rule, len(c.Failures))
	for i, f := range c.Failures {
		rulesOf[i] = byAlert[f.Alert]
	}
	dropped := c.recordTimeline(in.Lines.lineEntries(c.Failures, rulesOf))
	in.noteGaps(c, omitted, dropped)
	return c, nil
}

func listAlerts(all []Failure) string {
	var names []string
	for _, f := range all {
		names = append(names, f.Alert)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch n := len(names) - maxItems; {
	case len(names) == 0:
		return "it has no alert"
	case n > 0:
		return fmt.Sprintf("it has %s and %d more", strings.Join(names[:maxItems], ", "), n)
	}
	return "it has " + strings.Join(names, ", ")
}

const (
	// maxFindings is the maximum number of findings in a case.
	maxFindings = 50
	// maxOthers is the maximum number of further failures that a finding names.
	maxOthers = 20
)

func (in *RecordedScan) listFindings() []Finding {
	out := []Finding{}
	if in.SubjectFilter != "" {
		return out
	}
	for _, f := range in.Report.Findings[:min(len(in.Report.Findings), maxFindings)] {
		x := Finding{Reason: f.Doubt, Missing: safeLine(f.Missing), Failure: in.newFailure(replay.Alert{Episode: f.Episode, OtherRules: f.OtherRules})}
		x.ID, x.Severity = len(out)+1, f.Severity()
		for i := range f.OtherFailures[:min(len(f.OtherFailures), maxOthers)] {
			x.Others = append(x.Others, in.Lines.redactText(cmp.Or(joinLabels(f.OtherFailures[i].Labels, " ", ", "), "no label")))
		}
		x.FurtherCount = len(f.OtherFailures) - len(x.Others)
		out = append(out, x)
	}
	return out
}

func (in *RecordedScan) listUnknown() []Unknown {
	out := []Unknown{}
	if in.SubjectFilter != "" {
		return out
	}
	for i := range in.Unknown {
		u := &in.Unknown[i]
		x := Unknown{Where: in.Lines.redactText(u.Name()), Pattern: safeLine(string(u.Pattern)), Reason: u.Reason, Since: u.Since.UTC(), Last: u.Last.UTC(), Count: u.Count}
		if len(u.Examples) > 0 {
			x.Example = u.Examples[0].Map(in.Lines.redactText)
		}
		out = append(out, x)
	}
	return out
}

func (in *RecordedScan) newFailure(a replay.Alert) Failure {
	e := a.Episode
	f := Failure{
		Fingerprint: e.Fingerprint.String(), Alert: e.Alert, State: e.State, Ended: web.ReasonText(e.Reason),
		OnHold: e.OnHold, WaitsFor: e.WaitsFor, Severity: e.Labels["severity"], Since: e.ActiveAt().UTC(), FiredAt: optionalTime(a.FiredAt),
		LastSeen: e.LastSeen.UTC(), EndsAt: optionalTime(e.EndsAt), Count: e.Count,
		OtherRules: a.OtherRules, Assumes: safeLine(a.Assumes), Labels: map[string]string{}, Log: in.Lines.redactText(e.Origin), FirstLine: e.FirstLine.Map(in.Lines.redactText), Line: e.Line.Map(in.Lines.redactText),
	}
	for name, value := range e.Labels {
		f.Labels[name] = in.Lines.redactText(value)
	}
	if c := e.Cause; c != nil {
		f.Cause = &Cause{Alert: c.Alert, Fingerprint: c.Fingerprint.String(), Since: c.StartsAt.UTC()}
	}
	f.setTexts(e.Annotations)
	f.Subject = in.SubjectFilter == "" || in.SubjectFilter == f.Alert || in.SubjectFilter == f.Fingerprint
	return f
}

func (f *Failure) setTexts(values map[string]string) {
	f.Summary, f.Description, f.Remediation = safeLine(values["summary"]), safeLines(values["description"]), safeLines(values["remediation"])
	f.Runbook, f.Affected, f.FixedIn = safeLine(values["runbook_url"]), safeLine(values["affected"]), safeLine(values["fixed_in"])
}

// recordTimeline creates the timeline from lines, and from the beginning and end of each
// failure. It returns the number of lines that did not fit.
func (c *Case) recordTimeline(lines []Entry) (dropped int) {
	c.Timeline = c.nearbyEntries(lines)
	dropped = len(c.Timeline) - maxEntries
	if dropped > 0 {
		slices.SortStableFunc(c.Timeline, func(a, b Entry) int { return cmp.Compare(min(1, len(b.FailureIDs)), min(1, len(a.FailureIDs))) })
		c.Timeline = c.Timeline[:maxEntries]
	}
	for _, f := range c.Failures {
		c.Timeline = append(c.Timeline, c.courseEntries(f)...)
	}
	slices.SortStableFunc(c.Timeline, func(a, b Entry) int {
		return cmp.Or(a.entryTime().Compare(b.entryTime()), cmp.Compare(entryOrder(a), entryOrder(b)))
	})
	return max(0, dropped)
}

// entryOrder returns the order of entries with the same time. A log line comes before the events that it caused.
func entryOrder(e Entry) int {
	return map[string]int{kindLine: 0, kindBegan: 1, kindFired: 2, kindEnded: 3}[e.Kind]
}

// nearbyEntries returns the lines of the failures, and lines of other rules from about the same time.
func (c *Case) nearbyEntries(all []Entry) []Entry {
	out := []Entry{}
	if len(c.Failures) == 0 {
		return append(out, all...)
	}
	from, until, open := c.Failures[0].Since, c.Failures[0].Since, false
	for _, f := range c.Failures {
		if f.EndsAt == nil {
			open = true
		} else if f.EndsAt.After(until) {
			until = *f.EndsAt
		}
	}
	for _, e := range all {
		if len(e.FailureIDs) > 0 || e.Time == nil || !e.Time.Before(from.Add(-contextTime)) && (open || !e.Time.After(until.Add(contextTime))) {
			out = append(out, e)
		}
	}
	return out
}

func (c *Case) courseEntries(f Failure) []Entry {
	if f.Since.IsZero() {
		return nil
	}
	began := Entry{Time: optionalTime(f.Since), Kind: kindBegan, Text: f.Alert + " begins", FailureIDs: []int{f.ID}}
	if !slices.ContainsFunc(c.Timeline, func(e Entry) bool {
		return e.entryTime().Equal(f.Since) && slices.Contains(e.FailureIDs, f.ID)
	}) {
		began.Line, began.Log = f.FirstLine, f.Log
	}
	out := []Entry{began}
	if f.FiredAt != nil {
		out = append(out, Entry{Time: f.FiredAt, Kind: kindFired, Text: f.Alert + " is certain and fires", FailureIDs: []int{f.ID}})
	}
	if f.EndsAt != nil {
		out = append(out, Entry{Time: f.EndsAt, Kind: kindEnded, Text: f.Alert + " ended: " + cmp.Or(f.Ended, "the condition is no longer true"), FailureIDs: []int{f.ID}})
	}
	return out
}

// noteGaps adds the gaps in the data, ordered by importance.
func (in *RecordedScan) noteGaps(c *Case, omitted, dropped int) {
	clean := func(all []string) (out []string) {
		for _, s := range all {
			out = append(out, in.Lines.redactText(s))
		}
		return out
	}
	r := in.Report
	c.addList("Parts of the input could not be read.", clean(in.Errors))
	in.noteAbsentSources(c)
	in.noteEdges(c)
	c.addList(formatCount(int64(len(in.UnreadFiles)), "file")+" of the input contain nothing that was read as a log.", clean(in.UnreadFiles))
	c.addCount("%s could not be evaluated, because of their length or form.", r.Dropped, "line")
	c.addList("The first lines of "+formatCount(int64(len(r.Untimed)), "input")+
		" have no time that is understood: they may not be logs, and their order is uncertain.", clean(r.Untimed))
	c.addCount("%s without a line.", int64(r.Empty), "input")
	var undecided, ignored []string
	for x, n := range r.Undecided {
		undecided = append(undecided, fmt.Sprintf("%s, %s: no input has the lines of %s", x.Rule, formatCount(int64(n), "time"), x.Selector))
	}
	for x, n := range r.UntrustedLines {
		ignored = append(ignored, fmt.Sprintf("%s: %s lines of namespace %s", x.Rule, text.GroupThousands(n), x.Namespace))
	}
	slices.Sort(undecided)
	slices.Sort(ignored)
	c.addList("Failures that may have happened: the input lacks the lines that could say that they are over.", undecided)
	c.addList("Matching lines that were ignored, because rules for infrastructure do not trust their namespaces.", clean(ignored))
	c.addCount("The timeline leaves out %s for the size of this file.", int64(dropped)+in.Lines.omitted, "line")
	if in.SubjectFilter == "" {
		c.addCount("This file leaves out %s.", int64(len(r.Findings)-len(c.Findings)+r.FindingsOmitted), "finding")
	}
	c.addCount("This file leaves out %s; --alert selects one.", int64(omitted), "failure")
}

// ofNode separates the name of a journal source from the name of its node.
const ofNode = " of node "

// listSources returns the inputs grouped by kind. Journals are also grouped by node.
func (in *RecordedScan) listSources() []Source {
	all := map[string]*Source{}
	for i, read := range in.Report.Outcomes {
		labels := in.Inputs[i].StreamLabels()
		name := logKind(labels)
		if node := cmp.Or(labels["node"], labels["node_name"]); node != "" && name == sourceJournal {
			name += ofNode + node
		}
		s := all[name]
		if s == nil {
			s = &Source{Name: name}
			all[name] = s
		}
		s.Streams++
		s.Lines += read.Lines
		if !read.From.IsZero() && (s.From == nil || read.From.Before(*s.From)) {
			s.From = optionalTime(read.From)
		}
		if !read.Until.IsZero() && (s.Until == nil || read.Until.After(*s.Until)) {
			s.Until = optionalTime(read.Until)
		}
	}
	out := []Source{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out
}

// kindNames contains the kinds of sources with their names for people. Gaps about the sources have the same order.
var kindNames = [][2]string{
	{sourcePods, "logs of pods"},
	{sourceJournal, "systemd journal"},
	{sourceEvents, "Kubernetes Events"},
	{sourceObjects, "states of Kubernetes objects"},
	{sourceFiles, "such logs"},
}

// noteAbsentSources adds a gap for each kind of source that is missing from the input, or partly missing. The gap names
// the rules that need the source.
func (in *RecordedScan) noteAbsentSources(c *Case) {
	reads := replay.Reads(in.Set, in.Inputs, true)
	blind := map[string][]string{} // names of the rules whose logs are missing; the key is the kind of source
	total := 0
	for _, r := range in.Set.Rules {
		if r.Mode == rules.ModeOff {
			continue
		}
		total++
		for i := range r.Steps {
			if from := r.Steps[i].From; !reads(from) {
				kind := sourceKind(from)
				blind[kind] = append(blind[kind], r.Alert)
				break
			}
		}
	}
	for _, k := range kindNames {
		kind, missing, verb := k[0], "No "+k[1], "have"
		if slices.ContainsFunc(c.Evidence.Sources, func(s Source) bool { return s.Name == kind || strings.HasPrefix(s.Name, kind+ofNode) }) {
			missing = strings.ToUpper(k[1][:1]) + k[1][1:] + " in part"
		}
		if len(blind[kind]) == 1 {
			verb = "has"
		}
		c.addList(fmt.Sprintf("%s: %d of %d rules %s no input that can contain their lines, so nobody would see these failures.",
			missing, len(blind[kind]), total, verb), blind[kind])
	}
}

func sourceKind(from rules.Selector) string {
	kind := sourceFiles
	for _, m := range from.Matchers() {
		if m.Matches("") { // the selector also matches streams without the label
			if m.Name == "container" {
				kind = sourcePods
			}
			continue
		}
		switch m.Name {
		case "component":
			if m.Matches("events") {
				return sourceEvents
			}
			return sourceObjects
		case "unit", "identifier", "transport":
			return sourceJournal
		case "namespace", "pod", "container":
			kind = sourcePods
		}
	}
	return kind
}

// noteEdges adds a gap for the end of the input. It also adds a gap that lists the sources whose lines begin after the
// first failure began, or end before the last failure began.
func (in *RecordedScan) noteEdges(c *Case) {
	if in.Report.End.IsZero() {
		return
	}
	text := "The input ends at " + formatTime(in.Report.End) + "."
	if slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.EndsAt == nil }) {
		text += " Whether the failures that are open then ended later is not known."
	} else {
		text += " What happened later is not known."
	}
	c.addGap(text)
	timed := slices.DeleteFunc(slices.Clone(c.Failures), func(f Failure) bool { return f.Since.IsZero() })
	if len(timed) == 0 {
		return
	}
	first, last := timed[0].Since, timed[len(timed)-1].Since
	var items []string
	for _, s := range c.Evidence.Sources {
		if s.From != nil && s.From.After(first) {
			items = append(items, fmt.Sprintf("%s: begins at %s, %s after the first failure began", s.Name, formatTime(*s.From), formatDuration(s.From.Sub(first))))
		}
		if s.Until != nil && s.Until.Before(last) {
			items = append(items, fmt.Sprintf("%s: ends at %s, %s before the last failure began", s.Name, formatTime(*s.Until), formatDuration(last.Sub(*s.Until))))
		}
	}
	c.addList("Sources that do not cover the whole time of the failures.", items)
}
