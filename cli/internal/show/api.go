package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/web"
)

// A Lister turns the data of an endpoint of the API into tables.
type Lister func(data []byte, style ListStyle) ([]Table, error)

// decodeTables decodes data and returns its tables. It removes control characters, so that data
// cannot control a terminal.
func decodeTables[T any](data []byte, rows func(in T) []Table) ([]Table, error) {
	var in T
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	tables := rows(in)
	for _, t := range tables {
		for _, r := range t.Rows {
			for i := range r {
				r[i].Text = redact.Sanitise(r[i].Text)
			}
		}
	}
	return tables, nil
}

type episodeList struct{ Episodes []web.Episode }

// OpenAlerts lists the open alerts in the data of the endpoint episodes, with their
// fingerprints. The endpoint alerts lists the same alerts.
func OpenAlerts(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "SYMPTOM OF", "SUMMARY"}}
	if style.Wide {
		t.Head = append(t.Head, "WHERE", "LINES", "SINCE", "LAST SEEN", "NEWEST LINE")
	}
	return decodeTables(data, func(in episodeList) []Table {
		for _, e := range in.Episodes {
			if e.Silent || e.State != episodes.StateFiring && e.State != episodes.StatePending {
				continue
			}
			summary := e.Annotations["summary"]
			if summary != "" && e.State == episodes.StatePending {
				summary = "if it fires: " + summary
			}
			cause := ""
			if e.Cause != nil {
				cause = e.Cause.Alert
			}
			cells := []Cell{
				plainCell(e.Fingerprint),
				{Text: e.Alert, Color: bold},
				stateCell(string(e.State), episodeState(e)), severityCell(e.Labels["severity"]),
				style.ageCell(e.StartsAt), plainCell(cmp.Or(cause, "-")), plainCell(summary),
			}
			if style.Wide {
				cells = append(cells, plainCell(placeText(e.Labels)), numberCell(e.Count), plainCell(e.StartsAt.UTC().Format(time.RFC3339)),
					plainCell(e.LastSeen.UTC().Format(time.RFC3339)), plainCell(e.Line))
			}
			t.Rows = append(t.Rows, cells)
		}
		return []Table{t}
	})
}

func placeText(labels map[string]string) string { return cmp.Or(DistinguishingLabels(labels), "-") }

// EpisodeTables lists the data of the endpoint episodes.
func EpisodeTables(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "LINES", "NEWEST LINE"}}
	if style.Wide {
		t.Head = []string{"FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "LINES", "WHERE", "SINCE", "LAST SEEN", "ENDED", "NEWEST LINE"}
	}
	return decodeTables(data, func(in episodeList) []Table {
		for _, e := range in.Episodes {
			cells := []Cell{
				plainCell(e.Fingerprint),
				{Text: e.Alert, Color: bold},
				stateCell(string(e.State), episodeState(e)), severityCell(e.Labels["severity"]),
				style.ageCell(e.StartsAt), numberCell(e.Count),
			}
			line := e.Line
			if style.Wide {
				ended := "-"
				if e.EndsAt != nil {
					ended = fmt.Sprintf("%s (%s)", formatMoment(e.EndsAt), e.Reason)
				}
				cells = append(cells, plainCell(placeText(e.Labels)), plainCell(e.StartsAt.UTC().Format(time.RFC3339)), plainCell(e.LastSeen.UTC().Format(time.RFC3339)), plainCell(ended))
			} else {
				line = line.Map(func(s string) string { return fmt.Sprintf("%.100s", s) })
			}
			t.Rows = append(t.Rows, append(cells, plainCell(line)))
		}
		return []Table{t}
	})
}

// episodeState returns the state of an episode, and what the episode waits for.
func episodeState(e web.Episode) string {
	switch {
	case !e.Held:
		return string(e.State)
	case len(e.Waits) == 0:
		return string(e.State) + " (on hold)"
	}
	first := e.Waits[0]
	return fmt.Sprintf("%s (on hold: %s)", e.State, episodes.Wait{Part: first.Part, Sources: first.Sources}.BriefText())
}

