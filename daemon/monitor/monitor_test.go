package monitor

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/web"
)

const blindAfter = 5 * time.Minute

func TestAlerts(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(start, blindAfter)
	names := func(eps []episodes.Episode) []string {
		out := []string{}
		for _, e := range eps {
			out = append(out, string(e.State)+" "+e.Alert)
		}
		slices.Sort(out)
		return out
	}
	at := func(d time.Duration, status sources.Status, broken ...web.BrokenPack) []string {
		return names(a.Update(start.Add(d), State{Sources: []sources.Status{status}, Broken: broken}))
	}
	up := func(d time.Duration) sources.Status {
		return sources.Status{Name: "kubelet", Up: true, Opened: true, Watermark: start.Add(d)}
	}
	down := sources.Status{Name: "kubelet", Watermark: start.Add(time.Minute), Error: "no such directory"}

	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, at(0, up(0)))
	require.Empty(t, at(time.Minute, up(time.Minute)), "notified once")
	require.Equal(t, []string{"firing CrowsnestHeartbeat"}, at(5*time.Minute, down), "its coverage changed")
	require.Equal(t, []string{"firing CrowsnestBlind", "resolved CrowsnestHeartbeat"}, at(6*time.Minute, down), "five minutes after the last watermark")
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "resolved CrowsnestBlind"}, at(7*time.Minute, up(7*time.Minute)))

	quarantined := []matcher.Quarantined{{Rule: &rules.Rule{Alert: "Odd"}, Reason: matcher.ReasonPanic}}
	got := a.Update(start.Add(8*time.Minute), State{Sources: []sources.Status{up(8 * time.Minute)}, Quarantined: quarantined})
	require.Equal(t, []string{"firing CrowsnestRuleGivenUp"}, names(got))
	require.Equal(t, map[string]string{"alertname": "CrowsnestRuleGivenUp", "severity": "warning", "rule": "Odd", "reason": "panic"}, got[0].Labels)
	require.Contains(t, got[0].Annotations["description"], "because of a bug in crowsnest")
	costly := []matcher.Quarantined{{Rule: &rules.Rule{Alert: "Odd"}, Reason: matcher.ReasonCost}}
	require.Contains(t, quarantineAlert(costly[0], start).Annotations["description"], "limits.rule_cpu")
	require.Equal(t, []string{"resolved CrowsnestRuleGivenUp"}, at(8*time.Minute, up(8*time.Minute)))

	broken := web.BrokenPack{Pack: "a", Error: "a.yaml:1:1: error"}
	require.Equal(t, []string{"firing CrowsnestPackBroken"}, at(8*time.Minute, up(8*time.Minute), broken))
	require.Empty(t, at(9*time.Minute, up(9*time.Minute), broken))
	require.Len(t, a.All(), 2)
	require.Equal(t, []string{"resolved CrowsnestPackBroken"}, at(10*time.Minute, up(10*time.Minute)))

	// A source that is up without progress is found in a minute.
	still := up(10 * time.Minute)
	for i := range stuckAfter - 1 {
		require.Empty(t, at(10*time.Minute+time.Duration(i)*time.Second, still))
		require.Empty(t, a.HungSources())
	}
	require.Equal(t, []string{"firing CrowsnestBlind", "firing CrowsnestHeartbeat"}, at(11*time.Minute, still))
	require.Equal(t, []string{"kubelet"}, a.HungSources())
	require.Equal(t, []string{"firing CrowsnestHeartbeat", "resolved CrowsnestBlind"}, at(12*time.Minute, up(12*time.Minute)))
	require.Empty(t, a.HungSources())
}
