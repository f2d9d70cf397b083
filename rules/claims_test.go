package rules

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// claim is a text that says for how long a failure has lasted, but not what is so by default.
var claim = regexp.MustCompile(`(by default )?for (?:more than )?(an hour|\d+ (?:minutes|hours))`)

// A text that says for how long a failure has lasted says no more than the rule has seen.
func TestTextsClaimNoMoreTime(t *testing.T) {
	set, err := Load(Shipped())
	require.NoError(t, err)
	claims := 0
	for _, r := range set.Rules {
		least := max(r.For, r.Silent)
		if r.Distinct == "minute" {
			least = max(least, time.Duration(r.Count)*time.Minute)
		}
		if slices.ContainsFunc(r.Steps[0].Matcher.Fields, func(f Field) bool { return f.Name == "age" }) {
			continue // the line states it
		}
		for _, a := range r.Annotations {
			for _, m := range claim.FindAllStringSubmatch(a.Template.Source(), -1) {
				if m[1] != "" {
					continue
				}
				n, unit, lasted := 0, "", time.Hour
				if _, err := fmt.Sscanf(m[2], "%d %s", &n, &unit); err == nil {
					lasted = time.Duration(n) * map[string]time.Duration{"minutes": time.Minute, "hours": time.Hour}[unit]
				}
				claims++
				require.GreaterOrEqual(t, least, lasted, "%s: %s says %q", r.Alert, a.Name, m[0])
			}
		}
	}
	require.Greater(t, claims, 50)
}
