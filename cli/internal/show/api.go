package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"crowsnest/redact"
	"crowsnest/web"
)

func table[T any](w io.Writer, data []byte, head string, rows func(t io.Writer, in T)) error {
	var in T
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, head)
	rows(t, in)
	return t.Flush()
}

// OpenAlerts writes the answer of the endpoint alerts.
func OpenAlerts(w io.Writer, data []byte) error {
	return table(w, data, "ALERT\tSTATE\tSEVERITY\tSINCE\tSYMPTOM OF\tSUMMARY", func(t io.Writer, in struct{ Alerts []web.Alert }) {
		for _, a := range in.Alerts {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Labels["alertname"], a.State, a.Labels["severity"], a.ActiveAt.Format(time.RFC3339),
				cmp.Or(redact.Sanitise(a.Annotations["cause_alertname"]), "-"), redact.Sanitise(a.Annotations["summary"]))
		}
	})
}

// Episodes writes the answer of the endpoint episodes.
func Episodes(w io.Writer, data []byte) error {
	return table(w, data, "FINGERPRINT\tALERT\tSTATE\tSINCE\tLINES\tNEWEST LINE", func(t io.Writer, in struct{ Episodes []web.Episode }) {
		for _, e := range in.Episodes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%.100s\n", e.Fingerprint, e.Alert, stateOf(e), e.StartsAt.Format(time.RFC3339), e.Count, redact.Sanitise(e.Line))
		}
	})
}

// stateOf returns the state of an episode and what it waits for.
func stateOf(e web.Episode) string {
	switch {
	case !e.Held:
		return string(e.State)
	case len(e.WaitsFor) == 0:
		return string(e.State) + " (on hold)"
	}
	return redact.Sanitise(fmt.Sprintf("%s (on hold: %s)", e.State, strings.Join(e.WaitsFor, ", ")))
}

// Rules writes the answer of the endpoint rules.
func Rules(w io.Writer, data []byte) error {
	const head = "RULE\tPACK\tSEVERITY\tHEALTH\tOPEN\tSTREAMS\tLAST LINE\tMATCHES\tLAST MATCH\tTRIES\tSECONDS"
	return table(w, data, head, func(t io.Writer, in struct{ Groups []web.Group }) {
		for _, g := range in.Groups {
			for _, r := range g.Rules {
				open := fmt.Sprint(r.Firing)
				if r.Pending > 0 {
					open += fmt.Sprintf(" + %d pending", r.Pending)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%d\t%.3f\n", redact.Sanitise(r.Name), redact.Sanitise(g.Name), r.Severity, r.Health,
					open, r.Streams, moment(r.LastSeen), r.Matches, moment(r.LastMatch), r.Tries, r.Seconds)
			}
		}
	})
}

func moment(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// Sources writes the answer of the endpoint sources.
func Sources(w io.Writer, data []byte) error {
	return table(w, data, "SOURCE\tUP\tWATERMARK\tSTREAMS\tLINES\tERROR", func(t io.Writer, in struct {
		Sources   []web.Source
		Endpoints []web.Endpoint
	},
	) {
		for _, s := range in.Sources {
			fmt.Fprintf(t, "%s\t%t\t%s\t%d\t%d\t%s\n", s.Name, s.Up, s.Watermark.Format(time.RFC3339), len(s.Streams), s.Lines, redact.Sanitise(s.Error))
		}
		fmt.Fprintln(t, "\nRECEIVER\tUP\tACCEPTED\tPENDING\tERROR")
		for _, e := range in.Endpoints {
			fmt.Fprintf(t, "%s %s\t%t\t%d\t%d\t%s\n", e.Sink, e.Endpoint, e.Up, e.Sent, e.Pending, redact.Sanitise(e.Error))
		}
	})
}

// UnknownFailures writes the answer of the endpoint unknown.
func UnknownFailures(w io.Writer, data []byte) error {
	return table(w, data, "FINGERPRINT\tCOMPONENT\tSTATE\tWHY\tSINCE\tLINES\tPATTERN", func(t io.Writer, in web.Unknown) {
		for _, u := range in.Failures {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%.100s\n", u.Fingerprint, redact.Sanitise(u.Component), u.State, u.Why,
				u.Since.Format(time.RFC3339), u.Count, redact.Sanitise(u.Pattern))
		}
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
		fmt.Fprintf(t, "\t%d events between the first and the newest were not kept\n", tl.Skipped)
	}
	return t.Flush()
}
