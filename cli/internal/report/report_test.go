package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

var ten = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

// hostile is text that an attacker who can write a log or a rule would like to
// see rendered.
const hostile = "x | y\n```\n</details><script>alert(1)</script> @everyone #12 [a](http://evil) ![](http://evil/p.png) `c` **b** www.evil.com \x1b[31m\u202e <!-- -->"

func rule(name, hash string) *rules.Rule {
	return &rules.Rule{Alert: name, Pack: "demo", File: "packs/demo.yaml", Line: 3, Severity: rules.SeverityWarning, Hash: hash, By: []string{"pod"}}
}

func alert(r *rules.Rule, pod, line string, minute int) replay.Alert {
	at := ten.Add(time.Duration(minute) * time.Minute)
	return replay.Alert{FiredAt: at, Episode: episodes.Episode{
		Rule: r, Alert: r.Alert, State: episodes.StateFiring, StartsAt: at, FiredAt: at, Line: redact.Text(line), FirstLine: redact.Text(line),
		Labels: map[string]string{"alertname": r.Alert, "severity": string(r.Severity), "resolves": "quiet", "pod": pod},
	}}
}

// side is a set of rules that raises these alerts, each from two lines.
func side(name string, all []*rules.Rule, alerts ...replay.Alert) Side {
	s := Side{Name: name, Set: &rules.Set{Rules: all}, Report: replay.Report{Alerts: alerts, Inputs: 1, Lines: 12345, Hits: int64(2 * len(alerts)), Start: ten, End: ten.Add(time.Hour)}}
	for _, r := range all {
		n := 0
		for _, a := range alerts {
			if a.Episode.Alert == r.Alert {
				n++
			}
		}
		s.Report.Rules = append(s.Report.Rules, replay.RuleReport{Rule: r, Lines: int64(2 * n), Alerts: n, Notifications: 2 * n})
	}
	return s
}

func TestVerdict(t *testing.T) {
	f := func(want string, before, after Side) Report {
		t.Helper()
		r := New(before, after, Options{Examples: 3})
		require.Equal(t, want, r.Verdict)
		return r
	}
	old, changed := rule("Lost", "1"), rule("Lost", "2")
	first := alert(old, "a", "lost", 0)
	r := f("Over 12,345 lines both versions of the rules raise the same 1 alert.", side("o", []*rules.Rule{old}, first), side("n", []*rules.Rule{old}, first))
	require.False(t, r.Changed)
	require.Empty(t, r.Rules)
	require.Len(t, New(side("o", []*rules.Rule{old}, first), side("n", []*rules.Rule{old}, first), Options{All: true}).Rules, 1)
	r = f("Over 12,345 lines neither set raises an alert; 1 new or changed rule matched none of these lines, so its effect is unknown.",
		side("o", []*rules.Rule{old}), side("n", []*rules.Rule{changed}))
	require.False(t, r.Changed)
	require.Equal(t, []string{"Lost"}, r.Unseen)
	require.Equal(t, "changed; no line", r.Rules[0].changeText())
	r = f("Over 12,345 lines the alerts of 2 rules change: 2 more, 1 later; 6 notifications instead of 2.",
		side("o", []*rules.Rule{old}, first), side("n", []*rules.Rule{changed, rule("New", "3")},
			alert(changed, "a", "lost", 2), alert(changed, "b", "lost", 2), alert(rule("New", "3"), "b", "new", 5)))
	require.True(t, r.Changed)
	require.Equal(t, "changed; 1 more, 1 later", r.Rules[0].changeText())
	require.Equal(t, "2026-01-01T10:02:00Z (2m0s later) {pod=\"a\", severity=\"warning\"}", r.Rules[0].Examples[1].exampleText())
	require.Equal(t, statusNew, r.Rules[1].Status)
	f("No line was read, so there is nothing to compare.", Side{Set: &rules.Set{}}, Side{Set: &rules.Set{}})
}

// A disabled rule is not reported as removed.
func TestStatus(t *testing.T) {
	off := rule("Lost", "2")
	off.Mode = rules.ModeOff
	on := rule("Lost", "1")
	without := side("n", nil)
	require.Equal(t, statusRemoved, New(side("o", []*rules.Rule{on}), without, Options{}).Rules[0].Status)
	without.Set.Rules = []*rules.Rule{off}
	require.Equal(t, statusOff, New(side("o", []*rules.Rule{on}), without, Options{}).Rules[0].Status)
	require.Equal(t, statusOn, New(without, side("o", []*rules.Rule{on}), Options{}).Rules[0].Status)
}

// A higher severity is a different notification for the person on call.
func TestRelabelled(t *testing.T) {
	old, changed := rule("Lost", "1"), rule("Lost", "1")
	changed.Severity = rules.SeverityCritical
	r := New(side("o", []*rules.Rule{old}, alert(old, "a", "lost", 0)), side("n", []*rules.Rule{changed}, alert(changed, "a", "lost", 0)), Options{Examples: 1})
	require.True(t, r.Changed)
	require.Equal(t, 1, r.Rules[0].Relabelled)
	require.Contains(t, r.Rules[0].Examples[0].exampleText(), `(severity was "warning")`)
}

// reports are the outputs in each format.
func written(t *testing.T, r Report) (text, object string) {
	t.Helper()
	var a, b bytes.Buffer
	require.NoError(t, r.Text(&a))
	require.NoError(t, json.NewEncoder(&b).Encode(r))
	return a.String(), b.String()
}

// hostileReport has hostile text in every line, label and name.
func hostileReport(text string) Report {
	old, changed := rule("Lost", "1"), rule("Lost"+text, "2")
	return New(
		side("old "+text, []*rules.Rule{old}, alert(old, text, text, 0)),
		side("new "+text, []*rules.Rule{changed, rule("Unseen"+text, "1")}, alert(changed, text, text, 0)), Options{Examples: 3})
}

func TestHostile(t *testing.T) {
	text, object := written(t, hostileReport(hostile))
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.NotContains(t, object, `\u001b`)
}

// The report is deterministic, and shows a part of many examples.
func TestBounds(t *testing.T) {
	many := func(hash string, shift int) Side {
		var all []*rules.Rule
		var alerts []replay.Alert
		for i := range 500 {
			r := rule(fmt.Sprintf("Rule%03d", i), hash)
			all = append(all, r)
			for pod := range 8 {
				alerts = append(alerts, alert(r, fmt.Sprintf("%s-%d", strings.Repeat("p", 250), pod), strings.Repeat("<`é", 600), i+shift*pod))
			}
		}
		return side(hash, all, alerts...)
	}
	r := New(many("1", 0), many("2", 1), Options{Examples: 5})
	text, object := written(t, r)
	again, objectAgain := written(t, New(many("1", 0), many("2", 1), Options{Examples: 5}))
	require.Equal(t, text, again)
	require.Equal(t, object, objectAgain)
	require.Equal(t, 5, len(r.Rules[0].Examples))
	require.Equal(t, 7, r.Rules[0].Later)
	require.Contains(t, text, "and 2 more")
}

// Labels are redacted where the lines are; here they are sanitised.
func TestLabelsAreSanitised(t *testing.T) {
	r := hostileReport("a\x1b[31mb")
	require.Equal(t, "ab", r.Rules[0].Examples[0].Alert.Labels["pod"])
	require.Equal(t, redact.Sanitise(r.Rules[0].Examples[0].Line), r.Rules[0].Examples[0].Line)
}
