package browser

import (
	"fmt"
	"time"

	"crowsnest/web"
)

// fleet is a made-up fleet of forty clusters; of some it knows nothing, or only what was.
func (s *scene) fleet() web.Fleet {
	out := web.Fleet{Needed: 3, States: map[string]int{"up": 36, "unknown": 3, "conflict": 1}, Discovery: []web.FleetDiscovery{{Kind: "http_sd", Error: "http_sd: no answer: " + hostile, Since: s.began}}}
	old := s.began.Add(-12 * time.Minute)
	for i := range 40 {
		c := web.FleetCluster{
			Name: fmt.Sprintf("prod-eu-central-%d", i), State: "up", Since: s.began, Answered: &s.began, Link: fmt.Sprintf("https://crowsnest.eu-%d.example.org", i),
			Version: "0.2.0", Open: map[string]int{"critical": i % 3, "warning": i % 7}, Rules: i % 7,
		}
		switch {
		case i%13 == 12:
			c.State, c.Since, c.Answered, c.Error = "unknown", old, &old, "no answer in time"
		case i == 39:
			c.State, c.Answered, c.Open, c.Error = "conflict", nil, nil, "two targets are of cluster \"prod-eu-central-39\": https://a-rather-long-name.example.org:443 and "+hostile
		}
		out.Clusters = append(out.Clusters, c)
	}
	for n, name := range []string{"ClusterAutoscalerConflict", "EtcdOutOfSpace", "ControllerKeepsFailingOnObjectWithALongName"} {
		r := web.FleetRule{Rule: name, Severity: []string{"critical", "warning", "info"}[n], Since: old, First: "prod-eu-central-1", Affected: 9 - n, Old: n}
		if n == 0 {
			r.Alert, r.Versions = "0abc000000000000", []web.FleetVersion{{Version: "v1.32.0", Clusters: 9}, {Version: "v1.31.2-rancher1-build20260101", Clusters: 5}}
		}
		for i := range 14 - 5*n {
			r.Clusters = append(r.Clusters, web.FleetRuleCluster{
				Cluster: out.Clusters[i].Name, Link: out.Clusters[i].Link + "/?filter=" + name, Open: 1 + i, Since: old, Affected: "yes", Versions: []string{"v1.32.0"}, Old: i < n,
			})
		}
		out.Rules = append(out.Rules, r)
	}
	return out
}
