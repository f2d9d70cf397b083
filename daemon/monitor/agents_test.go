package monitor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/daemon/component"
	"crowsnest/sources"
)

// An alert names the node whose agent is down; a source with members has no watermark
// itself.
func TestBlindNodes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(start, blindAfter)
	a.blindAfter = 2 * time.Minute
	at := func(d time.Duration, parts map[string]sources.MemberStatus) []string {
		now := start.Add(d)
		out := []string{}
		for _, e := range a.Update(now, State{Sources: []sources.Status{{Name: "agents", Up: true, Members: parts}}}) {
			if e.Alert != alertHeartbeat {
				out = append(out, fmt.Sprintf("%s %s %s", e.State, e.Alert, e.Labels["source"]))
			}
		}
		slices.Sort(out)
		return out
	}
	up := func(d time.Duration) sources.MemberStatus {
		return sources.MemberStatus{Up: true, Watermark: start.Add(d)}
	}
	away := sources.MemberStatus{Watermark: start.Add(time.Minute), Error: "its agent said goodbye"}
	none := map[string]sources.MemberStatus{}

	for i := range 2 * stuckAfter {
		require.Empty(t, at(time.Duration(i)*time.Second/4, none), "no agents are no failure")
	}
	require.Empty(t, at(time.Minute, map[string]sources.MemberStatus{"agents/n1": up(time.Minute), "agents/n2": up(time.Minute)}))
	require.Empty(t, at(2*time.Minute, map[string]sources.MemberStatus{"agents/n1": up(2 * time.Minute), "agents/n2": away}))
	require.Equal(t, []string{"firing CrowsnestBlind agents/n2"}, at(3*time.Minute, map[string]sources.MemberStatus{"agents/n1": up(3 * time.Minute), "agents/n2": away}))
	require.Equal(t, []string{"resolved CrowsnestBlind agents/n2"}, at(4*time.Minute, map[string]sources.MemberStatus{"agents/n1": up(4 * time.Minute)}), "it is forgotten")
	require.NotContains(t, a.outageStarts, "agents/n2")

	// An agent that is up without progress is found, and is no reason to
	// restart the aggregator.
	for i := range stuckAfter {
		at(4*time.Minute+time.Duration(i)*time.Millisecond, map[string]sources.MemberStatus{"agents/n1": up(4 * time.Minute)})
	}
	require.Contains(t, a.open, newAlert(alertBlind, map[string]string{"source": "agents/n1"}, start).Fingerprint)
	require.Empty(t, a.HungSources())

	many := map[string]sources.MemberStatus{}
	for i := range 50 {
		many[fmt.Sprintf("agents/m%02d", i)] = away
	}
	got := at(10*time.Minute, many)
	got = append(got, at(20*time.Minute, many)...)
	require.Len(t, slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "firing") }), maxBlind+1)
	require.Contains(t, got, "firing CrowsnestBlind agents")
}

// The alerts of different agents have different fingerprints.
func TestAlertsOfAnAgentNameItsNode(t *testing.T) {
	a := New(time.Now(), blindAfter)
	a.Labels = map[string]string{"node": "n1"}
	b := New(time.Now(), blindAfter)
	b.Labels = map[string]string{"node": "n2"}
	seen := []sources.Status{{Name: "kubelet", Up: true, Opened: true, Watermark: time.Now()}}
	x, y := a.Update(time.Now(), State{Sources: seen}), b.Update(time.Now(), State{Sources: seen})
	require.Equal(t, map[string]string{"alertname": alertHeartbeat, "severity": "none", "node": "n1"}, x[0].Labels)
	require.NotEqual(t, x[0].Fingerprint, y[0].Fingerprint)
}

func TestUpstreamAway(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(start, blindAfter)
	f := func(after time.Duration, st client.Stats, want bool) {
		t.Helper()
		got := a.UpstreamAlerts(start.Add(after), st)
		require.Equal(t, want, len(got) == 1)
		if want {
			require.Contains(t, got[0].Annotations["description"], st.LastError)
		}
	}
	f(time.Hour, client.Stats{LastAnswer: start}, false)
	f(time.Minute, client.Stats{LastError: "connection refused"}, false)
	f(blindAfter, client.Stats{LastError: "connection refused"}, true)
	f(blindAfter, client.Stats{LastError: "connection refused", LastAnswer: start.Add(time.Minute)}, false)
	f(time.Second, client.Stats{LastError: "another agent", Refused: true}, true)
}

// One alert names the nodes that have a condition. Texts of nodes never become advice.
func TestReportedAlertsAreFolded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := sources.Condition{
		Alert: alertLinesLost, Severity: "warning", Labels: map[string]string{"source": "kubelet", "reason": "gap"}, Detail: "run rm -rf /",
		Count: 12, LastSeen: now, Since: now, Members: strings.Fields("a b c d e f g"),
	}
	losses := component.Parts{Kinds: component.Sources()}.Losses()
	got := reportedAlerts(now, []sources.Status{{Name: "agents", Conditions: []sources.Condition{c}}}, losses)
	require.Len(t, got, 1)
	require.Equal(t, "Log lines were lost before crowsnest read them on 7 nodes: a, b, c, d, e and 2 more", got[0].Annotations["summary"])
	require.Contains(t, got[0].Annotations["description"], "12 times in all")
	require.Equal(t, losses["gap"].Fix, got[0].Annotations["remediation"])

	many := make([]sources.Condition, maxReported+5)
	for i := range many {
		many[i] = c
	}
	got = reportedAlerts(now, []sources.Status{{Name: "agents", Conditions: many}}, losses)
	require.Len(t, got, maxReported+1)
	require.Contains(t, got[maxReported].Annotations["summary"], "5 more conditions")
}

func TestRefusedMessagesAreNotified(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := server.Stats{
		RefusedMessages: map[string]int64{"auth": 7, "conflict": 3},
		NewestRefused:   map[string]server.RefusedMessage{"auth": {Time: now, Sender: "10.0.0.7:3333", Reason: "no token"}, "conflict": {Time: now}},
	}
	got := refusedAlerts(now.Add(time.Minute), "agents", st)
	require.Len(t, got, 1)
	require.Equal(t, "auth", got[0].Labels["reason"])
	require.Equal(t, "7 messages refused in total, the newest from 10.0.0.7: no token.", got[0].Annotations["description"])
	require.Empty(t, refusedAlerts(now.Add(refusedShown), "agents", st))
}

// The alert about rules that differ for long names them and the nodes.
func TestRulesThatDifferForLong(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	behind := map[string]sources.RuleMismatch{
		"A": {Since: now.Add(-differFor), Members: []string{"n1", "n2"}}, "B": {Since: now.Add(-time.Minute), Members: []string{"n3"}},
	}
	got := differAlert(now, behind)
	require.Len(t, got, 1)
	require.Equal(t, "The aggregator has another version of 1 rule than 2 nodes: n1, n2", got[0].Annotations["summary"])
	require.Contains(t, got[0].Annotations["description"], ": A.")
	delete(behind, "A")
	require.Empty(t, differAlert(now, behind))
}
