package capture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
)

// maxLines is the maximum number of first lines of an episode that are kept, and also of newest
// lines.
const maxLines = 400

// Logs are recorded logs.
type Logs struct {
	replay.Target

	Inputs  []replay.Input // inputs, each of which can be opened several times
	Options replay.ScanOptions
}

// Episode returns the first alert of the logs whose name or fingerprint is about, and its rule.
// It reads the logs twice. The error also names the logs that could not be read.
func (l *Logs) Episode(about string) (ep Episode, of *rules.Rule, err error) {
	report, readErr := replay.Scan(l.Set, l.Program, l.Inputs, l.Options)
	k := slices.IndexFunc(report.Alerts, func(a replay.Alert) bool {
		return a.Episode.Alert == about || a.Episode.Fingerprint.String() == about
	})
	if k < 0 {
		return ep, nil, fmt.Errorf("no alert of the logs has the name or fingerprint %s; %s", about, listAlerts(report))
	}
	e := report.Alerts[k].Episode
	ep = Episode{Alert: e.Alert, Labels: e.Labels, Fired: true, Reason: e.Reason, Began: e.ActiveAt()}
	from, until := e.ActiveAt().Add(-e.Rule.Within-e.Rule.Silent), e.LastSeen
	if !e.EndsAt.IsZero() {
		until = e.EndsAt
	}
	var newest []Line
	again := l.Options
	again.HitsOnly, again.OnWait = true, nil
	again.OnHits = func(_ string, hits []matcher.Hit) {
		for _, h := range hits {
			if h.Rule != e.Rule || h.Time.Before(from) || h.Time.After(until) || !sharesPlace(e.Labels, h.Labels) || !sharesKey(e.Labels, h) {
				continue
			}
			line := Line{At: h.Time, Text: l.Options.Redactor.Text(h.Line).Clone(), Labels: maps.Clone(h.Labels)}
			if len(ep.Lines) < maxLines/2 {
				ep.Lines = append(ep.Lines, line)
				continue
			}
			if newest = append(newest, line); len(newest) > maxLines/2 {
				newest = newest[1:]
			}
		}
	}
	if _, err := replay.Scan(l.Set, l.Program, l.Inputs, again); err != nil && readErr == nil {
		readErr = err
	}
	ep.Lines = sortDistinct(append(ep.Lines, newest...))
	return ep, e.Rule, readErr
}

// sharesPlace reports whether the alert may come from the stream: no label that both have
// differs.
func sharesPlace(alert, stream map[string]string) bool {
	for _, name := range []string{"cluster", replay.FileLabel} {
		if a, b := alert[name], stream[name]; a != "" && b != "" && a != b {
			return false
		}
	}
	return true
}

// sharesKey reports whether the hit may belong to the alert: no value of the key that both have
// differs.
func sharesKey(alert map[string]string, h matcher.Hit) bool {
	key := h.Rule.By
	switch h.Part {
	case matcher.PartClear:
		key = h.Rule.Clear.Same
	case matcher.PartUnless:
		key = h.Rule.Unless.Same
	}
	for i, name := range h.Rule.By {
		if v, own := h.Values[i], alert[name]; v != "" && own != "" && v != own && slices.Contains(key, name) {
			return false
		}
	}
	return true
}

// sortDistinct sorts lines by time and drops those that several parts of the rule matched.
func sortDistinct(all []Line) []Line {
	slices.SortStableFunc(all, byTime)
	return slices.CompactFunc(all, func(a, b Line) bool {
		return a.At.Equal(b.At) && a.Text == b.Text && maps.Equal(a.Labels, b.Labels)
	})
}

// listAlerts lists the alerts of a report as text.
func listAlerts(r replay.Report) string {
	var out []string
	for _, a := range r.Alerts {
		text := fmt.Sprintf("%s (%s, %s)", a.Episode.Alert, a.Episode.Fingerprint, a.Episode.StartsAt.UTC().Format(time.RFC3339))
		if out = append(out, text); len(out) == 10 {
			break
		}
	}
	if len(out) == 0 {
		return "no alert fired"
	}
	return "these fired: " + strings.Join(out, ", ")
}
