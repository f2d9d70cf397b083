package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
)

// alertCrowded fires when log lines of a namespace exhaust bounded memory.
const alertCrowded = "CrowsnestCrowded"

const (
	// crowdedShown is how long the alert stays open after the newest eviction.
	crowdedShown = 15 * time.Minute
	// maxCrowding and maxCrowded bound the namespaces that the alert names, and the
	// rules of each.
	maxCrowding = 5
	maxCrowded  = 5
)

// evictedText names the kinds of evicted entries for people.
var evictedText = map[episodes.Evicted]string{
	episodes.EvictedWindows: "counts of lines",
	episodes.EvictedClears:  "recoveries",
	episodes.EvictedMutes:   "mutes",
	episodes.EvictedAlerts:  "open alerts",
}

// crowding counts the evicted entries of one namespace.
type crowding struct {
	namespace string
	count     int64
	kinds     map[episodes.Evicted]int64
	rules     map[string]bool
}

// crowdedAlert returns the alert about namespaces with recent evictions, if any.
func crowdedAlert(now time.Time, evictions []episodes.Eviction) (episodes.Episode, bool) {
	by := map[string]*crowding{}
	for _, v := range evictions {
		if now.Sub(v.Last) >= crowdedShown {
			continue
		}
		c := by[v.Namespace]
		if c == nil {
			c = &crowding{namespace: v.Namespace, kinds: map[episodes.Evicted]int64{}, rules: map[string]bool{}}
			by[v.Namespace] = c
		}
		c.count += v.Count
		c.kinds[v.Kind] += v.Count
		c.rules[v.Rule] = true
	}
	if len(by) == 0 {
		return episodes.Episode{}, false
	}
	all := slices.SortedFunc(maps.Values(by), func(a, b *crowding) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.namespace, b.namespace))
	})
	var names, texts []string
	for _, c := range all[:min(len(all), maxCrowding)] {
		names = append(names, namespaceText(c.namespace))
		texts = append(texts, c.String())
	}
	if n := len(all) - maxCrowding; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
		texts = append(texts, fmt.Sprintf("%d more namespaces.", n))
	}
	return selfAlert(alertCrowded, "warning", nil, now, map[string]string{
		"summary": "Lines of " + strings.Join(names, ", ") + " exhaust the memory limits: failures there may be missed",
		"description": truncate("Evicted since the start of crowsnest: "+strings.Join(texts, " ")+fmt.Sprintf(
			" Namespaces within their share lost nothing. This alert resolves %v after the newest eviction.", crowdedShown), 1500),
		"remediation": "Find out why these namespaces log so many different failures. If they are real, raise limits.keys (counts, recoveries, mutes), " +
			"or limits.active_alerts and the `limit` of the rules (open alerts), and the memory of crowsnest with them. Otherwise exclude the namespace in `from` of the rules.",
	}), true
}

// String describes the evictions of the namespace.
func (c *crowding) String() string {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", c.kinds[k], evictedText[k]))
	}
	named := slices.Sorted(maps.Keys(c.rules))
	if more := len(named) - maxCrowded; more > 0 {
		named = append(named[:maxCrowded], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s: %s of the rules %s.", namespaceText(c.namespace), strings.Join(kinds, ", "), strings.Join(named, ", "))
}

// plainName matches a namespace, optionally after its cluster.
var plainName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)

// namespaceText names a namespace for people. It does not repeat an invalid name,
// which may be text of an attacker.
func namespaceText(name string) string {
	switch name {
	case "":
		return "streams without a namespace"
	case episodes.OtherEvictions:
		return "other namespaces"
	}
	cluster, bare := strings.CutSuffix(name, "/")
	switch {
	case !plainName.MatchString(cluster):
		return "a namespace with an invalid name"
	case bare:
		return "streams of " + cluster + " without a namespace"
	}
	return "namespace " + name
}
