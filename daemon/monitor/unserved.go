package monitor

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
)

// alertUnserved fires while failures are open that wait for lines that no source reads.
const alertUnserved = "CrowsnestSourceMissing"

// unservedNamed is the number of rules that the alert names.
const unservedNamed = 5

// unserved remembers since when failures have waited for such lines.
type unserved struct{ since time.Time }

// alert returns the alert when the failures have waited for this long. It waits because sources
// may still join, such as the agents of a new cluster.
func (u *unserved) alert(now time.Time, after time.Duration, waiting []episodes.Unread) []episodes.Episode {
	if len(waiting) == 0 {
		u.since = time.Time{}
		return nil
	}
	if u.since.IsZero() || now.Before(u.since) {
		u.since = now
	}
	if now.Sub(u.since) < after {
		return nil
	}
	var parts []string
	for _, w := range waiting[:min(len(waiting), unservedNamed)] {
		parts = append(parts, fmt.Sprintf("%s (%d open) needs %s", w.Rule, w.Episodes, strings.Join(w.Selectors, " and ")))
	}
	if n := len(waiting) - len(parts); n > 0 {
		parts = append(parts, text.Plural(n, "more rule"))
	}
	return []episodes.Episode{newAlert(alertUnserved, "warning", nil, u.since, texts{
		fmt.Sprintf("Open failures of %s wait for lines that no source reads", text.Plural(len(waiting), "rule")),
		"crowsnest concludes nothing from the absence of lines that it does not read. So these failures do not end, and they do not fire if they wait for a missing recovery. " + strings.Join(parts, "; ") + ".",
		"Configure the source that reads these streams: `component=\"events\"` needs `sources.events`, other values of `component` need `sources.objects`, and `unit` needs `sources.journal` of the agents. Or disable the rules with an override.",
	})}
}
