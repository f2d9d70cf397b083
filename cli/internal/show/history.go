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

// WriteHistory writes the ended alerts and the noisy rules in the data of the endpoint history.
func WriteHistory(w io.Writer, data []byte, style ListStyle) error {
	next := ""
	tables, err := decodeTables(data, func(in web.History) []Table {
		next = in.Next
		out := []Table{endedTable(in.Episodes, style)}
		if len(in.Rules) > 0 {
			out = append(out, noisyTable(in.Rules))
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

func endedTable(all []web.PastEpisode, style ListStyle) Table {
	t := Table{Head: []string{"FINGERPRINT", "ALERT", "SEVERITY", "BEGAN", "LASTED", "NOTIFIED", "FLAPS", "WHERE"}}
	if style.Wide {
		t.Head = append(t.Head, "LINES", "END", "SYMPTOM OF", "SUMMARY")
	}
	for _, e := range all {
		cells := []Cell{
			plainCell(e.Fingerprint),
			{Text: e.Alert, Color: bold},
			severityCell(e.Labels["severity"]), plainCell(e.StartsAt.UTC().Format(time.RFC3339)),
			plainCell(e.Lasted()), plainCell(fmt.Sprint(e.Notified)), plainCell(fmt.Sprint(e.Flaps)), plainCell(placeText(e.Labels)),
		}
		if style.Wide {
			cause := "-"
			if e.Cause != nil {
				cause = e.Cause.Alert
			}
			cells = append(cells, plainCell(fmt.Sprint(e.Count)), plainCell(e.Ended()), plainCell(cause), plainCell(e.Summary))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

func noisyTable(all []web.HistoryRule) Table {
	t := Table{Head: []string{"RULE", "NOTIFIED", "FLAPS", "EPISODES", "ALERTS", "TIME FIRING", "NEWEST"}}
	for _, r := range all {
		t.Rows = append(t.Rows, []Cell{
			{Text: r.Alert, Color: bold},
			plainCell(fmt.Sprint(r.Notified)), plainCell(fmt.Sprint(r.Flaps)), plainCell(fmt.Sprint(r.Episodes)),
			plainCell(fmt.Sprint(r.Alerts)), plainCell(r.Lasted()), plainCell(r.Last.UTC().Format(time.RFC3339)),
		})
	}
	return t
}

// WriteStatus writes the data of the endpoints below status, by name.
func WriteStatus(w io.Writer, parts map[string]json.RawMessage) error {
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
			fmt.Fprintf(t, "%s\t%s\n", name, oneLine(value))
		}
	}
	row("VERSION", build.Version+" ("+build.Revision+", "+build.GoVersion+")")
	row("STARTED", formatTime(info.Start))
	row("READY", readyText(info.Missing))
	row("UNHEALTHY", info.Unhealthy)
	row("NOT WATCHED", strings.Join(info.Absent, "; "))
	row("RULES LOADED", formatTime(info.LastLoad))
	row("LAST RELOAD FAILED", info.ReloadError)
	row("STATE SAVED", savedText(info))
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		row("--"+name, flags[name])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", cleanLines(config.YAML))
	return err
}

func readyText(missing []string) string {
	if len(missing) == 0 {
		return "yes"
	}
	return "no: " + strings.Join(missing, "; ")
}

func savedText(info web.RuntimeInfo) string {
	out := formatTime(info.Saved)
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

// cleanLines removes the characters that control a terminal from each line.
func cleanLines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = redact.Sanitise(all[i])
	}
	return strings.Join(all, "\n")
}
