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

	"crowsnest/redact"
	"crowsnest/web"
)

// History writes the answer of the endpoint history; wide adds columns.
func History(w io.Writer, data []byte, wide bool) error {
	head := "FINGERPRINT\tALERT\tSEVERITY\tBEGAN\tLASTED\tNOTIFIED\tFLAPS\tWHERE"
	if wide {
		head += "\tLINES\tEND\tSYMPTOM OF\tSUMMARY"
	}
	var next string
	err := table(w, data, head, func(t io.Writer, in web.History) {
		next = in.Next
		for _, e := range in.Episodes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s", e.Fingerprint, redact.Sanitise(e.Alert), redact.Sanitise(e.Labels["severity"]),
				e.StartsAt.UTC().Format(time.RFC3339), e.Lasted(), e.Notified, e.Flaps, flat(Where(e.Labels)))
			if wide {
				cause := "-"
				if e.Cause != nil {
					cause = redact.Sanitise(e.Cause.Alert)
				}
				fmt.Fprintf(t, "\t%d\t%s\t%s\t%s", e.Count, e.Ended(), cause, flat(e.Summary))
			}
			fmt.Fprintln(t)
		}
		if len(in.Rules) > 0 {
			fmt.Fprintln(t, "\nRULE\tNOTIFIED\tFLAPS\tEPISODES\tALERTS\tTIME FIRING\tNEWEST")
		}
		for _, r := range in.Rules {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", redact.Sanitise(r.Alert), r.Notified, r.Flaps, r.Episodes, r.Alerts, r.Lasted(), r.Last.UTC().Format(time.RFC3339))
		}
	})
	if err == nil && next != "" {
		_, err = fmt.Fprintf(w, "\nThere are older ones: --after %s\n", redact.Sanitise(next))
	}
	return err
}

// Status writes the answers of the endpoints below status, by their names.
func Status(w io.Writer, parts map[string]json.RawMessage) error {
	var build web.BuildInfo
	var info web.RuntimeInfo
	var config web.ConfigYAML
	var shadow web.ShadowStatus
	flags := map[string]string{}
	for name, to := range map[string]any{"buildinfo": &build, "runtimeinfo": &info, "config": &config, "shadow": &shadow, "flags": &flags} {
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
	if s := shadow.Shadow; s != nil {
		row("SHADOW", s.Version+" of "+s.Artifact)
	}
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
	text := stamp(info.Saved)
	if info.Saved.IsZero() {
		text = "never"
	}
	if info.Storage != "" {
		text += " in " + info.Storage
	}
	if info.SaveErrors > 0 {
		text += fmt.Sprintf(", %d failures", info.SaveErrors)
	}
	return text
}

// lines removes what controls a terminal from each line.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = redact.Sanitise(all[i])
	}
	return strings.Join(all, "\n")
}
