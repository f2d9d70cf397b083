package scan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/lab/inputs"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources/kubelet"
	"crowsnest/web"
)

// Limits of the lists on the page Scan.
const (
	maxListed    = 20 // maximum number of rules with alerts, and of rules with findings
	maxElsewhere = 10 // maximum number of further failures of a rule
)

// ForPage scans a log for the page Scan of the daemon. It is safe for concurrent use.
func ForPage(log string, labels matcher.Labels, set *rules.Set, hide *redact.Redactor, now time.Time) (out web.Scanned, err error) {
	program, err := matcher.CompileOpen(set)
	if err != nil {
		return out, fmt.Errorf("compile rules: %w", err)
	}
	logs, account, findErr := inputs.Memory("log", []byte(log), inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels})
	found, readErr := Run(replay.Target{Set: set, Program: program}, logs, replay.ScanOptions{Lenient: true, Now: now, Redactor: hide})
	if err := errors.Join(findErr, readErr); err != nil {
		return out, err
	}
	account.Count(found.Outcomes)
	out = web.Scanned{
		Alerts: []web.ScanFailure{}, Findings: []web.ScanFailure{}, Unknown: []web.ScanUnknown{}, Lines: found.Lines, Hits: found.Hits,
		Omitted: found.Omitted + found.FindingsOmitted,
	}
	for i := range found.Alerts {
		a := &found.Alerts[i]
		one := newFailure(&replay.Finding{Episode: a.Episode, OtherRules: a.OtherRules})
		one.State, one.Severity = string(a.Episode.State), a.Episode.Labels["severity"]
		if a.Assumes != "" {
			one.Missing = "assumes " + a.Assumes
		}
		out.Omitted += addFailure(&out.Alerts, one)
	}
	for i := range found.Findings {
		f := &found.Findings[i]
		out.Omitted += addFailure(&out.Findings, newFailure(f)) + max(0, len(f.OtherFailures)-maxElsewhere)
	}
	for i := range found.Unknown {
		u := &found.Unknown[i]
		out.Unknown = append(out.Unknown, web.ScanUnknown{Component: u.Name(), Reason: u.Reason, Pattern: u.Pattern, OtherTexts: u.OtherTexts, Count: u.Count, Examples: u.Examples})
	}
	out.Known = knownSentence(&found, len(account.NotUnderstood()) > 0)
	return out, nil
}

// addFailure adds a failure to a list that contains each rule once. It returns the number of omitted failures.
func addFailure(list *[]web.ScanFailure, one web.ScanFailure) (omitted int) {
	same := slices.IndexFunc(*list, func(o web.ScanFailure) bool {
		return o.Rule == one.Rule && o.State == one.State && o.Reason == one.Reason
	})
	switch {
	case same >= 0 && len((*list)[same].OtherPlaces) < maxElsewhere:
		(*list)[same].OtherPlaces = append((*list)[same].OtherPlaces, one.Labels)
	case same >= 0 || len(*list) == maxListed:
		return 1
	default:
		*list = append(*list, one)
	}
	return 0
}

func newFailure(f *replay.Finding) web.ScanFailure {
	e := &f.Episode
	out := web.ScanFailure{
		Rule: e.Alert, Severity: f.Severity(), Reason: string(f.Doubt), Missing: f.Missing, Labels: maps.Clone(e.Labels),
		Summary: e.Annotations["summary"], Description: e.Annotations["description"], Remediation: e.Annotations["remediation"],
		Count: e.Count, StartsAt: e.StartsAt, LastSeen: e.LastSeen, Line: e.Line, Matched: slices.Clone(f.Matched), OtherRules: f.OtherRules,
	}
	if !e.EndsAt.IsZero() {
		out.EndsAt = &e.EndsAt
	}
	for _, o := range f.OtherFailures[:min(len(f.OtherFailures), maxElsewhere)] {
		out.OtherPlaces = append(out.OtherPlaces, o.Labels)
	}
	return out
}
