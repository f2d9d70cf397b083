// Package scan finds failures in recorded logs. These are alerts, failures that a rule describes but that are not
// certain, and errors that no rule describes.
package scan

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/unknown/sentinel"
)

const maxUnknown = 5

// shortLog is the duration of a log below which the persistence of errors cannot be judged.
const shortLog = 10 * time.Minute

// Result is the result of a scan of recorded logs.
type Result struct {
	replay.Report                           // report of the replay, including the uncertain failures
	Unknown       []sentinel.UnknownFailure // failures that no rule describes, the most likely first
	OmittedErrors int                       // number of unlisted errors that no rule describes
}

// Run reads the inputs and runs the rules over them, like replay.Scan. It overwrites Findings and OnComplaints in the
// options. If some inputs cannot be read, the error names them, and the result covers the others.
func Run(target replay.Target, inputs []replay.Input, opt replay.ScanOptions) (Result, error) {
	opt.Findings = true
	unknown := sentinel.New(sentinel.Config{Redactor: opt.Redactor, Identity: append([]string{replay.FileLabel}, rules.DefaultIdentity...), Unlabelled: true})
	var untimed atomic.Bool // whether some line with an error has no timestamp
	opt.OnComplaints = func(stream *matcher.Stream, lines []matcher.Complaint) {
		last := lines[0].Time
		for i := range lines {
			if lines[i].Untimed {
				untimed.Store(true)
			}
			if lines[i].Time.After(last) {
				last = lines[i].Time
			}
		}
		unknown.Take(stream, lines, last.Add(time.Second))
	}
	report, err := replay.Scan(target.Set, target.Program, inputs, opt)
	out := Result{Report: report}
	out.Unknown, out.OmittedErrors = recordedUnknown(unknown, &report)
	for i := range out.Unknown {
		for _, t := range []*time.Time{&out.Unknown[i].Since, &out.Unknown[i].Last} {
			if untimed.Load() && t.Unix() == opt.Now.Unix() {
				*t = time.Time{}
			}
		}
	}
	for i := range report.FewLineFindings {
		out.Unknown = append(out.Unknown, fewComplaint(&report.FewLineFindings[i], opt.Redactor))
	}
	out.OmittedErrors += max(0, len(out.Unknown)-maxUnknown)
	out.Unknown = out.Unknown[:min(len(out.Unknown), maxUnknown)]
	return out, err
}

// whyFew is the reason of an unknown failure whose rule requires many more lines than occurred.
const whyFew = "few"

// fewComplaint returns an unknown failure for lines that match a rule but are too few for it.
func fewComplaint(f *replay.Finding, red *redact.Redactor) sentinel.UnknownFailure {
	x := &f.Episode
	return sentinel.UnknownFailure{
		Fingerprint: x.Fingerprint, State: sentinel.StateHeld, Reason: whyFew, Labels: x.Labels, Pattern: x.Line, Since: x.StartsAt, Last: x.LastSeen,
		OtherTexts: []redact.Text{red.Text(x.Alert + " " + f.Missing)}, Count: x.Count, Examples: []redact.Text{x.Line},
	}
}

// recordedUnknown returns the unmatched errors that count as failures. further is the number of the other unmatched
// errors. It requires less evidence if the log is short or has no alerts.
func recordedUnknown(s *sentinel.Sentinel, r *replay.Report) (listed []sentinel.UnknownFailure, further int) {
	var reported []episodes.Episode
	for i := range r.Alerts {
		reported = append(reported, r.Alerts[i].Episode)
	}
	s.Explain(reported)
	least := sentinel.Persistent
	switch {
	case r.Coverage.Length() < shortLog:
		least = sentinel.Single
	case len(r.Alerts) == 0:
		least = sentinel.Repeated
	}
	listed, further = s.RecordedFailures(maxUnknown, least)
	return slices.DeleteFunc(listed, func(u sentinel.UnknownFailure) bool { return isUntrusted(&u, r) }), further
}

