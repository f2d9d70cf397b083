package config

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/rules"
	"crowsnest/strictyaml"
)

// podLabels are those that a source of pods gives its streams.
var podLabels = []string{"namespace", "pod", "container", "filename"}

// reach says which labels the streams of a source can have.
type reach struct {
	fixed map[string]string // with these values
	free  []string          // with any value
}

// accepts reports whether a selector can match a stream.
func (r reach) accepts(s rules.Selector) bool {
	for _, m := range s.Matchers() {
		v, fixed := r.fixed[m.Name]
		switch {
		case fixed && !m.Matches(v), !fixed && !slices.Contains(r.free, m.Name) && !m.Matches(""):
			return false
		}
	}
	return true
}

// reaches returns what the configured sources can state; false if that cannot be
// known.
func (c *Config) reaches() ([]reach, bool) {
	// What an agent cannot match, a source of the aggregator may.
	if len(c.Sources.Loki) > 0 || c.Sinks.Upstream != nil {
		return nil, false
	}
	var out []reach
	s := c.Sources
	if s.Kubelet != nil {
		out = append(out, reach{s.Kubelet.Config.Labels, podLabels})
	}
	if s.Agents != nil {
		out = append(out, reach{nil, append([]string{"node_name"}, podLabels...)})
	}
	for _, p := range s.Kubernetes {
		out = append(out, reach{p.Config.Labels, append([]string{"node_name", "image", "app", "workload"}, podLabels...)})
	}
	for _, p := range s.Machines {
		fixed := map[string]string{"component": "machines"}
		for name, value := range p.Config.Labels {
			fixed[name] = value
		}
		out = append(out, reach{fixed, nil})
	}
	for _, p := range s.Files {
		for _, path := range p.Config.Paths {
			out = append(out, reach{path.Labels, []string{"filename"}})
		}
	}
	if s.Stdin != nil {
		out = append(out, reach{s.Stdin.Config.Labels, nil})
	}
	return out, len(out) > 0
}

// blindRules returns the rules whose selector no configured source can satisfy,
// in order of their names.
func (c *Config) blindRules(set *rules.Set) []string {
	all, known := c.reaches()
	if !known {
		return nil
	}
	var out []string
	for _, r := range set.Rules {
		if r.Mode != rules.ModeOff && !slices.ContainsFunc(all, func(s reach) bool { return s.accepts(r.From) }) {
			out = append(out, r.Alert)
		}
	}
	slices.Sort(out)
	return out
}

// WarnBlind warns of rules that can never match.
func (c *Config) WarnBlind(set *rules.Set) rules.Problems {
	blind := c.blindRules(set)
	if len(blind) == 0 {
		return nil
	}
	at := c.Keys.Key("sources")
	return rules.Problems{at.Problem(strictyaml.Warning, "blind-rule",
		fmt.Sprintf("no source has the labels that %d rules select by: %s", len(blind), strings.Join(blind, ", ")),
		"add a source whose streams have these labels, or disable the rules")}
}

// LinksNowhere reports whether alerts are sent without a link to their page.
func (c *Config) LinksNowhere() bool {
	return c.Global.ExternalURL == "" && len(c.Sinks.Alertmanager)+len(c.Sinks.Webhook)+len(c.Sinks.Loki) > 0
}

// WarnLinks warns of alerts without a link.
func (c *Config) WarnLinks() rules.Problems {
	if !c.LinksNowhere() {
		return nil
	}
	return rules.Problems{c.Keys.Key("sinks").Problem(strictyaml.Warning, "no-link", "alerts have no link to the page that explains them: global.external_url is not set",
		"set global.external_url, or start with --web.external-url")}
}
