package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/web"
)

// List writes the response of an API endpoint as tables.
type List func(w io.Writer, data []byte, style ListStyle) error

// OpenAlerts writes the open alerts in the response of the endpoint episodes, with their fingerprints. These are the
// same alerts as in the endpoint alerts.
func OpenAlerts(w io.Writer, data []byte, style ListStyle) error {
	var in web.Episodes
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	t := newTable(style, "FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "SYMPTOM OF", "SUMMARY",
		"+WHERE", "+LINES", "+SINCE", "+LAST SEEN", "+NEWEST LINE")
	for _, e := range in.Episodes {
		if e.Silent || e.State != episodes.StateFiring && e.State != episodes.StatePending {
			continue
		}
		summary := e.Annotations["summary"]
		if summary != "" && e.State == episodes.StatePending {
			summary = "if it fires: " + summary
		}
		t.addRow(e.Fingerprint, boldCell(e.Alert), stateCell(e), severityCell(e.Labels["severity"]), style.age(e.StartsAt),
			causeText(e.Cause), summary, placeText(e.Labels), e.Count, e.StartsAt, e.LastSeen, e.Line)
	}
	return Write(w, style, t)
}

func placeText(labels map[string]string) string { return cmp.Or(DistinguishingLabels(labels), "-") }

func causeText(c *web.Cause) string {
	if c == nil {
		return "-"
	}
	return cmp.Or(c.Alert, "-")
}

// EpisodeTables writes the response of the endpoint episodes.
func EpisodeTables(w io.Writer, data []byte, style ListStyle) error {
	var in web.Episodes
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	t := newTable(style, "FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "LINES",
		"+WHERE", "+SINCE", "+LAST SEEN", "+ENDED", "NEWEST LINE")
	for _, e := range in.Episodes {
		ended := "-"
		if e.EndsAt != nil {
			ended = fmt.Sprintf("%s (%s)", formatMoment(e.EndsAt), e.Reason)
		}
		t.addRow(e.Fingerprint, boldCell(e.Alert), stateCell(e), severityCell(e.Labels["severity"]), style.age(e.StartsAt),
			e.Count, placeText(e.Labels), e.StartsAt, e.LastSeen, ended, style.lineText(e.Line))
	}
	return Write(w, style, t)
}

// stateCell returns a table cell with the state of an episode, in its color, and the reason why the episode waits.
func stateCell(e web.Episode) Cell {
	colors := map[episodes.State]string{episodes.StateFiring: red, episodes.StatePending: yellow, episodes.StateResolved: green}
	c := Cell{Text: string(e.State), Color: colors[e.State]}
	switch {
	case !e.Held:
	case len(e.Waits) == 0:
		c.Text += " (on hold)"
	default:
		first := e.Waits[0]
		c.Text += fmt.Sprintf(" (on hold: %s)", episodes.AwaitedPart{Part: first.Part, Sources: first.Sources}.BriefText())
	}
	if e.Suppressed != nil {
		c.Text += " (" + e.Suppressed.Kind() + ")"
	}
	return c
}

// RuleTables writes the response of the endpoint rules.
func RuleTables(w io.Writer, data []byte, style ListStyle) error {
	var in web.Groups
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	head := []string{
		"RULE", "PACK", "SEVERITY", "HEALTH", "OPEN", "STREAMS", "LAST LINE", "MATCHES", "LAST MATCH", "TRIES", "SECONDS",
		"+ENABLED", "+ORIGIN", "+READS", "+WAITS FOR",
	}
	if slices.ContainsFunc(in.Groups, func(g web.Group) bool {
		return slices.ContainsFunc(g.Rules, func(r web.Rule) bool { return r.Unverified() != "" })
	}) {
		head = append(head, "NOT VERIFIED")
	}
	t := newTable(style, head...)
	for _, g := range in.Groups {
		for _, r := range g.Rules {
			open := Cell{Text: fmt.Sprint(r.Firing)}
			if r.Firing > 0 {
				open.Color = red
			}
			if r.Pending > 0 {
				open.Text += fmt.Sprintf(" + %d pending", r.Pending)
			}
			t.addRow(boldCell(r.Name), g.Name, severityCell(string(r.Severity)), healthCell(r.Health), open, r.Streams, formatMoment(r.LastSeen),
				r.Matches, formatMoment(r.LastMatch), r.Evaluations, fmt.Sprintf("%.3f", r.Seconds),
				r.Mode, r.Origin, r.From, cmp.Or(r.WaitReason, "-"), cmp.Or(r.Unverified(), "-"))
		}
	}
	return Write(w, style, t)
}

