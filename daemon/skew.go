package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/sources"
)

// Agents and the aggregator get new rules at different times. As long as an agent
// has another version of a rule, its logs prove nothing about that rule: what has
// to be concluded from silence waits.

const (
	alertRulesDiffer = "CrowsnestRulesDiffer"
	// differFor is how long a rollout may take before it is alerted on.
	differFor = 15 * time.Minute
)

// behind returns the rules in force that agents have in another version.
func (d *Daemon) behind() map[string]sources.Behind {
	out := map[string]sources.Behind{}
	set := d.pipe.rules.Load().set
	for _, src := range d.sources {
		if v, ok := src.(sources.Versioned); ok {
			maps.Copy(out, v.Behind(set))
		}
	}
	return out
}

// holdBack stops the watermarks of rules that agents have in another version.
func (d *Daemon) holdBack() {
	upTo := map[string]time.Time{}
	for rule, b := range d.behind() {
		upTo[rule] = b.Since
	}
	d.engine.HoldBack(upTo)
}

// differAlert is the alert about rules that have differed for too long.
func differAlert(now time.Time, behind map[string]sources.Behind) (episodes.Episode, bool) {
	var late, nodes []string
	since := now
	for _, rule := range slices.Sorted(maps.Keys(behind)) {
		b := behind[rule]
		if now.Sub(b.Since) < differFor {
			continue
		}
		late, nodes = append(late, rule), append(nodes, b.Members...)
		if b.Since.Before(since) {
			since = b.Since
		}
	}
	if len(late) == 0 {
		return episodes.Episode{}, false
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	return selfAlert(alertRulesDiffer, "warning", nil, since, map[string]string{
		"summary":     fmt.Sprintf("%d rules differ between the aggregator and %s", len(late), nodesText(nodes)),
		"description": truncate(fmt.Sprintf("What these rules conclude from silence waits since %s: %s.", since.UTC().Format(time.RFC3339), strings.Join(late, ", ")), 1500),
		"remediation": "Look whether the agents of these nodes have the same version of crowsnest, the same rules and the same overrides as the aggregator, and whether one of them refused a pack.",
	}), true
}

// whyBehind says for people why a rule waits.
func whyBehind(b sources.Behind) string {
	return fmt.Sprintf("%s has another version of it since %s", nodesText(b.Members), b.Since.UTC().Format(time.RFC3339))
}
