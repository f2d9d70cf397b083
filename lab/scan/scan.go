// Package scan finds in recorded logs what alerts, what a rule describes without certainty, and
// what no rule describes.
package scan

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sentinel"
)

// maxUnknown bounds the complaints that are listed.
const maxUnknown = 5

// shortLog is the time that a log must cover so that complaints in it can be judged by how long
// they last.
const shortLog = 10 * time.Minute

// Result is what recorded logs show.
type Result struct {
	replay.Report                    // report with findings
	Unknown       []sentinel.Unknown // complaints that no rule describes, the most likely first
	Further       int                // number of such complaints that are errors and not listed
}

// Run reads the inputs and runs the engine over them, as replay.Scan does. It sets Findings and
// OnComplaints of the options. The error names inputs that could not be read; the result is about
// the others.
func Run(target replay.Target, inputs []replay.Input, opt replay.ScanOptions) (Result, error) {
	opt.Findings = true
	unknown := sentinel.New(sentinel.Config{Redactor: opt.Redactor, Identity: append([]string{replay.FileLabel}, rules.DefaultIdentity...), Unlabelled: true})
	var untimed atomic.Bool // there are complaints that state no time
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
	out.Unknown, out.Further = recorded(unknown, &report)
	for i := range out.Unknown {
		for _, t := range []*time.Time{&out.Unknown[i].Since, &out.Unknown[i].Last} {
			if untimed.Load() && t.Unix() == opt.Now.Unix() {
				*t = time.Time{}
			}
		}
	}
	for i := range report.Few {
		out.Unknown = append(out.Unknown, few(&report.Few[i], opt.Redactor))
	}
	out.Further += max(0, len(out.Unknown)-maxUnknown)
	out.Unknown = out.Unknown[:min(len(out.Unknown), maxUnknown)]
	return out, err
}

// whyFew is the reason of a complaint of which a rule asks for many more.
const whyFew = "few"

// few returns a complaint about which a rule says that it is no failure alone.
func few(f *replay.Finding, red *redact.Redactor) sentinel.Unknown {
	x := &f.Episode
	return sentinel.Unknown{
		Fingerprint: x.Fingerprint, State: sentinel.StateHeld, Why: whyFew, Labels: x.Labels, Pattern: x.Line, Since: x.StartsAt, Last: x.LastSeen,
		Also: []redact.Text{red.Text(x.Alert + " " + f.Missing)}, Count: x.Count, Examples: []redact.Text{x.Line},
	}
}

// recorded returns the complaints that no alert of a rule reports. It accepts less evidence where
// the log shows little.
func recorded(s *sentinel.Sentinel, r *replay.Report) (listed []sentinel.Unknown, further int) {
	var reported []episodes.Episode
	for i := range r.Alerts {
		reported = append(reported, r.Alerts[i].Episode)
	}
	s.Explain(reported)
	least := sentinel.Persistent
	switch {
	case r.Covered.Length() < shortLog:
		least = sentinel.Single
	case len(r.Alerts) == 0:
		least = sentinel.Repeated
	}
	listed, further = s.Recorded(maxUnknown, least)
	return slices.DeleteFunc(listed, func(u sentinel.Unknown) bool { return untrusted(&u, r) }), further
}

// untrusted reports whether a finding says that a rule describes a complaint and does not trust its
// namespace.
func untrusted(u *sentinel.Unknown, r *replay.Report) bool {
	return slices.ContainsFunc(r.Findings, func(f replay.Finding) bool {
		return f.Doubt == replay.Untrusted && slices.ContainsFunc(append([]episodes.Episode{f.Episode}, f.Others...), func(e episodes.Episode) bool {
			return slices.ContainsFunc(u.Examples, func(line redact.Text) bool { return sameWords(line, e.First) || sameWords(line, e.Line) })
		})
	})
}

func sameWords(a, b redact.Text) bool {
	return slices.Equal(strings.Fields(string(a)), strings.Fields(string(b)))
}
