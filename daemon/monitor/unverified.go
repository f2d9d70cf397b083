package monitor

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/rules"
)

// alertUnverified reports a release whose texts nobody has compared with the rules.
const alertUnverified = "CrowsnestRulesUnverified"

func unverifiedAlert(now time.Time, u rules.Unverified) episodes.Episode {
	var names []string
	for _, r := range u.Rules {
		names = append(names, r.Alert)
	}
	return alert(alertUnverified, "info", map[string]string{"software": u.Component, "release": u.Release}, now, texts{
		fmt.Sprintf("%s %s runs, which nobody has compared with %s about it", u.Component, u.Release, text.Plural(len(names), "rule")),
		fmt.Sprintf("Running: %s. If this release words its messages differently, these rules stay silent: %s.", strings.Join(u.Versions, ", "), strings.Join(names, ", ")),
		fmt.Sprintf("Update crowsnest, or the pack: a newer one may have verified rules. `crowsnest rules verify-source --component %s DIR` compares the rules with a checkout of the source.", u.Component),
	})
}
