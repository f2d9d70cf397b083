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
	"crowsnest/sentinel"
	"crowsnest/web"
)

// The values of Evidence.Kind.
const (
	kindRecorded = "recorded"
	kindDaemon   = "daemon"
)

// The kinds of entries that recorded logs have.
const (
	kindLine  = "line"
	kindBegan = "began"
	kindFired = "fired"
	kindEnded = "ended"
)

// around is how long before the first failure and after the last one lines of other rules
// are shown.
const around = 15 * time.Minute

// Recorded is what a scan found, and what it could not read.
type Recorded struct {
	Names  []string       // arguments of the scan
	Inputs []replay.Input // as returned by Observe
	Set    *rules.Set
	Report replay.Report
	// Unknown are the complaints that no rule describes.
	Unknown []sentinel.Unknown
	Lines   *Recorder
	Spans   *Spans
	// Unread are the files that were not read with the reasons, Errors what went wrong
	// while others were read.
	Unread, Errors []string
	Now            time.Time
	Version        string // version of crowsnest
	// About selects the failures that the case is about, by the name of their alert or by
	// fingerprint; empty means all.
	About string
}

// FromReport makes the case of recorded logs. It returns an error if About selects nothing.
func FromReport(in Recorded) (*Case, error) {
	c := &Case{Format: Format, MadeAt: in.Now.UTC(), MadeBy: in.Version, Evidence: Evidence{
		Kind: kindRecorded, Names: []string{}, From: optional(in.Report.Start), Until: optional(in.Report.End),
		Lines: in.Report.Lines, Rules: len(in.Set.Rules), Sources: in.Spans.sources(),
	}, Failures: []Failure{}, Findings: in.findings(), Unknown: in.unknown()}
	for _, name := range in.Names {
		c.Evidence.Names = append(c.Evidence.Names, in.Lines.clean(name))
	}
	byAlert := map[string]*rules.Rule{}
	for _, a := range in.Report.Alerts {
		c.Failures = append(c.Failures, in.failure(a))
		byAlert[a.Episode.Alert] = a.Episode.Rule
	}
	if in.About != "" && !slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Subject }) {
		return nil, fmt.Errorf("no alert of the input has the name or fingerprint %s; %s", line(in.About), alertsOf(c.Failures))
	}
	omitted := c.link()
	rulesOf := make([]*rules.Rule, len(c.Failures))
	for i, f := range c.Failures {
		rulesOf[i] = byAlert[f.Alert]
	}
	dropped := c.record(in.Lines.entries(c.Failures, rulesOf))
	c.NotSeen = in.gaps(c, omitted, dropped)
	return c, nil
}

// alertsOf lists the alerts that can be selected.
func alertsOf(all []Failure) string {
	names := map[string]bool{}
	for _, f := range all {
		names[f.Alert] = true
	}
	sorted := slices.Sorted(maps.Keys(names))
	if len(sorted) == 0 {
		return "it has no alert"
	}
	out := "it has " + strings.Join(sorted[:min(len(sorted), maxItems)], ", ")
	if n := len(sorted) - maxItems; n > 0 {
		out += fmt.Sprintf(" and %d more", n)
	}
	return out
}

const (
	// maxFindings bounds the findings of a case.
	maxFindings = 50
	// maxOthers bounds the further failures that one of them names.
	maxOthers = 20
)

func (in *Recorded) findings() []Finding {
	out := []Finding{}
	if in.About != "" {
		return out
	}
	for _, f := range in.Report.Findings[:min(len(in.Report.Findings), maxFindings)] {
		x := Finding{Reason: f.Doubt, Missing: line(f.Missing), Failure: in.failure(replay.Alert{Episode: f.Episode, Also: f.Also})}
		x.ID, x.Severity = len(out)+1, f.Severity()
		for i := range f.Others[:min(len(f.Others), maxOthers)] {
			x.Others = append(x.Others, in.Lines.clean(placeOf(f.Others[i].Labels)))
		}
		x.Further = len(f.Others) - len(x.Others)
		out = append(out, x)
	}
	return out
}

func (in *Recorded) unknown() []Unknown {
	out := []Unknown{}
	if in.About != "" {
		return out
	}
	for i := range in.Unknown {
		u := &in.Unknown[i]
		x := Unknown{Where: in.Lines.clean(u.Name()), Pattern: line(string(u.Pattern)), Why: u.Why, Since: u.Since.UTC(), Last: u.Last.UTC(), Count: u.Count}
		if len(u.Examples) > 0 {
			x.Example = u.Examples[0].Map(in.Lines.clean)
		}
		out = append(out, x)
	}
	return out
}

