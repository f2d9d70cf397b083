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

// A Lister turns the answer of an endpoint of the API into tables.
type Lister func(data []byte, style ListStyle) ([]Table, error)

// decode decodes an answer and makes its tables. Nothing that the answer contains can
// control a terminal.
func decode[T any](data []byte, rows func(in T) []Table) ([]Table, error) {
	var in T
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	tables := rows(in)
	for _, t := range tables {
		for _, r := range t.Rows {
			for i := range r.Cells {
				r.Cells[i].Text = redact.Sanitise(r.Cells[i].Text)
			}
		}
	}
	return tables, nil
}

func sortedRows(rows map[string]Row) (out []Row) {
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, rows[key])
	}
	return out
}

type episodeList struct{ Episodes []web.Episode }

// OpenAlerts lists the open alerts in an answer of the endpoint episodes: those of the
// endpoint alerts, with their fingerprints.
func OpenAlerts(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "SYMPTOM OF", "SUMMARY"}, State: 2, Ended: "ended", EndedAs: map[string]string{}}
	if style.Wide {
		t.Head = append(t.Head, "WHERE", "LINES", "SINCE", "LAST SEEN", "NEWEST LINE")
	}
	return decode(data, func(in episodeList) []Table {
		for _, e := range in.Episodes {
			if e.Silent || e.State != episodes.StateFiring && e.State != episodes.StatePending {
				t.EndedAs[e.Fingerprint] = string(e.State)
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
				plain(e.Fingerprint),
				{Text: e.Alert, Color: bold},
				stateCell(string(e.State), stateOf(e)), severityCell(e.Labels["severity"]),
				style.age(e.StartsAt), plain(cmp.Or(cause, "-")), plain(summary),
			}
			if style.Wide {
				cells = append(cells, plain(where(e.Labels)), drifting(fmt.Sprint(e.Count)), plain(e.StartsAt.UTC().Format(time.RFC3339)),
					drifting(e.LastSeen.UTC().Format(time.RFC3339)), drifting(e.Line))
			}
			t.Rows = append(t.Rows, Row{e.Fingerprint, cells})
		}
		return []Table{t}
	})
}

func drifting[T ~string](text T) Cell { return Cell{Text: string(text), Drifts: true} }

func where(labels map[string]string) string { return cmp.Or(Where(labels), "-") }

// Episodes lists the answer of the endpoint episodes.
func Episodes(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "LINES", "NEWEST LINE"}}
	if style.Wide {
		t.Head = []string{"FINGERPRINT", "ALERT", "STATE", "SEVERITY", "AGE", "LINES", "WHERE", "SINCE", "LAST SEEN", "ENDED", "NEWEST LINE"}
	}
	return decode(data, func(in episodeList) []Table {
		for _, e := range in.Episodes {
			cells := []Cell{
				plain(e.Fingerprint),
				{Text: e.Alert, Color: bold},
				stateCell(string(e.State), stateOf(e)), severityCell(e.Labels["severity"]),
				style.age(e.StartsAt), drifting(fmt.Sprint(e.Count)),
			}
			line := e.Line
			if style.Wide {
				ended := "-"
				if e.EndsAt != nil {
					ended = fmt.Sprintf("%s (%s)", moment(e.EndsAt), e.Reason)
				}
				cells = append(cells, plain(where(e.Labels)), plain(e.StartsAt.UTC().Format(time.RFC3339)), drifting(e.LastSeen.UTC().Format(time.RFC3339)), plain(ended))
			} else {
				line = line.Map(func(s string) string { return fmt.Sprintf("%.100s", s) })
			}
			t.Rows = append(t.Rows, Row{e.Fingerprint, append(cells, drifting(line))})
		}
		return []Table{t}
	})
}

// stateOf returns the state of an episode and what it waits for.
func stateOf(e web.Episode) string {
	switch {
	case !e.Held:
		return string(e.State)
	case len(e.Waits) == 0:
		return string(e.State) + " (on hold)"
	}
	first := e.Waits[0]
	return fmt.Sprintf("%s (on hold: %s)", e.State, episodes.Wait{Part: first.Part, Sources: first.Sources}.Brief())
}

