package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/metric"
	source "crowsnest/sources/fleet"
)

// Rule is a rule that is open in clusters.
type Rule struct {
	Name     string
	Severity string                 // the most severe in a cluster
	In       map[string]source.Rule // by cluster: those that are up, and of its alert also others
	Alert    episodes.Fingerprint   // of its alert; 0: there is none
}

// Rules returns the rules that are open in clusters, those in the most clusters first.
func (f *Fleet) Rules(clusters []source.Cluster) []Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := byRule(clusters)
	alerts := map[string]episodes.Fingerprint{}
	for rule, x := range f.failures {
		if x.FiredAt.IsZero() {
			continue
		}
		alerts[rule] = x.episode(clusters).Fingerprint
		all[rule] = maps.Clone(x.In)
	}
	out := make([]Rule, 0, len(all))
	for name, in := range all {
		r := Rule{Name: name, In: in, Alert: alerts[name]}
		for _, c := range in {
			if r.Severity == "" || source.Severity(c.Severity) > source.Severity(r.Severity) {
				r.Severity = c.Severity
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(len(b.In), len(a.In)), cmp.Compare(source.Severity(b.Severity), source.Severity(a.Severity)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// stats is what the metrics show.
type stats struct {
	open  int
	fired int64
	rules map[string]int // clusters by rule
}

// Metrics returns the collector of the alerts. clusters returns those of the source.
func (f *Fleet) Metrics(clusters func() []source.Cluster) metric.Collector {
	read := func() stats {
		out := stats{rules: map[string]int{}}
		for _, r := range f.Rules(clusters()) {
			if len(r.In) > 1 { // one cluster cannot make many series
				out.rules[r.Name] = len(r.In)
			}
			if r.Alert != 0 {
				out.open++
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		out.fired = f.fired
		return out
	}
	return metric.New(read,
		metric.Gauge("fleet_alerts", "Open alerts CrowsnestFleetFailure.", func(st stats) int { return st.open }),
		metric.Counter("fleet_alerts_total", "Alerts CrowsnestFleetFailure that fired.", func(st stats) int64 { return st.fired }),
		metric.GaugeBy("fleet_rule_clusters", "In how many clusters a rule is open, if these are at least two.", "rule", func(st stats) map[string]int { return st.rules }),
	)
}

// Since returns when a rule began in the first cluster.
func (r Rule) Since() time.Time { return r.In[First(r.In)].Since }
