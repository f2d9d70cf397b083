package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/sources"
)

// alertMisplaced fires for a pod of a known component outside the infrastructure namespaces.
const alertMisplaced = "CrowsnestComponentNotBelieved"

const (
	// misplacedEvery is the interval at which streams are checked, because there may be thousands of streams.
	misplacedEvery = time.Minute
	maxMisplaced   = 10
)

// misplacedPods finds pods of known components outside the infrastructure namespaces.
type misplacedPods struct {
	known *namespaces.Components
	next  time.Time
	notes []episodes.Episode
}

func (m *misplacedPods) alerts(now time.Time, trusted *rules.Namespaces, status []sources.Status) []episodes.Episode {
	if now.Before(m.next) {
		return m.notes
	}
	m.next, m.notes = now.Add(misplacedEvery), nil
	if m.known == nil {
		m.known = namespaces.NewComponents()
	}
	found := map[string]string{} // name of a known component; the key is the namespace
	for _, s := range status {
		for _, st := range s.Streams {
			namespace := st.Labels["namespace"]
			if namespace == "" || trusted.Has(namespace) || trusted.Removed(namespace) {
				continue
			}
			if name := m.known.OfPod(st.Labels["pod"]); name != "" && (found[namespace] == "" || name < found[namespace]) {
				found[namespace] = name
			}
		}
	}
	if len(found) > 0 {
		m.notes = []episodes.Episode{misplacedAlert(now, found)}
	}
	return m.notes
}

func misplacedAlert(now time.Time, found map[string]string) episodes.Episode {
	names := slices.Sorted(maps.Keys(found))
	var parts, add []string
	for _, namespace := range names[:min(len(names), maxMisplaced)] {
		if namespaces.Check("+"+namespace) != nil {
			continue // not a valid name of a namespace
		}
		parts = append(parts, fmt.Sprintf("%s in namespace %s", found[namespace], namespace))
		add = append(add, "+"+namespace)
	}
	pods := strings.Join(parts, "; ")
	if n := len(names) - len(parts); n > 0 {
		pods += ", and " + text.Plural(n, "more namespace")
	}
	return newAlert(alertMisplaced, nil, now, "{pods}", pods, "{namespaces}", strings.Join(add, ", "))
}
