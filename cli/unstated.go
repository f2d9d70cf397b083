package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"crowsnest/replay"
)

// reportUnstated names the labels that the input does not state. The steps of alerts
// show them as placeholders in upper case, so they cannot be run unchanged.
func reportUnstated(w io.Writer, r replay.Report) {
	alerts, names := 0, map[string]bool{}
	for _, a := range r.Alerts {
		if a.Episode.Rule == nil {
			continue
		}
		found := false
		for _, name := range a.Episode.Rule.By {
			if a.Episode.Labels[name] == "" && strings.Contains(a.Episode.Annotations["remediation"], strings.ToUpper(name)) {
				names[name], found = true, true
			}
		}
		if found {
			alerts++
		}
	}
	if alerts == 0 {
		return
	}
	var shown, flags []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		shown = append(shown, strings.ToUpper(name))
		flags = append(flags, "--label "+name+"=NAME")
	}
	fmt.Fprintf(w, "the steps of %d alerts contain %s as placeholders, because the input does not state these labels: replace it before you run a step, or scan with %s\n",
		alerts, strings.Join(shown, " and "), strings.Join(flags, " "))
}
