package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/history"
	"crowsnest/rules"
)

// rowsOf returns rows with severity, namespace and depth: "critical/a", "warning/b>1".
func rowsOf(texts ...string) []row {
	var out []row
	for i, text := range texts {
		text, symptom := strings.CutSuffix(text, ">")
		severity, namespace, _ := strings.Cut(text, "/")
		r := row{Episode: episodes.Episode{Fingerprint: episodes.Fingerprint(i), Labels: map[string]string{"severity": severity, "namespace": namespace, "cluster": "c"}}}
		if symptom {
			r.Depth = 1
		}
		out = append(out, r)
	}
	return out
}

func TestGroups(t *testing.T) {
	f := func(want string, rows ...row) []row {
		t.Helper()
		got, several := byPlace(query{}, rows, true)
		var parts []string
		for _, r := range got {
			if h := r.Head; h != nil {
				text := h.Name()
				for _, c := range h.Severities {
					text += fmt.Sprintf(" %d %s", c.Count, c.Severity)
				}
				parts = append(parts, fmt.Sprintf("[%s, %d more]", text, h.More))
			}
			parts = append(parts, r.Fingerprint.String()[15:])
		}
		require.Equal(t, want, strings.Join(parts, " "))
		require.Equal(t, strings.Contains(want, "["), several)
		return got
	}
	f("")
	f("0 1", rowsOf("critical/a", "warning/a")...)
	got := f("[a 1 critical 2 warning, 0 more] 0 1 3 [b 1 warning, 0 more] 2", rowsOf("critical/a", "warning/c>", "warning/b", "warning/a")...)
	require.True(t, got[0].Grouped)
	require.False(t, got[1].Grouped, "a symptom elsewhere says where")
	require.Equal(t, `/?filter=cluster%3D%22c%22+namespace%3D%22a%22`, got[0].Head.Link)
	f("[without a namespace 1 critical, 0 more] 0 [b 1 warning, 0 more] 1", rowsOf("critical/", "warning/b")...)
	many := rowsOf("critical/a")
	for range 13 {
		many = append(many, rowsOf("warning/b")...)
	}
	f("[a 1 critical, 0 more] 0 [b 13 warning, 3 more] 0 0 0 0 0 0 0 0 0 0", many...)
}

// What ended earlier than the daemon lists is on the page of alerts, once, if the history has it.
func TestLastDay(t *testing.T) {
	v := exampleView()
	recent, old := pastEntry("LeaseLost", "team-recent", 3), pastEntry("LeaseLost", "team-old", 100)
	v.History = func() []*history.Entry { return []*history.Entry{recent, old} }
	s := newTestServer(t, v, Options{})
	body := request(s, "GET", "/").Body.String()
	require.Contains(t, body, "team-recent")
	require.NotContains(t, body, "team-old")
	require.Contains(t, body, `<a href="/history?from=1d">`)
	require.Contains(t, request(s, "GET", "/?filter=lease").Body.String(), "/history?from=1d&amp;filter=lease")
	before := len(s.lastDay())
	recent.Fingerprint = uint64(v.Episodes()[0].Fingerprint)
	recent.StartsAt = v.Episodes()[0].StartsAt
	require.Len(t, s.lastDay(), before-1, "an episode that the daemon lists as well")
}

// The link of an alert whose rule is gone explains itself.
func TestRemovedRule(t *testing.T) {
	v := exampleView()
	gone := pastEntry("GoneRule", "team-a", 3)
	v.History = func() []*history.Entry { return []*history.Entry{gone} }
	s := newTestServer(t, v, Options{})
	for _, path := range []string{"/rules/GoneRule", "/runbooks/GoneRule"} {
		w := request(s, "GET", path)
		require.Equal(t, 404, w.Code)
		require.Contains(t, w.Body.String(), "The rule GoneRule was removed or renamed")
		require.Contains(t, w.Body.String(), `href="/history?filter=alertname%3D%22GoneRule%22"`)
	}
	require.Contains(t, request(s, "GET", "/rules/LeaseLots").Body.String(), "Did you mean LeaseLost?")
	require.NotContains(t, request(s, "GET", "/rules/%3Cscript%3Ealert(1)").Body.String(), "<script>alert")
}

// Completion knows the keys of each kind of object of the rule language.
func TestKeyHints(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	w := request(s, "GET", s.assets().url("keys.json"))
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
	var hints map[string]map[string]keyHint
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &hints))
	require.Equal(t, "Rule", hints["PackFile"]["rules"].In)
	require.Equal(t, "Matcher", hints["Rule"]["match"].In)
	require.Equal(t, "Step", hints["Rule"]["sequence"].In)
	require.Contains(t, hints["Rule"]["severity"].Text, ".")
	require.Contains(t, hints["Matcher"], "regex")
	require.Less(t, len(s.assets()["keys.json"].gzipd), 8<<10)
}

// The page of a rule has the results of its tests, which run once.
func TestResultsOfTests(t *testing.T) {
	set, problems := buildPlay("- alert: A\n  from: '{container=\"x\"}'\n  severity: info\n  match: y\n  tests: [{name: fires, stream: {container: x}, input: [{at: 0s, line: y}], expect: [{at: 1m, firing: [{alertname: A}]}]}]\n- {alert: B, from: '{container=\"x\"}', severity: info, match: z}\n")
	require.NotNil(t, set, problems)
	view := exampleView()
	view.Rules = func() Rules { return Rules{Set: set} }
	runs := 0
	s := newTestServer(t, view, Options{RunTests: func(all []*rules.Rule) ([]TestOutcome, error) {
		runs++
		return []TestOutcome{{Rule: all[0].Alert, Test: hostile, Failures: []string{hostile}}}, nil
	}})
	for range 2 {
		body := request(s, "GET", "/rules/A").Body.String()
		require.Contains(t, body, `<span class="tag down">failed</span>`)
		require.NotContains(t, body, "<script>alert")
	}
	require.Equal(t, 1, runs)
	require.Contains(t, request(s, "GET", "/rules/B").Body.String(), "The daemon has no tests of this rule")
	s.player.turn <- struct{}{}
	view.Rules = func() Rules { return Rules{Set: &rules.Set{Rules: set.Rules}} }
	s.view.Rules = view.Rules
	require.Contains(t, request(s, "GET", "/rules/A").Body.String(), "the playground is busy")
}

// The charts of a rule show the last hour.
func TestCharts(t *testing.T) {
	view := exampleView()
	s := newTestServer(t, view, Options{})
	loaded, n := view.Rules(), int64(0)
	s.view.Rules = func() Rules {
		loaded.Tries = map[string]int64{"LeaseLost": n * 100}
		loaded.Cost = map[string]time.Duration{"LeaseLost": time.Duration(n) * time.Millisecond}
		return loaded
	}
	at := now.Add(-5 * time.Minute)
	s.opt.Now = func() time.Time { return at }
	for range 5 {
		s.Sample()
		at, n = at.Add(time.Minute), n+10
	}
	body := request(s, "GET", "/rules/LeaseLost").Body.String()
	require.Contains(t, body, "<dt>Lines tried</dt><dd><b>4,000</b> <svg")
	require.Contains(t, body, "<dt>CPU time</dt><dd><b>40ms</b> <svg")
}
