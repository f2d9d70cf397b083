package show

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/web"
)

// History writes the answer of the endpoint history: the ended alerts, and the noisy rules.
func History(w io.Writer, data []byte, style ListStyle) error {
	next := ""
	tables, err := decode(data, func(in web.History) []Table {
		next = in.Next
		out := []Table{ended(in.Episodes, style)}
		if len(in.Rules) > 0 {
			out = append(out, noisy(in.Rules))
		}
		return out
	})
	if err != nil {
		return err
	}
	if err := Write(w, tables, style); err != nil || next == "" {
		return err
	}
	_, err = fmt.Fprintf(w, "\nThere are older ones: --after %s\n", redact.Sanitise(next))
	return err
}

func ended(all []web.PastEpisode, style ListStyle) Table {
	t := Table{Head: []string{"FINGERPRINT", "ALERT", "SEVERITY", "BEGAN", "LASTED", "NOTIFIED", "FLAPS", "WHERE"}}
	if style.Wide {
		t.Head = append(t.Head, "LINES", "END", "SYMPTOM OF", "SUMMARY")
	}
	for _, e := range all {
		cells := []Cell{
			plain(e.Fingerprint),
			{Text: e.Alert, Color: bold},
			severityCell(e.Labels["severity"]), plain(e.StartsAt.UTC().Format(time.RFC3339)),
			plain(e.Lasted()), plain(fmt.Sprint(e.Notified)), plain(fmt.Sprint(e.Flaps)), plain(where(e.Labels)),
		}
		if style.Wide {
			cause := "-"
			if e.Cause != nil {
				cause = e.Cause.Alert
			}
			cells = append(cells, plain(fmt.Sprint(e.Count)), plain(e.Ended()), plain(cause), plain(e.Summary))
		}
		t.Rows = append(t.Rows, Row{e.Fingerprint, cells})
	}
	return t
}

func noisy(all []web.HistoryRule) Table {
	t := Table{Head: []string{"RULE", "NOTIFIED", "FLAPS", "EPISODES", "ALERTS", "TIME FIRING", "NEWEST"}}
	for _, r := range all {
		t.Rows = append(t.Rows, Row{r.Alert, []Cell{
			{Text: r.Alert, Color: bold},
			plain(fmt.Sprint(r.Notified)), plain(fmt.Sprint(r.Flaps)), plain(fmt.Sprint(r.Episodes)),
			plain(fmt.Sprint(r.Alerts)), plain(r.Lasted()), plain(r.Last.UTC().Format(time.RFC3339)),
		}})
	}
	return t
}

// Status writes the answers of the endpoints below status, by their names.
func Status(w io.Writer, parts map[string]json.RawMessage) error {
	var build web.BuildInfo
	var info web.RuntimeInfo
	var config web.ConfigYAML
	flags := map[string]string{}
	for name, to := range map[string]any{"buildinfo": &build, "runtimeinfo": &info, "config": &config, "flags": &flags} {
		if err := json.Unmarshal(parts[name], to); err != nil {
			return fmt.Errorf("the daemon's answer for status/%s is not understood: %w", name, err)
		}
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, flat(value))
		}
	}
	row("VERSION", build.Version+" ("+build.Revision+", "+build.GoVersion+")")
	row("STARTED", stamp(info.Start))
	row("READY", ready(info.Missing))
	row("UNHEALTHY", info.Unhealthy)
	row("NOT WATCHED", strings.Join(info.Absent, "; "))
	row("RULES LOADED", stamp(info.LastLoad))
	row("LAST RELOAD FAILED", info.ReloadError)
	row("STATE SAVED", saved(info))
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		row("--"+name, flags[name])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", lines(config.YAML))
	return err
}

func ready(missing []string) string {
	if len(missing) == 0 {
		return "yes"
	}
	return "no: " + strings.Join(missing, "; ")
}

func saved(info web.RuntimeInfo) string {
	out := stamp(info.Saved)
	if info.Saved.IsZero() {
		out = "never"
	}
	if info.Storage != "" {
		out += " in " + info.Storage
	}
	if info.SaveErrors > 0 {
		out += ", " + text.Plural(info.SaveErrors, "failure")
	}
	return out
}

// lines removes what controls a terminal from each line.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = redact.Sanitise(all[i])
	}
	return strings.Join(all, "\n")
}