func (in *Recorded) failure(a replay.Alert) Failure {
	e := a.Episode
	f := Failure{
		Fingerprint: e.Fingerprint.String(), Alert: e.Alert, State: e.State, Ended: web.ReasonText(e.Reason),
		OnHold: e.OnHold, WaitsFor: e.WaitsFor, Severity: e.Labels["severity"], Since: e.ActiveAt().UTC(), FiredAt: optional(a.Fired),
		LastSeen: e.LastSeen.UTC(), EndsAt: optional(e.EndsAt), Count: e.Count,
		Also: a.Also, Assumes: line(a.Assumes), Labels: map[string]string{}, Log: in.Lines.clean(e.Origin), FirstLine: e.First.Map(in.Lines.clean), Line: e.Line.Map(in.Lines.clean),
	}
	for name, value := range e.Labels {
		f.Labels[name] = in.Lines.clean(value)
	}
	if c := e.Cause; c != nil {
		f.Cause = &Cause{Alert: c.Alert, Fingerprint: c.Fingerprint.String(), Since: c.StartsAt.UTC()}
	}
	f.annotate(e.Annotations)
	f.Subject = in.About == "" || in.About == f.Alert || in.About == f.Fingerprint
	return f
}

// annotate sets the texts of a failure.
func (f *Failure) annotate(of map[string]string) {
	f.Summary, f.Description, f.Remediation = line(of["summary"]), lines(of["description"]), lines(of["remediation"])
	f.Runbook, f.Affected, f.FixedIn = line(of["runbook_url"]), line(of["affected"]), line(of["fixed_in"])
}

// record makes the timeline of lines and of the beginning and end of each failure. It
// returns how many lines it left out for their number.
func (c *Case) record(lines []Entry) (dropped int) {
	c.Timeline = c.near(lines)
	dropped = len(c.Timeline) - maxEntries
	if dropped > 0 {
		slices.SortStableFunc(c.Timeline, func(a, b Entry) int { return cmp.Compare(min(1, len(b.Of)), min(1, len(a.Of))) })
		c.Timeline = c.Timeline[:maxEntries]
	}
	for _, f := range c.Failures {
		c.Timeline = append(c.Timeline, c.course(f)...)
	}
	slices.SortStableFunc(c.Timeline, func(a, b Entry) int { return cmp.Or(a.time().Compare(b.time()), cmp.Compare(order(a), order(b))) })
	return max(0, dropped)
}

// order puts the line before what follows from it.
func order(e Entry) int {
	return map[string]int{kindLine: 0, kindBegan: 1, kindFired: 2, kindEnded: 3}[e.Kind]
}

// near returns the lines of the failures, and those of other rules in their time.
func (c *Case) near(all []Entry) []Entry {
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
		if len(e.Of) > 0 || e.At == nil || !e.At.Before(from.Add(-around)) && (open || !e.At.After(until.Add(around))) {
			out = append(out, e)
		}
	}
	return out
}

// course returns the entries for what became of a failure.
func (c *Case) course(f Failure) []Entry {
	if f.Since.IsZero() {
		return nil
	}
	began := Entry{At: optional(f.Since), Kind: kindBegan, Text: f.Alert + " begins", Of: []int{f.ID}}
	if !slices.ContainsFunc(c.Timeline, func(e Entry) bool {
		return e.time().Equal(f.Since) && slices.Contains(e.Of, f.ID)
	}) {
		began.Line, began.Log = f.FirstLine, f.Log
	}
	out := []Entry{began}
	if f.FiredAt != nil {
		out = append(out, Entry{At: f.FiredAt, Kind: kindFired, Text: f.Alert + " is certain and fires", Of: []int{f.ID}})
	}
	if f.EndsAt != nil {
		out = append(out, Entry{At: f.EndsAt, Kind: kindEnded, Text: f.Alert + " ended: " + cmp.Or(f.Ended, "the condition is no longer true"), Of: []int{f.ID}})
	}
	return out
}