func formatMoment(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// SourceTables writes the response of the endpoint sources. The table of sources is followed by the table of
// receivers and, if there are any, of the lookups that find receivers.
func SourceTables(w io.Writer, data []byte, style ListStyle) error {
	var in web.SourceList
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	from := newTable(style, "SOURCE", "UP", "WATERMARK", "+LAG", "STREAMS", "LINES", "+BYTES", "+LOST BYTES", "+NOT READ", "ERROR")
	for _, s := range in.Sources {
		lost := int64(0)
		for _, n := range s.Lost {
			lost += n
		}
		from.addRow(boldCell(s.Name), upCell(s.Up), s.Watermark, s.Lag.Round(time.Second), len(s.Streams), s.Lines,
			s.Bytes, lost, len(s.Unread), Cell{Text: s.Error, Color: red})
	}
	to := newTable(style, "RECEIVER", "UP", "ACCEPTED", "PENDING", "ERROR")
	for _, e := range in.Endpoints {
		to.addRow(boldCell(e.Sink+" "+e.Endpoint), upCell(e.Up), e.Sent, e.Pending, Cell{Text: e.Error, Color: red})
	}
	lookups := newTable(style, "LOOKUP", "UP", "FOUND", "ERROR")
	for _, d := range in.Discoveries {
		lookups.addRow(boldCell(d.Sink+" "+d.Discovery), upCell(d.Up), d.Targets, Cell{Text: d.Error, Color: red})
	}
	if len(in.Discoveries) > 0 {
		return Write(w, style, from, to, lookups)
	}
	return Write(w, style, from, to)
}

// UnknownFailures writes the response of the endpoint unknown.
func UnknownFailures(w io.Writer, data []byte, style ListStyle) error {
	var in web.Unknown
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	t := newTable(style, "FINGERPRINT", "COMPONENT", "STATE", "WHY", "AGE", "LINES", "+SINCE", "+LEVEL", "+WHERE", "PATTERN")
	for _, u := range in.Failures {
		state := Cell{Text: u.State}
		if u.State == "alert" {
			state.Color = red
		}
		t.addRow(u.Fingerprint, boldCell(u.Component), state, u.Reason, style.age(u.Since), u.Count,
			u.Since, cmp.Or(u.Level, "-"), placeText(u.Labels), style.lineText(u.Pattern))
	}
	return Write(w, style, t)
}

// WriteHistory writes the ended alerts and the noisy rules in the response of the endpoint history.
func WriteHistory(w io.Writer, data []byte, style ListStyle) error {
	var in web.History
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	ended := newTable(style, "FINGERPRINT", "ALERT", "SEVERITY", "BEGAN", "LASTED", "NOTIFIED", "FLAPS", "WHERE",
		"+LINES", "+END", "+SYMPTOM OF", "+SUMMARY")
	for _, e := range in.Episodes {
		notified := fmt.Sprint(e.Notified)
		if e.Suppressed != nil {
			notified += " (" + e.Suppressed.Kind() + ")"
		}
		ended.addRow(e.Fingerprint, boldCell(e.Alert), severityCell(e.Labels["severity"]), e.StartsAt, e.DurationText(), notified, e.Flaps,
			placeText(e.Labels), e.Count, e.Ended(), causeText(e.Cause), e.Summary)
	}
	tables := []*Table{ended}
	if len(in.Rules) > 0 {
		noisy := newTable(style, "RULE", "NOTIFIED", "FLAPS", "EPISODES", "ALERTS", "TIME FIRING", "NEWEST")
		for _, r := range in.Rules {
			noisy.addRow(boldCell(r.Alert), r.Notified, r.Flaps, r.Episodes, r.Alerts, r.TotalTime(), r.Last)
		}
		tables = append(tables, noisy)
	}
	if err := Write(w, style, tables...); err != nil || in.Next == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThere are older entries; list them with --after %s\n", redact.Sanitise(in.Next))
	return err
}

// WriteTimeline writes the timeline of an episode as text.
func WriteTimeline(w io.Writer, data []byte, _ ListStyle) error {
	var tl web.Timeline
	if err := json.Unmarshal(data, &tl); err != nil {
		return err
	}
	e := tl.Episode
	fmt.Fprintf(w, "%s %s: %s\n", redact.Sanitise(e.Alert), e.State, redact.Sanitise(DistinguishingLabels(e.Labels)))
	if c := e.Cause; c != nil {
		fmt.Fprintf(w, "symptom of %s (%s): %s, since %s\n", redact.Sanitise(c.Alert), c.Fingerprint, redact.Sanitise(DistinguishingLabels(c.Labels)), formatMoment(&c.StartsAt))
	}
	if len(e.Symptoms) > 0 {
		fmt.Fprintf(w, "symptoms that are open: %s\n", redact.Sanitise(strings.Join(e.Symptoms, ", ")))
	}
	if e.Seen != nil {
		fmt.Fprintf(w, "%s\n", redact.Sanitise(e.Seen.Text))
	}
	if e.Suppressed != nil {
		fmt.Fprintf(w, "%s\n", redact.Sanitise(web.SuppressionText(e.Suppressed)))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, ev := range tl.Events {
		at := "now"
		if ev.Time != nil {
			at = formatMoment(ev.Time)
		}
		fmt.Fprintf(t, "%s\t%s\n", at, redact.Sanitise(ev.Text))
		if ev.Line != "" {
			fmt.Fprintf(t, "\t  %s\n", redact.Sanitise(ev.Line))
		}
	}
	if tl.Skipped > 0 {
		fmt.Fprintf(t, "\tnot kept: %s between the first and the newest\n", text.Plural(tl.Skipped, "event"))
	}
	return t.Flush()
}

// WriteStatus writes the responses of the endpoints below status. data is an object that contains each response by the
// name of its endpoint.
func WriteStatus(w io.Writer, data []byte, _ ListStyle) error {
	var in struct {
		Build  web.BuildInfo     `json:"buildinfo"`
		Info   web.RuntimeInfo   `json:"runtimeinfo"`
		Config web.ConfigYAML    `json:"config"`
		Flags  map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("cannot decode the daemon's response about its status: %w", err)
	}
	info := in.Info
	saved := formatTime(info.Saved)
	if info.Saved.IsZero() {
		saved = "never"
	}
	if info.Storage != "" {
		saved += " in " + info.Storage
	}
	if info.SaveErrors > 0 {
		saved += ", " + text.Plural(info.SaveErrors, "failure")
	}
	ready := "yes"
	if len(info.Missing) > 0 {
		ready = "no: " + strings.Join(info.Missing, "; ")
	}
	rows := [][2]string{
		{"VERSION", in.Build.Version + " (" + in.Build.Revision + ", " + in.Build.GoVersion + ")"},
		{"STARTED", formatTime(info.Start)},
		{"READY", ready},
		{"UNHEALTHY", info.Unhealthy},
		{"NOT WATCHED", strings.Join(info.Absent, "; ")},
		{"RULES LOADED", formatTime(info.LastLoad)},
		{"LAST RELOAD FAILED", info.ReloadError},
		{"STATE SAVED", saved},
	}
	for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
		rows = append(rows, [2]string{"--" + name, in.Flags[name]})
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", row[0], oneLine(row[1]))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", sanitiseLines(in.Config.YAML))
	return err
}
