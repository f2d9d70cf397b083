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

// Bounds of what a page lists.
const (
	maxListed    = 20 // rules with alerts, and with findings
	maxElsewhere = 10 // further failures of a rule
)

// ForPage scans a log for the page Scan of a daemon. It is safe for concurrent use.
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
		one := failureOf(&replay.Finding{Episode: a.Episode, Also: a.Also})
		one.State, one.Severity = string(a.Episode.State), a.Episode.Labels["severity"]
		if a.Assumes != "" {
			one.Missing = "assumes " + a.Assumes
		}
		out.Omitted += list(&out.Alerts, one)
	}
	for i := range found.Findings {
		f := &found.Findings[i]
		out.Omitted += list(&out.Findings, failureOf(f)) + max(0, len(f.Others)-maxElsewhere)
	}
	for i := range found.Unknown {
		u := &found.Unknown[i]
		out.Unknown = append(out.Unknown, web.ScanUnknown{Component: u.Name(), Why: u.Why, Pattern: u.Pattern, Also: u.Also, Count: u.Count, Examples: u.Examples})
	}
	out.Known = known(&found, len(account.NotUnderstood()) > 0)
	return out, nil
}

// list adds a failure to a list in which each rule is once, and returns how many it leaves out.
func list(to *[]web.ScanFailure, one web.ScanFailure) (omitted int) {
	same := slices.IndexFunc(*to, func(o web.ScanFailure) bool {
		return o.Rule == one.Rule && o.State == one.State && o.Reason == one.Reason
	})
	switch {
	case same >= 0 && len((*to)[same].Elsewhere) < maxElsewhere:
		(*to)[same].Elsewhere = append((*to)[same].Elsewhere, one.Labels)
	case same >= 0 || len(*to) == maxListed:
		return 1
	default:
		*to = append(*to, one)
	}
	return 0
}

func failureOf(f *replay.Finding) web.ScanFailure {
	e := &f.Episode
	out := web.ScanFailure{
		Rule: e.Alert, Severity: f.Severity(), Reason: string(f.Doubt), Missing: f.Missing, Labels: maps.Clone(e.Labels),
		Summary: e.Annotations["summary"], Description: e.Annotations["description"], Remediation: e.Annotations["remediation"],
		Count: e.Count, StartsAt: e.StartsAt, LastSeen: e.LastSeen, Line: e.Line, Matched: slices.Clone(f.Matched), Also: f.Also,
	}
	if !e.EndsAt.IsZero() {
		out.EndsAt = &e.EndsAt
	}
	for _, o := range f.Others[:min(len(f.Others), maxElsewhere)] {
		out.Elsewhere = append(out.Elsewhere, o.Labels)
	}
	return out
}
