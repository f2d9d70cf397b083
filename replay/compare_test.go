package replay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// alertAt returns an alert of a pod that fires at 10:00 plus fired minutes and ends
// after lasts minutes; zero means never.
func alertAt(pod, severity string, fired, lasts int) Alert {
	at := time.Date(2026, 1, 1, 10, fired, 0, 0, time.UTC)
	e := episodes.Episode{
		Rule: &rules.Rule{Alert: "Lost", By: []string{"pod"}}, Alert: "Lost", State: episodes.StateFiring, StartsAt: at, FiredAt: at,
		Labels: map[string]string{"alertname": "Lost", "pod": pod, "severity": severity},
	}
	if lasts > 0 {
		e.State, e.EndsAt, e.Reason = episodes.StateResolved, at.Add(time.Duration(lasts)*time.Minute), episodes.ReasonQuiet
	}
	return Alert{Episode: e, FiredAt: at}
}

func TestComparePairs(t *testing.T) {
	f := func(want string, before, after []Alert) {
		t.Helper()
		changes := Compare(Report{Alerts: before}, Report{Alerts: after})
		require.Len(t, changes, 1)
		c := changes[0]
		require.Equal(t, want, fmt.Sprintf("+%d -%d <%d >%d ~%d |%d", len(c.More), len(c.Less), len(c.Earlier), len(c.Later), len(c.Relabelled), len(c.OtherEnds)))
		require.Equal(t, want == "+0 -0 <0 >0 ~0 |0", c.Same())
		require.Equal(t, len(before)-len(c.Less), len(after)-len(c.More))
	}
	list := func(alerts ...Alert) []Alert { return alerts }
	a := func(fired, lasts int) Alert { return alertAt("a", "warning", fired, lasts) }
	f("+0 -0 <0 >0 ~0 |0", list(a(0, 5), a(10, 5)), list(a(0, 5), a(10, 5)))
	// Equal alerts stay paired when others are missing or added.
	f("+0 -1 <0 >0 ~0 |0", list(a(0, 5), a(10, 5), a(20, 5)), list(a(10, 5), a(20, 5)))
	f("+1 -0 <0 >0 ~0 |0", list(a(10, 5)), list(a(0, 5), a(10, 5)))
	f("+0 -0 <1 >0 ~0 |0", list(a(3, 5)), list(a(0, 5)))
	f("+0 -0 <0 >1 ~0 |0", list(a(0, 0)), list(a(3, 5)))
	// An alert that ends before the other begins is another failure.
	f("+1 -1 <0 >0 ~0 |0", list(a(0, 5)), list(a(30, 5)))
	f("+0 -0 <0 >0 ~0 |1", list(a(0, 5)), list(a(0, 7)))
	f("+0 -0 <0 >0 ~0 |1", list(a(0, 5)), list(a(0, 0)))
	// The severity is a label; the key is the same.
	f("+0 -0 <0 >0 ~1 |0", list(a(0, 5)), list(alertAt("a", "critical", 0, 5)))
	f("+0 -0 <0 >0 ~1 |0", list(a(0, 5)), list(alertAt("a", "critical", 1, 5)))
	f("+1 -1 <0 >0 ~0 |0", list(a(0, 5)), list(alertAt("b", "warning", 0, 5)))
	cleared := a(2, 5)
	cleared.Episode.Labels["resolves"] = "clear"
	f("+0 -0 <0 >1 ~0 |0", list(a(0, 5)), list(cleared))
	silent := a(0, 5)
	silent.Episode.Silent = true
	f("+0 -0 <0 >0 ~1 |0", list(a(0, 5)), list(silent))
	many := slices.Repeat(list(a(0, 5)), 3)
	f("+0 -2 <0 >0 ~0 |0", many, many[:1])
}

// Every alert is in one list or equal, and the reverse comparison is the mirror image.
func TestCompareIsAPartition(t *testing.T) {
	alerts := rapid.Custom(func(t *rapid.T) []Alert {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Alert {
			return alertAt(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "pod"), rapid.SampledFrom([]string{"info", "warning"}).Draw(t, "severity"),
				rapid.IntRange(0, 30).Draw(t, "fired"), rapid.IntRange(0, 10).Draw(t, "lasts"))
		}), 0, 12).Draw(t, "alerts")
	})
	rapid.Check(t, func(t *rapid.T) {
		before, after := alerts.Draw(t, "before"), alerts.Draw(t, "after")
		for _, c := range Compare(Report{Alerts: before}, Report{Alerts: after}) {
			paired := len(c.Earlier) + len(c.Later) + len(c.Relabelled) + len(c.OtherEnds)
			if len(before)-len(c.Less) != len(after)-len(c.More) || paired > len(before)-len(c.Less) {
				t.Fatalf("%+v", c)
			}
		}
		for _, c := range Compare(Report{Alerts: before}, Report{Alerts: before}) {
			if !c.Same() {
				t.Fatalf("not the same as itself: %+v", c)
			}
		}
	})
}
