package config

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/agent/client"
	"crowsnest/daemon/component"
	"crowsnest/internal/strictyaml"
	"crowsnest/internal/text"
	"crowsnest/rules"
)

// acceptsLabels reports whether a selector can match a stream with labels as l describes them.
func acceptsLabels(l component.Labels, s rules.Selector) bool {
	for _, m := range s.Matchers() {
		v, fixed := l.Fixed[m.Name]
		if fixed && !m.Matches(v) || !fixed && !slices.Contains(l.Free, m.Name) && !m.Matches("") {
			return false
		}
	}
	return true
}

func (c *Config) streamLabels() []component.Labels {
	var out []component.Labels
	for _, p := range c.Sources.All {
		if p.Kind.Streams == nil {
			out = append(out, component.Labels{Any: true})
		} else {
			out = append(out, p.Kind.Streams(p)...)
		}
	}
	return out
}

// blindRules returns the sorted names of the rules that have a part whose selector no
// configured source can satisfy. For `clear` and `unless` it adds the part.
func (c *Config) blindRules(set *rules.Set) []string {
	all := c.streamLabels()
	unknown := slices.ContainsFunc(all, func(l component.Labels) bool { return l.Any })
	// An agent also needs rules for the sources of its aggregator.
	if len(all) == 0 || unknown || len(component.SettingsOf[client.Config](c.Sinks)) > 0 {
		return nil
	}
	var out []string
	blind := func(from rules.Selector) bool {
		return !slices.ContainsFunc(all, func(l component.Labels) bool { return acceptsLabels(l, from) })
	}
	for _, r := range set.Rules {
		if r.Mode != rules.ModeOff {
			out = append(out, blindParts(r, blind)...)
		}
	}
	slices.Sort(out)
	return out
}

func blindParts(r *rules.Rule, blind func(rules.Selector) bool) (out []string) {
	if slices.ContainsFunc(r.Steps, func(s rules.Step) bool { return blind(s.From) }) {
		return []string{r.Alert} // the rule can never match
	}
	if r.Clear != nil && blind(r.Clear.From) {
		out = append(out, r.Alert+" (clear)")
	}
	if r.Unless != nil && blind(r.Unless.From) {
		out = append(out, r.Alert+" (unless)")
	}
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
		fmt.Sprintf("no configured source has the labels that %s select: %s", text.Plural(len(blind), "rule"), strings.Join(blind, ", ")),
		"add a source whose streams have these labels, or disable the rules")}
}

// LinksNowhere reports whether sinks send alerts that have no link to their page.
func (c *Config) LinksNowhere() bool {
	return c.Global.ExternalURL == "" && slices.ContainsFunc(c.Sinks.All, func(p component.Part) bool { return p.Setting("external_url").IsValid() })
}

// WarnLinks warns if alerts have no link.
func (c *Config) WarnLinks() rules.Problems {
	if !c.LinksNowhere() {
		return nil
	}
	return rules.Problems{c.Keys.Key("sinks").Problem(strictyaml.Warning, "no-link", "alerts have no link to the page that explains them: global.external_url is not set",
		"set global.external_url, or start with --web.external-url")}
}
