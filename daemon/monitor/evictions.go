package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
)

// alertEvictions fires when log lines of one namespace create so much state that older state is evicted from bounded
// memory.
const alertEvictions = "CrowsnestCrowded"

const (
	// evictionsShown is how long the alert stays open after the newest eviction.
	evictionsShown = 15 * time.Minute
	// maxNamespaces is the maximum number of namespaces that the alert names. maxRules is the maximum number of rules
	// for each of them.
	maxNamespaces = 5
	maxRules      = 5
)

var evictedText = map[episodes.EvictedKind]string{
	episodes.EvictedWindows: "counts of lines",
	episodes.EvictedClears:  "recoveries",
	episodes.EvictedMutes:   "mutes",
	episodes.EvictedArmed:   "keys of rules with `silent`",
	episodes.EvictedAlerts:  "open alerts",
}

type namespaceEvictions struct {
	namespace string
	count     int64
	kinds     map[episodes.EvictedKind]int64
	rules     map[string]bool
}

func evictionAlert(now time.Time, evictions []episodes.Eviction) []episodes.Episode {
	by := map[string]*namespaceEvictions{}
	for _, v := range evictions {
		if now.Sub(v.LastAt) >= evictionsShown {
			continue
		}
		c := by[v.Namespace]
		if c == nil {
			c = &namespaceEvictions{namespace: v.Namespace, kinds: map[episodes.EvictedKind]int64{}, rules: map[string]bool{}}
			by[v.Namespace] = c
		}
		c.count += v.Count
		c.kinds[v.Kind] += v.Count
		c.rules[v.Rule] = true
	}
	if len(by) == 0 {
		return nil
	}
	all := slices.SortedFunc(maps.Values(by), func(a, b *namespaceEvictions) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.namespace, b.namespace))
	})
	var names, details []string
	for _, c := range all {
		names, details = append(names, namespaceText(c.namespace)), append(details, c.String())
	}
	if n := len(all) - maxNamespaces; n > 0 {
		details = append(details[:maxNamespaces], fmt.Sprintf("%s.", text.Plural(n, "more namespace")))
	}
	return []episodes.Episode{newAlert(alertEvictions, nil, now, "{namespaces}", joinFirst(names, maxNamespaces),
		"{details}", strings.Join(details, " "), "{shown}", evictionsShown.String())}
}

// String describes the evictions of the namespace.
func (c *namespaceEvictions) String() string {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", c.kinds[k], evictedText[k]))
	}
	return fmt.Sprintf("%s: %s of the rules %s.", namespaceText(c.namespace), strings.Join(kinds, ", "), joinFirst(slices.Sorted(maps.Keys(c.rules)), maxRules))
}

// plainName matches the name of a namespace, optionally preceded by the name of its cluster and a slash.
var plainName = lazyre.New(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)

// namespaceText returns the name of a namespace for people. If the name is invalid, namespaceText does not repeat it,
// because it may be an attacker's text.
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