// RuleTables lists the data of the endpoint rules.
func RuleTables(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"RULE", "PACK", "SEVERITY", "HEALTH", "OPEN", "STREAMS", "LAST LINE", "MATCHES", "LAST MATCH", "TRIES", "SECONDS"}}
	if style.Wide {
		t.Head = append(t.Head, "ENABLED", "ORIGIN", "READS", "WAITS FOR")
	}
	return decodeTables(data, func(in struct{ Groups []web.Group }) []Table {
		unverified := slices.ContainsFunc(in.Groups, func(g web.Group) bool {
			return slices.ContainsFunc(g.Rules, func(r web.Rule) bool { return r.Unverified() != "" })
		})
		if unverified {
			t.Head = append(t.Head, "NOT VERIFIED")
		}
		for _, g := range in.Groups {
			for _, r := range g.Rules {
				open := plainCell(fmt.Sprint(r.Firing))
				if r.Firing > 0 {
					open.Color = red
				}
				if r.Pending > 0 {
					open.Text += fmt.Sprintf(" + %d pending", r.Pending)
				}
				cells := []Cell{
					{Text: r.Name, Color: bold},
					plainCell(g.Name), severityCell(string(r.Severity)), healthCell(r.Health),
					open, numberCell(r.Streams), plainCell(formatMoment(r.LastSeen)), numberCell(r.Matches), plainCell(formatMoment(r.LastMatch)), numberCell(r.Tries), plainCell(fmt.Sprintf("%.3f", r.Seconds)),
				}
				if style.Wide {
					cells = append(cells, plainCell(string(r.Mode)), plainCell(string(r.Origin)), plainCell(r.From), plainCell(cmp.Or(r.Waits, "-")))
				}
				if unverified {
					cells = append(cells, plainCell(cmp.Or(r.Unverified(), "-")))
				}
				t.Rows = append(t.Rows, cells)
			}
		}
		return []Table{t}
	})
}

func formatMoment(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

type sourceList struct {
	Sources   []web.Source
	Endpoints []web.Endpoint
}

// SourceTables makes tables from a response of the endpoint /api/v1/sources. The sources come
// first, then the receivers.
func SourceTables(data []byte, style ListStyle) ([]Table, error) {
	from := Table{Head: []string{"SOURCE", "UP", "WATERMARK", "STREAMS", "LINES", "ERROR"}}
	to := Table{Head: []string{"RECEIVER", "UP", "ACCEPTED", "PENDING", "ERROR"}}
	if style.Wide {
		from.Head = []string{"SOURCE", "UP", "WATERMARK", "LAG", "STREAMS", "LINES", "BYTES", "LOST BYTES", "NOT READ", "ERROR"}
	}
	return decodeTables(data, func(in sourceList) []Table {
		for _, s := range in.Sources {
			watermark := plainCell(s.Watermark.UTC().Format(time.RFC3339))
			cells := []Cell{{Text: s.Name, Color: bold}, goodCell(s.Up, fmt.Sprint(s.Up)), watermark}
			if style.Wide {
				cells = append(cells, plainCell(s.Lag.Round(time.Second).String()))
			}
			cells = append(cells, numberCell(len(s.Streams)), numberCell(s.Lines))
			if style.Wide {
				lost := int64(0)
				for _, n := range s.Lost {
					lost += n
				}
				cells = append(cells, numberCell(s.Bytes), numberCell(lost), numberCell(len(s.Unread)))
			}
			from.Rows = append(from.Rows, append(cells, Cell{Text: s.Error, Color: red}))
		}
		for _, e := range in.Endpoints {
			name := e.Sink + " " + e.Endpoint
			to.Rows = append(to.Rows, []Cell{
				{Text: name, Color: bold}, goodCell(e.Up, fmt.Sprint(e.Up)), numberCell(e.Sent), numberCell(e.Pending), {Text: e.Error, Color: red},
			})
		}
		return []Table{from, to}
	})
}

// UnknownFailures lists the data of the endpoint unknown.
func UnknownFailures(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"FINGERPRINT", "COMPONENT", "STATE", "WHY", "AGE", "LINES", "PATTERN"}}
	if style.Wide {
		t.Head = []string{"FINGERPRINT", "COMPONENT", "STATE", "WHY", "AGE", "LINES", "SINCE", "LEVEL", "WHERE", "PATTERN"}
	}
	return decodeTables(data, func(in web.Unknown) []Table {
		for _, u := range in.Failures {
			state := plainCell(u.State)
			if u.State == "alert" {
				state.Color = red
			}
			cells := []Cell{
				plainCell(u.Fingerprint), {Text: u.Component, Color: bold}, state, plainCell(u.Why), style.ageCell(u.Since), numberCell(u.Count),
			}
			pattern := string(u.Pattern)
			if style.Wide {
				cells = append(cells, plainCell(u.Since.UTC().Format(time.RFC3339)), plainCell(cmp.Or(u.Level, "-")), plainCell(placeText(u.Labels)))
			} else {
				pattern = fmt.Sprintf("%.100s", pattern)
			}
			t.Rows = append(t.Rows, append(cells, plainCell(pattern)))
		}
		return []Table{t}
	})
}

// WriteTimeline writes a timeline as text.
func WriteTimeline(w io.Writer, data []byte) error {
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
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, ev := range tl.Events {
		at := "now"
		if ev.At != nil {
			at = formatMoment(ev.At)
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
