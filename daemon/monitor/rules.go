package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/web"
)

// alertUnserved fires while open failures wait for lines that no source reads.
const alertUnserved = "CrowsnestSourceMissing"

const unservedNamed = 5

type unservedRules struct{ since time.Time }

// alert returns the alert if failures have waited for missing sources for at least after. It does not fire earlier,
// because sources may still join, such as the agents of a new cluster.
func (u *unservedRules) alert(now time.Time, after time.Duration, waiting []episodes.UnreadRule) []episodes.Episode {
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
	return []episodes.Episode{newAlert(alertUnserved, nil, u.since,
		"{rules}", text.Plural(len(waiting), "rule"), "{waiting}", strings.Join(parts, "; "))}
}

const alertUnverified = "CrowsnestRulesUnverified"

func unverifiedAlert(now time.Time, u rules.UnverifiedRelease) episodes.Episode {
	var names []string
	for _, r := range u.Rules {
		names = append(names, r.Alert)
	}
	return newAlert(alertUnverified, map[string]string{"software": u.Component, "release": u.Release}, now,
		"{rules}", text.Plural(len(names), "rule"), "{versions}", strings.Join(u.Versions, ", "), "{names}", strings.Join(names, ", "))
}

// brokenAlerts returns an alert for each refused pack of the operator, and one for each namespace with refused packs.
func brokenAlerts(now time.Time, broken []web.BrokenPack) (out []episodes.Episode) {
	owned := map[string][]web.BrokenPack{}
	for _, b := range broken {
		if b.Namespace == "" {
			out = append(out, brokenAlert(now, b))
			continue
		}
		owned[b.Namespace] = append(owned[b.Namespace], b)
	}
	for _, namespace := range slices.Sorted(maps.Keys(owned)) {
		all := owned[namespace]
		var names []string
		for _, b := range all[:min(len(all), unservedNamed)] {
			names = append(names, redact.DefuseText(b.Pack))
		}
		summary := fmt.Sprintf("%s of namespace %s refused: %s", text.Plural(len(all), "rule pack"), namespace, strings.Join(names, ", "))
		out = append(out, newAlert(alertPackBroken, map[string]string{"namespace": namespace}, now, "{summary}", summary, "{error}", redact.DefuseText(all[0].Error)))
	}
	return out
}

func brokenAlert(now time.Time, b web.BrokenPack) episodes.Episode {
	summary := "The newest version of rule pack " + b.Pack + " was refused; its last valid version stays active"
	if b.Missing {
		summary = "Rule pack " + b.Pack + " is not active: it was refused, and there is no earlier version"
	}
	return newAlert(alertPackBroken, map[string]string{"pack": b.Pack}, now, "{summary}", summary, "{error}", b.Error)
}

// QuarantineReason returns the explanation of a quarantine's reason for people.
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
	labels := map[string]string{"rule": g.Rule.Alert, "reason": string(g.Reason)}
	return newAlert(alertQuarantined, labels, now, "{why}", QuarantineReason(g.Reason), "{fix}", fix)
}
