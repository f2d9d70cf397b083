package daemon

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/fleet"
	"crowsnest/sources"
	source "crowsnest/sources/fleet"
	"crowsnest/web"
)

const (
	// fleetEvery is how often failures in many clusters are concluded.
	fleetEvery = 5 * time.Second
	// maxFleetRules bounds the rules that the page and the API show.
	maxFleetRules = 500
)

// fleetView is a source of clusters with the alerts about them.
type fleetView struct {
	*fleet.Fleet
	source *source.Source
}

// newFleetView returns nil if no source reads clusters.
func newFleetView(all []sources.Source) *fleetView {
	for _, s := range all {
		if f, ok := s.(*source.Source); ok {
			return &fleetView{fleet.New(f.Alert()), f}
		}
	}
	return nil
}

func (f *fleetView) open() []episodes.Episode { return f.Open(f.source.Clusters()) }

// clusters returns none if this process is no fleet view.
func (f *fleetView) clusters() []source.Cluster {
	if f == nil {
		return nil
	}
	return f.source.Clusters()
}

// only reports whether the process reads nothing but clusters, and so needs no rules.
func (f *fleetView) only(all []sources.Source) bool { return f != nil && len(all) == 1 }

// evaluateFleet concludes which failures are in many clusters.
func (d *Daemon) evaluateFleet(now time.Time) {
	if d.fleet == nil || !d.restoredUntil.IsZero() {
		return
	}
	if now.Sub(d.fleetAt) < fleetEvery && !now.Before(d.fleetAt) {
		return
	}
	d.fleetAt = now
	var changes []episodes.Episode
	d.pipe.unchanging(func() bool { // a snapshot contains the conclusions and what was sent
		changes = d.fleet.Evaluate(now, d.fleet.source.Clusters())
		d.remember(changes)
		d.notify(changes)
		return d.fleet.Changed() || d.fleet.source.Changed()
	})
	for i := range changes {
		x := &changes[i]
		d.log.Info().Str("alert", x.Alert).Str("state", string(x.State)).Str("rule", x.Labels["rule"]).Msg("a failure in many clusters: " + x.Annotations["summary"])
	}
}

// view returns the clusters and rules for the pages.
func (f *fleetView) view() web.Fleet {
	clusters := f.source.Clusters()
	out := web.Fleet{Needed: f.Needed(len(clusters)), Clusters: []web.FleetCluster{}, Rules: []web.FleetRule{}, States: map[string]int{}}
	for _, state := range source.States() {
		out.States[string(state)] = 0
	}
	for _, c := range clusters {
		out.States[string(c.State)]++
		x := web.FleetCluster{
			Name: c.Name, State: string(c.State), Since: c.Since, Error: c.Error, Link: c.Link, Version: c.Version,
			Open: c.Open, Rules: len(c.Rules),
		}
		if !c.Answered.IsZero() {
			x.Answered = &c.Answered
		}
		out.Clusters = append(out.Clusters, x)
	}
	for _, d := range f.source.Failing() {
		out.Discovery = append(out.Discovery, web.FleetDiscovery(d))
	}
	rules := f.Rules(clusters)
	out.MoreRules = max(0, len(rules)-maxFleetRules)
	for _, r := range rules[:len(rules)-out.MoreRules] {
		out.Rules = append(out.Rules, fleetRule(r, clusters))
	}
	return out
}

func fleetRule(r fleet.Rule, clusters []source.Cluster) web.FleetRule {
	out := web.FleetRule{Rule: r.Name, Severity: r.Severity, Since: r.Since(), First: fleet.First(r.In), Affected: fleet.Affected(r.In)}
	if r.Alert != 0 {
		out.Alert = r.Alert.String()
	}
	for _, v := range fleet.Versions(r.In) {
		out.Versions = append(out.Versions, web.FleetVersion(v))
	}
	links, old := map[string]string{}, map[string]bool{}
	for _, c := range clusters {
		links[c.Name], old[c.Name] = c.Link, c.State != source.Up
	}
	for _, name := range slices.Sorted(maps.Keys(r.In)) {
		x := r.In[name]
		out.Alerts += x.Open
		if old[name] {
			out.Old++
		}
		in := web.FleetRuleCluster{Cluster: name, Open: x.Open, Since: x.Since, Affected: x.Affected, Versions: x.Versions, Old: old[name]}
		if links[name] != "" {
			in.Link = links[name] + "/?filter=" + r.Name
		}
		out.Clusters = append(out.Clusters, in)
	}
	slices.SortStableFunc(out.Clusters, func(a, b web.FleetRuleCluster) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Cluster, b.Cluster))
	})
	return out
}
