package monitor

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/rules"
)

// alertUnverified is about a running release for which rules were not verified.
const alertUnverified = "CrowsnestRulesUnverified"

func unverifiedAlert(now time.Time, u rules.Unverified) episodes.Episode {
	var names []string
	for _, r := range u.Rules {
		names = append(names, r.Alert)
	}
	return newAlert(alertUnverified, "info", map[string]string{"software": u.Component, "release": u.Release}, now, texts{
		fmt.Sprintf("%s %s is running; not verified for it: %s", u.Component, u.Release, text.Plural(len(names), "rule")),
		fmt.Sprintf("Running: %s. If this release words its messages differently, these rules stay silent: %s.", strings.Join(u.Versions, ", "), strings.Join(names, ", ")),
		fmt.Sprintf("Update crowsnest, or the pack: a newer one may have verified rules. `crowsnest rules verify-source --component %s DIR` compares the rules with a checkout of the source.", u.Component),
	})
}
