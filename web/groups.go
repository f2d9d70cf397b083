package web

import (
	"cmp"
	"slices"
	"strings"
)

// maxGroup bounds the rows of one group of alerts, so that the worst alerts of all groups are
// near the top. The others are one click away.
const maxGroup = 10

// groupHead is the heading of the alerts of one place.
type groupHead struct {
	Cluster, Namespace string
	Place              []string // for people
	Link               string   // the page with the alerts of the group only
	Severities         []groupCount
	More               int // rows that are not shown
}

type groupCount struct {
	Severity string
	Count    int
}

// Name names the place for people.
func (h groupHead) Name() string {
	parts := slices.DeleteFunc(slices.Clone(h.Place), func(p string) bool { return p == "" })
	return cmp.Or(strings.Join(parts, " / "), "without a namespace")
}

// byPlace groups rows by cluster and namespace and reports whether there is more than one
// group. Symptoms stay below their cause, wherever they are. Groups have the order of their
// first rows; of a large group only the first rows are kept. oneCluster leaves the cluster
// out of headings.
func byPlace(q query, rows []row, oneCluster bool) (out []row, several bool) {
	type place struct{ cluster, namespace string }
	type group struct {
		head *groupHead
		rows []row
	}
	at := map[place]*group{}
	var order []*group
	for i := 0; i < len(rows); {
		end := i + 1
		for end < len(rows) && rows[end].Depth > 0 {
			end++
		}
		p := place{rows[i].Labels["cluster"], rows[i].Labels["namespace"]}
		g := at[p]
		if g == nil {
			g = &group{head: &groupHead{Cluster: p.cluster, Namespace: p.namespace, Link: q.at(p.cluster, p.namespace).link(1)}}
			if g.head.Place = []string{p.cluster, p.namespace}; oneCluster {
				g.head.Place = g.head.Place[1:]
			}
			at[p], order = g, append(order, g)
		}
		g.rows = append(g.rows, rows[i:end]...)
		i = end
	}
	if len(order) < 2 {
		return rows, false
	}
	for _, g := range order {
		out = append(out, fold(g.head, g.rows)...)
	}
	return out, true
}

// fold gives the rows of a group their heading, and keeps the first of them.
func fold(head *groupHead, rows []row) []row {
	for i := range rows {
		name := rows[i].Labels["severity"]
		k := slices.IndexFunc(head.Severities, func(c groupCount) bool { return c.Severity == name })
		if k < 0 {
			k, head.Severities = len(head.Severities), append(head.Severities, groupCount{Severity: name})
		}
		head.Severities[k].Count++
		rows[i].Grouped = rows[i].Labels["namespace"] == head.Namespace && rows[i].Labels["cluster"] == head.Cluster
	}
	slices.SortStableFunc(head.Severities, func(a, b groupCount) int { return severityRank(a.Severity) - severityRank(b.Severity) })
	if len(rows) > maxGroup+1 { // a link instead of one row saves nothing
		head.More, rows = len(rows)-maxGroup, rows[:maxGroup]
	}
	rows[0].Head = head
	return rows
}

// at returns the query that demands a place; an empty name demands that the label is absent.
func (q query) at(cluster, namespace string) query {
	if cluster != "" {
		q = q.with("cluster", cluster)
	}
	return q.with("namespace", namespace)
}

// regrouped returns the query without groups if it has them, and with them otherwise.
func (q query) regrouped() query {
	q.flat = !q.flat
	return q
}
