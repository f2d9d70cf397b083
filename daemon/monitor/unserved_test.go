package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

// Failures that wait for lines that nobody reads raise one alert, not before the sources
// had time to join. It ends with the last of them.
func TestUnservedAlert(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var u unservedRules
	f := func(at time.Duration, says string, waiting ...episodes.UnreadRule) {
		t.Helper()
		got := u.alert(start.Add(at), time.Minute, waiting)
		if says == "" {
			require.Empty(t, got)
			return
		}
		require.Len(t, got, 1)
		require.Contains(t, got[0].Annotations["summary"]+" "+got[0].Annotations["description"], says)
	}
	one := episodes.UnreadRule{Rule: "NotReady", Selectors: []string{`{component="conditions"}`}, Episodes: 3}
	f(0, "", one)
	f(59*time.Second, "", one)
	f(time.Minute, `NotReady (3 open) needs {component="conditions"}.`, one)
	f(2*time.Minute, "")
	f(3*time.Minute, "", one)
	f(4*time.Minute, "of 1 rule wait", one)
	var many []episodes.UnreadRule
	for i := range 30 {
		many = append(many, episodes.UnreadRule{Rule: fmt.Sprint("R", i), Selectors: []string{"{a=\"b\"}", "{c=\"d\"}"}, Episodes: 1})
	}
	f(5*time.Minute, `R0 (1 open) needs {a="b"} and {c="d"}; R1`, many...)
	f(5*time.Minute, `25 more rules`, many...)
}
