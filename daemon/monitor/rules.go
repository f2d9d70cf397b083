package monitor

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/web"
)

// alertUnserved fires while failures are open that wait for lines that no source reads.
const alertUnserved = "CrowsnestSourceMissing"

const unservedNamed = 5

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

const alertUnverified = "CrowsnestRulesUnverified"

func unverifiedAlert(now time.Time, u rules.Unverified) episodes.Episode {
	var names []string
	for _, r := range u.Rules {
		names = append(names, r.Alert)
	}
	return newAlert(alertUnverified, "info", map[string]string{"software": u.Component, "release": u.Release}, now, texts{
		fmt.Sprintf("%s %s is running; not verified for it: %s", u.Component, u.Release, text.Plural(len(names), "rule")),
		fmt.Sprintf("Running: %s. If this release words its messages differently, these rules stay silent: %s.", strings.Join(u.Versions, ", "), strings.Join(names, ", ")),
		fmt.Sprintf("Update crowsnest, or the pack: a newer one may have verified rules. `crowsnest rules verify-source --component %s DIR` compares the rules with a checkout of the source.", u.Component),
	})
}

func brokenAlert(now time.Time, b web.BrokenPack) episodes.Episode {
	summary := "The newest version of rule pack " + b.Pack + " was refused; its last valid version stays active"
	if b.Missing {
		summary = "Rule pack " + b.Pack + " is not in force: it was refused, and there is no earlier version"
	}
	fix := "Run `crowsnest check rules` and `crowsnest test rules` on the pack and correct it."
	return newAlert(alertPackBroken, "warning", map[string]string{"pack": b.Pack}, now, texts{summary, b.Error, fix})
}

// QuarantineReason explains the reason for a quarantine to people.
func QuarantineReason(reason matcher.Reason) string {
	if reason == matcher.ReasonCost {
		return "it took more of a CPU for a full minute than limits.rule_cpu allows"
	}
	return "its evaluation failed several times because of a bug in crowsnest"
}

func quarantineAlert(g matcher.Quarantined, now time.Time) episodes.Episode {
	fix := "Report the bug with the rule and the log lines."
	if g.Reason == matcher.ReasonCost {
		fix = "Add a `contains` text that occurs in few lines, or narrow `from`; crowsnest_rule_seconds_total shows the cost of each rule."
	}
	return newAlert(alertQuarantined, "warning", map[string]string{"rule": g.Rule.Alert, "reason": string(g.Reason)}, now, texts{
		"Rule " + g.Rule.Alert + " is quarantined and no longer evaluated",
		"Rule " + g.Rule.Alert + " was quarantined: " + QuarantineReason(g.Reason) + ". Its open alerts stay open. All other rules continue. A changed version of the rule or a restart tries it again.",
		fix,
	})
}