// gaps returns what could not be seen, the most important first.
func (in *Recorded) gaps(c *Case, omitted, dropped int) []Gap {
	out := []Gap{}
	add := func(text string, items ...string) { out = append(out, gap(text, items...)) }
	clean := func(all []string) []string {
		for i, s := range all {
			all[i] = in.Lines.clean(s)
		}
		return all
	}
	if len(in.Errors) > 0 {
		add("Parts of the input could not be read.", clean(slices.Clone(in.Errors))...)
	}
	out = append(out, in.absent()...)
	out = append(out, in.edges(c)...)
	r := in.Report
	if n := len(in.Unread); n > 0 {
		add(count(int64(n), "file")+" of the input contain nothing that was read as a log.", clean(slices.Clone(in.Unread))...)
	}
	if r.Dropped > 0 {
		add(count(r.Dropped, "line") + " could not be evaluated, because of their length or form.")
	}
	if len(r.Untimed) > 0 {
		add("The first lines of "+count(int64(len(r.Untimed)), "input")+" have no time that is understood: they may not be logs, and their order is uncertain.", clean(slices.Clone(r.Untimed))...)
	}
	if r.Empty > 0 {
		add(count(int64(r.Empty), "input") + " without a line.")
	}
	if items := undecided(r); len(items) > 0 {
		add("Failures that may have happened: the input lacks the lines that could say that they are over.", items...)
	}
	if items := ignored(r); len(items) > 0 {
		add("Matching lines that were ignored, because rules for infrastructure do not trust their namespaces.", clean(items)...)
	}
	if n := int64(dropped) + in.Lines.omitted; n > 0 {
		add("The timeline leaves out " + count(n, "line") + " for the size of this file.")
	}
	if n := int64(len(r.Findings) - len(c.Findings) + r.FindingsOmitted); n > 0 && in.About == "" {
		add("This file leaves out " + count(n, "finding") + ".")
	}
	if omitted > 0 {
		add(fmt.Sprintf("This file leaves out %s; --alert selects one.", count(int64(omitted), "failure")))
	}
	return out
}

// absent returns the sources that the input does not have, and the rules that need them.
func (in *Recorded) absent() []Gap {
	reads := replay.Reads(in.Set, in.Inputs, true)
	blind := map[string][]string{} // unread logs by kind of the source
	total := 0
	for _, r := range in.Set.Rules {
		if r.Mode == rules.ModeOff {
			continue
		}
		total++
		for i := range r.Steps {
			if from := r.Steps[i].From; !reads(from) {
				kind := kindOf(from)
				blind[kind] = append(blind[kind], r.Alert)
				break
			}
		}
	}
	var out []Gap
	for _, kind := range []string{sourcePods, sourceJournal, sourceEvents, sourceObjects, sourceFiles} {
		if n := len(blind[kind]); n > 0 {
			verb := "have"
			if n == 1 {
				verb = "has"
			}
			out = append(out, gap(fmt.Sprintf("%s: %d of %d rules %s no input that can contain the lines, so these failures would not be seen.",
				missing(kind, in.Spans.seen), n, total, verb), blind[kind]...))
		}
	}
	return out
}

// missing says whether a kind of source is absent, or only some of its logs.
func missing(kind string, all []*seen) string {
	names := map[string]string{sourcePods: "logs of pods", sourceJournal: "systemd journal", sourceEvents: "Kubernetes Events", sourceObjects: "states of Kubernetes objects", sourceFiles: "such logs"}
	for _, s := range all {
		if s.source == kind {
			return strings.ToUpper(names[kind][:1]) + names[kind][1:] + " in part"
		}
	}
	return "No " + names[kind]
}

// kindOf returns the kind of the source that a selector is written for.
func kindOf(from rules.Selector) string {
	kind := sourceFiles
	for _, m := range from.Matchers() {
		if m.Matches("") { // not required
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

// edges returns the sources whose lines begin after a failure, or end before it.
func (in *Recorded) edges(c *Case) []Gap {
	var out []Gap
	if in.Report.End.IsZero() {
		return out
	}
	text := "The input ends at " + stamp(in.Report.End) + "."
	if slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.EndsAt == nil }) {
		text += " Whether the failures that are open then ended later is not known."
	} else {
		text += " What happened later is not known."
	}
	out = append(out, gap(text))
	if len(c.Failures) == 0 {
		return out
	}
	timed := slices.DeleteFunc(slices.Clone(c.Failures), func(f Failure) bool { return f.Since.IsZero() })
	if len(timed) == 0 {
		return out
	}
	first := timed[0].Since
	var items []string
	for _, s := range c.Evidence.Sources {
		if s.From != nil && s.From.After(first) {
			items = append(items, fmt.Sprintf("%s: begins at %s, %s after the first failure began", s.Name, stamp(*s.From), span(s.From.Sub(first))))
		}
		if last := timed[len(timed)-1].Since; s.Until != nil && s.Until.Before(last) {
			items = append(items, fmt.Sprintf("%s: ends at %s, %s before the last failure began", s.Name, stamp(*s.Until), span(last.Sub(*s.Until))))
		}
	}
	if len(items) > 0 {
		out = append(out, gap("Sources that do not cover the whole time of the failures.", items...))
	}
	return out
}

func undecided(r replay.Report) []string {
	var out []string
	for x, n := range r.Undecided {
		out = append(out, fmt.Sprintf("%s, %s: no input has the lines of %s", x.Rule, count(int64(n), "time"), x.From))
	}
	slices.Sort(out)
	return out
}

func ignored(r replay.Report) []string {
	var out []string
	for x, n := range r.Ignored {
		out = append(out, fmt.Sprintf("%s: %s lines of namespace %s", x.Rule, text.Digits(n), x.Namespace))
	}
	slices.Sort(out)
	return out
}
