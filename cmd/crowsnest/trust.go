package main

import (
	"fmt"
	"strings"

	"crowsnest/rules"
)

// effective writes the effective configuration, with the namespaces that are
// believed in the place of the changes to the built-in list.
func (c *Config) effective() string {
	shown := *c
	if trusted, err := c.namespaces(); err == nil {
		shown.Rules.InfrastructureNamespaces = trusted.List()
	}
	return configYAML(shown)
}

// originText says whose lines the rules believe, and names the critical rules
// that do not say it. set may be nil.
func originText(set *rules.Set) string {
	if set == nil {
		return ""
	}
	restricted := 0
	var unstated []string
	for _, r := range set.Rules {
		switch _, stated := r.Origin["origin"]; {
		case r.Infrastructure:
			restricted++
		case r.Severity == rules.SeverityCritical && r.Mode == rules.ModeOn && !stated:
			unstated = append(unstated, r.Alert)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d rules believe infrastructure namespaces only (rules.infrastructure_namespaces): %s\n",
		restricted, strings.Join(set.Namespaces.List(), ", "))
	if len(unstated) > 0 {
		fmt.Fprintf(&b, "whoever can run a pod can raise %d critical rules that do not state `origin`: %s\n", len(unstated), strings.Join(unstated, ", "))
	}
	return b.String()
}