// isUntrusted reports whether a rule describes the failure u but does not trust the namespace of u.
func isUntrusted(u *sentinel.UnknownFailure, r *replay.Report) bool {
	return slices.ContainsFunc(r.Findings, func(f replay.Finding) bool {
		return f.Doubt == replay.Untrusted && slices.ContainsFunc(append([]episodes.Episode{f.Episode}, f.OtherFailures...), func(e episodes.Episode) bool {
			return slices.ContainsFunc(u.Examples, func(line redact.Text) bool { return sameWords(line, e.FirstLine) || sameWords(line, e.Line) })
		})
	})
}

func sameWords(a, b redact.Text) bool {
	return slices.Equal(strings.Fields(string(a)), strings.Fields(string(b)))
}

// Sentence returns a sentence about the result besides the alerts. It returns "" if no line matched a rule and no line
// reports an unknown failure.
func (r *Result) Sentence() string {
	var parts []string
	assumed := 0
	for i := range r.Alerts {
		if r.Alerts[i].Assumes != "" {
			assumed++
		}
	}
	if assumed > 0 {
		parts = append(parts, formatCount(assumed, "alert assumes", "alerts assume")+" that the failure goes on")
	}
	recovered, short, untrusted := 0, 0, 0
	all := 0
	for i := range r.Findings {
		n := 1 + len(r.Findings[i].OtherFailures)
		all += n
		switch r.Findings[i].Doubt {
		case replay.Recovered:
			recovered += n
		case replay.TooShort:
			short += n
		case replay.Untrusted:
			untrusted += n
		}
	}
	if n := all - recovered - untrusted; n > 0 {
		part := formatCount(n, "failure is", "failures are") + " described but not certain"
		if short == n {
			part += ", because " + r.Coverage.String()
		}
		parts = append(parts, part)
	}
	if recovered > 0 {
		parts = append(parts, text.Plural(int64(recovered), "failure")+" recovered before an alert")
	}
	if untrusted > 0 {
		parts = append(parts, formatCount(untrusted, "failure is", "failures are")+" in namespaces that their rules do not trust")
	} else if len(r.UntrustedLines) > 0 {
		parts = append(parts, "rules match lines of namespaces that they do not trust")
	}
	if len(parts)+len(r.Alerts) == 0 && r.Hits > 0 {
		parts = append(parts, "rules match lines, and these alone show no failure: --hits lists them")
	}
	rare := 0
	for i := range r.Unknown {
		if r.Unknown[i].Reason == whyFew {
			rare++
		}
	}
	if n := len(r.Unknown) - rare; n > 0 {
		parts = append(parts, formatCount(n, "problem has", "problems have")+" no rule")
	}
	if rare > 0 {
		parts = append(parts, formatCount(rare, "problem is", "problems are")+" too rare for a rule")
	}
	if n := r.OmittedErrors; n > 0 {
		parts = append(parts, formatCount(n, "error without a rule is", "errors without a rule are")+" too rare to be listed: `crowsnest discover` lists all")
	}
	return strings.Join(parts, "; ")
}

func formatCount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func knownSentence(r *Result, notUnderstood bool) string {
	var parts []string
	if n := r.Fired(); n > 0 {
		parts = append(parts, text.Plural(int64(n), "alert"))
	}
	if s := r.Sentence(); s != "" {
		parts = append(parts, strings.ReplaceAll(s, "--hits", "`crowsnest scan --hits`"))
	}
	switch {
	case r.Lines == 0:
		return "There is no line to read: this does not mean that all is well."
	case notUnderstood:
		parts = append(parts, "no line has a timestamp in a known format, so the log may not be understood: this does not mean that all is well")
	case len(parts) == 0:
		return fmt.Sprintf("No rule matches in %s, and no line reports a problem: this does not mean that all is well.", text.Plural(r.Lines, "line"))
	}
	return strings.Join(parts, "; ") + "."
}
