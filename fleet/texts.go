package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/internal/times"
	source "crowsnest/sources/fleet"
)

const (
	maxNamed = 10   // clusters or versions that a text names
	maxText  = 1500 // bytes of a description
)

// episode returns the alert of a failure. The caller holds the mutex.
func (x *failure) episode(clusters []source.Cluster) episodes.Episode {
	labels := map[string]string{"alertname": AlertName, "rule": x.Rule, "severity": x.Severity}
	return episodes.Episode{
		Fingerprint: episodes.FingerprintOf(labels), Alert: AlertName, State: episodes.StateFiring, Labels: labels,
		Annotations: x.annotations(clusters), StartsAt: x.StartsAt, FiredAt: x.FiredAt, LastSeen: x.lastSeen(clusters), Count: int64(len(x.In)),
	}
}

// lastSeen is the newest answer of a cluster with the failure.
func (x *failure) lastSeen(clusters []source.Cluster) time.Time {
	out := x.FiredAt
	for _, c := range clusters {
		if _, has := x.In[c.Name]; has {
			out = times.Later(out, c.Answered)
		}
	}
	return out
}

// annotations have no time but those of events, so that they change only with the facts.
func (x *failure) annotations(clusters []source.Cluster) map[string]string {
	silent, doubtful := 0, 0
	var old []string // clusters of the alert that are not up
	links := map[string]string{}
	for _, c := range clusters {
		links[c.Name] = c.Link
		switch c.State {
		case source.Unknown:
			silent++
		case source.Conflict:
			doubtful++
		}
		if _, has := x.In[c.Name]; has && c.State != source.Up {
			old = append(old, fmt.Sprintf("%s since %s", c.Name, stamp(c.Since)))
		}
	}
	summary := fmt.Sprintf("%s is open in %d of %d clusters", x.Rule, len(x.In), len(clusters))
	if n := Affected(x.In); n > 0 {
		summary += fmt.Sprintf("; %d of them %s an affected version", n, plural(n, "runs", "run"))
	}
	if silent > 0 {
		summary += fmt.Sprintf("; %d %s not answer", silent, plural(silent, "cluster does", "clusters do"))
	}
	if doubtful > 0 {
		summary += fmt.Sprintf("; the %s in doubt", plural(doubtful, "name of 1 cluster is", fmt.Sprintf("names of %d clusters are", doubtful)))
	}
	first := First(x.In)
	lines := []string{fmt.Sprintf("Open in: %s.", strings.Join(firstOf(slices.Sorted(maps.Keys(x.In)), maxNamed), ", "))}
	if first != "" {
		lines = slices.Insert(lines, 0, fmt.Sprintf("First seen in %s at %s.", first, stamp(x.In[first].Since)))
	}
	if versions := Versions(x.In); len(versions) > 0 {
		lines = append(lines, fmt.Sprintf("Running versions: %s.", strings.Join(firstOf(counted(versions), maxNamed), ", ")))
	}
	if len(old) > 0 {
		lines = append(lines, fmt.Sprintf("As last reported, because they do not answer or their name is in doubt: %s.", strings.Join(firstOf(old, maxNamed), ", ")))
	}
	fix := "Look for what these clusters have in common: a version, or a change that was rolled out to all of them. Stop a roll-out that is in progress. " +
		"Each cluster has an alert of its own with the log lines and the steps to take."
	if link := links[first]; link != "" {
		fix += fmt.Sprintf(" The first: %s/?filter=%s", link, x.Rule)
	}
	return map[string]string{"summary": summary, "description": text.Shorten(strings.Join(lines, "\n"), maxText), "remediation": fix}
}

// First returns the cluster in which a rule began first; "" if there is none.
func First(in map[string]source.Rule) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if out == "" || in[name].Since.Before(in[out].Since) {
			out = name
		}
	}
	return out
}

// Affected counts the clusters that run a version which has the failure.
func Affected(in map[string]source.Rule) (n int) {
	for _, r := range in {
		if r.Affected == "yes" {
			n++
		}
	}
	return n
}

// Version is how many clusters run a version.
type Version struct {
	Version  string
	Clusters int
}

// Versions counts the clusters by running version, as far as it is known; the most frequent
// version is first.
func Versions(in map[string]source.Rule) []Version {
	n := map[string]int{}
	for _, r := range in {
		for _, v := range r.Versions {
			n[v]++
		}
	}
	out := make([]Version, 0, len(n))
	for v, clusters := range n {
		out = append(out, Version{v, clusters})
	}
	slices.SortFunc(out, func(a, b Version) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), cmp.Compare(a.Version, b.Version))
	})
	return out
}

func counted(all []Version) (out []string) {
	for _, v := range all {
		out = append(out, fmt.Sprintf("%s in %d", v.Version, v.Clusters))
	}
	return out
}

// firstOf returns the first n names and the number of the others.
func firstOf(names []string, n int) []string {
	if more := len(names) - n; more > 0 {
		names = append(slices.Clone(names[:n]), fmt.Sprintf("%d more", more))
	}
	return names
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
