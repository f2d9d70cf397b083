package daemon

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/sources"
)

const alertLinesLost = "CrowsnestLinesLost"

// lossShown is how long the newest loss of a reason is told. What is lost does
// not come back, so nothing else ends the alert.
const lossShown = 15 * time.Minute

// lossText says for people what a reason means and what helps.
type lossText struct{ severity, what, fix string }

// lossTexts are the reasons that sources give. A reason that is not here is told
// without advice.
var lossTexts = map[string]lossText{
	"agent_gap": {
		"warning", "the saved state of this aggregator was lost or too old, and the agent of the node does not have any more what is missing in it",
		"Look at the storage of the aggregator (storage.path): it has to outlive the pod. What was open then opens again only with its next line.",
	},
	"deleted": {
		"warning", "a file was deleted before it was read to its end",
		"Look whether crowsnest lacks CPU (crowsnest_source_lag_seconds), and whether logs are kept for long enough (containerLogMaxSize, containerLogMaxFiles of the kubelet).",
	},
	"gap": {
		"warning", "what was written since the last saved position was rotated away, or rewritten, while crowsnest was not running",
		"Look why crowsnest was away for so long, and whether logs are kept for long enough (containerLogMaxSize, containerLogMaxFiles of the kubelet).",
	},
	"gzip": {
		"warning", "a compressed file is damaged",
		"Look at the file and at the disk.",
	},
	"outage": {
		"warning", "Loki was away, or crowsnest was not running, for more than a day, and what is older was skipped",
		"Read the range with crowsnest replay if it matters.",
	},
	"removed": { // a pod that goes during an upgrade is everyday life
		"info", "a container's logs were removed before they were read to their end, most likely with its pod while crowsnest was not running",
		"Nothing, if crowsnest was restarted or the node was busy: the last lines of these containers are in no log any more.",
	},
	"ties": {
		"warning", "more lines of one stream have the very same time than one answer of Loki can hold",
		"Raise max_entries_limit_per_query of the tenant, or have the agent keep the times of the lines.",
	},
	"too_large": {
		"warning", "a line in Loki is above 8 MiB",
		"Lower max_line_size of Loki.",
	},
	"restarts": {
		"warning", "a container was restarted, and the end of an instance before is not to be had from the API, which keeps only the last one",
		"Nothing, if crowsnest was away or the container restarts all the time. Reading the files of the nodes, with the source kubelet, misses none of them.",
	},
	"truncated": {
		"warning", "a file was truncated, and no copy of it is beside it",
		"Have logs rotated by renaming them, or keep the copy of copytruncate in the same folder.",
	},
	"unreadable_file": {
		"warning", "a rotated file cannot be read, and the logs that came after it were not kept waiting",
		"Look at the rights of the file and at the disk.",
	},
	"unreadable": {
		"warning", "what Loki sends of a time is in no form that is known",
		"Look at what stands between crowsnest and Loki, and at the version of Loki.",
	},
}

// lossAlerts returns an alert for each reason for which a source lost lines of
// late.
func lossAlerts(now time.Time, s sources.Status) []episodes.Episode {
	var out []episodes.Episode
	for _, reason := range slices.Sorted(maps.Keys(s.Losses)) {
		l := s.Losses[reason]
		if l.Count <= 0 || now.Sub(l.At) >= lossShown {
			continue
		}
		text, known := lossTexts[reason]
		if !known {
			text = lossText{severity: "warning", what: reason, fix: "Look at the log of crowsnest."}
		}
		at := l.At
		if at.After(now) { // the clock was set back
			at = now
		}
		alert := selfAlert(alertLinesLost, text.severity, map[string]string{"source": s.Name, "reason": reason}, at, map[string]string{
			"summary": "Lines of source " + s.Name + " were lost before they were read",
			"description": cutText(fmt.Sprintf("What was in them is not known: %s. Newest: %q at %s; %d times in all. This alert ends %v after the newest loss.",
				text.what, l.Path, l.At.UTC().Format(time.RFC3339), l.Count, lossShown), 1500),
			"remediation": text.fix,
		})
		alert.Count, alert.LastSeen = l.Count, at.UTC()
		out = append(out, alert)
	}
	return out
}

// logLosses logs what was lost since the last call, by this process.
func (t *transitions) logLosses(log zerolog.Logger, s sources.Status) {
	for _, reason := range slices.Sorted(maps.Keys(s.Losses)) {
		l, key := s.Losses[reason], s.Name+"/loss/"+reason
		if l.Count > t.lost[key] && !l.At.Before(t.d.start) {
			log.Warn().Str("reason", reason).Str("path", l.Path).Int64("times", l.Count).Msg("lines were gone before they were read")
		}
		t.lost[key] = l.Count
	}
}