// Rules lists the answer of the endpoint rules.
func Rules(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"RULE", "PACK", "SEVERITY", "HEALTH", "OPEN", "STREAMS", "LAST LINE", "MATCHES", "LAST MATCH", "TRIES", "SECONDS"}}
	if style.Wide {
		t.Head = append(t.Head, "ENABLED", "ORIGIN", "READS", "WAITS FOR")
	}
	return decode(data, func(in struct{ Groups []web.Group }) []Table {
		unverified := slices.ContainsFunc(in.Groups, func(g web.Group) bool {
			return slices.ContainsFunc(g.Rules, func(r web.Rule) bool { return r.Unverified() != "" })
		})
		if unverified {
			t.Head = append(t.Head, "NOT VERIFIED")
		}
		for _, g := range in.Groups {
			for _, r := range g.Rules {
				open := plain(fmt.Sprint(r.Firing))
				if r.Firing > 0 {
					open.Color = red
				}
				if r.Pending > 0 {
					open.Text += fmt.Sprintf(" + %d pending", r.Pending)
				}
				cells := []Cell{
					{Text: r.Name, Color: bold},
					plain(g.Name), severityCell(string(r.Severity)), healthCell(r.Health),
					open, number(r.Streams), drifting(moment(r.LastSeen)), number(r.Matches), plain(moment(r.LastMatch)), drifting(fmt.Sprint(r.Tries)), drifting(fmt.Sprintf("%.3f", r.Seconds)),
				}
				if style.Wide {
					cells = append(cells, plain(string(r.Mode)), plain(string(r.Origin)), plain(r.From), plain(cmp.Or(r.Waits, "-")))
				}
				if unverified {
					cells = append(cells, plain(cmp.Or(r.Unverified(), "-")))
				}
				t.Rows = append(t.Rows, Row{g.Name + "/" + r.Name, cells})
			}
		}
		return []Table{t}
	})
}

func moment(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

type sourceList struct {
	Sources   []web.Source
	Endpoints []web.Endpoint
}

// Sources lists the answer of the endpoint sources: sources, then receivers.
func Sources(data []byte, style ListStyle) ([]Table, error) {
	from := Table{Head: []string{"SOURCE", "UP", "WATERMARK", "STREAMS", "LINES", "ERROR"}}
	to := Table{Head: []string{"RECEIVER", "UP", "ACCEPTED", "PENDING", "ERROR"}}
	if style.Wide {
		from.Head = []string{"SOURCE", "UP", "WATERMARK", "LAG", "STREAMS", "LINES", "BYTES", "LOST BYTES", "NOT READ", "ERROR"}
	}
	return decode(data, func(in sourceList) []Table {
		for _, s := range in.Sources {
			watermark := drifting(s.Watermark.UTC().Format(time.RFC3339))
			cells := []Cell{{Text: s.Name, Color: bold}, goodCell(s.Up, fmt.Sprint(s.Up)), watermark}
			if style.Wide {
				cells = append(cells, drifting(s.Lag.Round(time.Second).String()))
			}
			cells = append(cells, number(len(s.Streams)), drifting(fmt.Sprint(s.Lines)))
			if style.Wide {
				lost := int64(0)
				for _, n := range s.Lost {
					lost += n
				}
				cells = append(cells, drifting(fmt.Sprint(s.Bytes)), number(lost), number(len(s.Unread)))
			}
			from.Rows = append(from.Rows, Row{s.Name, append(cells, Cell{Text: s.Error, Color: red})})
		}
		for _, e := range in.Endpoints {
			name := e.Sink + " " + e.Endpoint
			to.Rows = append(to.Rows, Row{name, []Cell{
				{Text: name, Color: bold}, goodCell(e.Up, fmt.Sprint(e.Up)), drifting(fmt.Sprint(e.Sent)), drifting(fmt.Sprint(e.Pending)), {Text: e.Error, Color: red},
			}})
		}
		return []Table{from, to}
	})
}

// UnknownFailures lists the answer of the endpoint unknown.
func UnknownFailures(data []byte, style ListStyle) ([]Table, error) {
	t := Table{Head: []string{"FINGERPRINT", "COMPONENT", "STATE", "WHY", "AGE", "LINES", "PATTERN"}}
	if style.Wide {
		t.Head = []string{"FINGERPRINT", "COMPONENT", "STATE", "WHY", "AGE", "LINES", "SINCE", "LEVEL", "WHERE", "PATTERN"}
	}
	return decode(data, func(in web.Unknown) []Table {
		for _, u := range in.Failures {
			state := plain(u.State)
			if u.State == "alert" {
				state.Color = red
			}
			cells := []Cell{
				plain(u.Fingerprint), {Text: u.Component, Color: bold}, state, plain(u.Why), style.age(u.Since), drifting(fmt.Sprint(u.Count)),
			}
			pattern := string(u.Pattern)
			if style.Wide {
				cells = append(cells, plain(u.Since.UTC().Format(time.RFC3339)), plain(cmp.Or(u.Level, "-")), plain(where(u.Labels)))
			} else {
				pattern = fmt.Sprintf("%.100s", pattern)
			}
			t.Rows = append(t.Rows, Row{u.Fingerprint, append(cells, plain(pattern))})
		}
		return []Table{t}
	})
}

// Timeline writes a timeline for people.
func Timeline(w io.Writer, data []byte) error {
	var tl web.Timeline
	if err := json.Unmarshal(data, &tl); err != nil {
		return err
	}
	e := tl.Episode
	fmt.Fprintf(w, "%s %s: %s\n", redact.Sanitise(e.Alert), e.State, redact.Sanitise(Where(e.Labels)))
	if c := e.Cause; c != nil {
		fmt.Fprintf(w, "symptom of %s (%s): %s, since %s\n", redact.Sanitise(c.Alert), c.Fingerprint, redact.Sanitise(Where(c.Labels)), moment(&c.StartsAt))
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
			at = moment(ev.At)
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
