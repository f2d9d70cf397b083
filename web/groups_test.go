package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/rules"
)

func notSuppressed(*episodes.Episode) *history.Suppression { return nil }

// listOf returns alerts "severity/RULE", where a suffix ? stands for pending, ! for silenced and
// <N for a symptom of the alert at N.
func listOf(texts ...string) []episodes.Episode {
	var out []episodes.Episode
	for i, text := range texts {
		text, cause, _ := strings.Cut(text, "<")
		severity, name, _ := strings.Cut(text, "/")
		e := episodes.Episode{
			Fingerprint: episodes.Fingerprint(i), Alert: strings.Trim(name, "?!"), State: episodes.StateFiring, Count: 2,
			Labels: map[string]string{"severity": severity, "silenced": fmt.Sprint(strings.HasSuffix(name, "!")), "namespace": "n" + cause},
		}
		if strings.HasSuffix(name, "?") {
			e.State = episodes.StatePending
		}
		if cause != "" {
			e.Cause = &episodes.Cause{Fingerprint: episodes.Fingerprint(cause[0] - '0')}
		}
		out = append(out, e)
	}
	return out
}

// A rule has one row, what is more severe comes first, and nothing that is more severe, more
// certain or not silenced is counted in the row of its cause.
func TestFold(t *testing.T) {
	f := func(want string, flat bool, list ...string) {
		t.Helper()
		var parts []string
		rows := folder{query: query{}, flat: flat, suppression: func(e *episodes.Episode) *history.Suppression {
			if e.Labels["silenced"] == "true" {
				return &history.Suppression{Silence: "1"}
			}
			return nil
		}}.foldRows(listOf(list...))
		for _, r := range rows {
			text := fmt.Sprintf("%s %d", r.Alert, r.Total)
			for _, n := range []struct {
				name string
				n    int
			}{{"pending", r.Pending}, {"silenced", r.Suppressed}, {"more", r.More()}, {"caused", int(r.Caused())}} {
				if n.n > 0 {
					text += fmt.Sprintf(" %d %s", n.n, n.name)
				}
			}
			parts = append(parts, text)
		}
		require.Equal(t, want, strings.Join(parts, ", "))
	}
	f("", false)
	many := append(slices.Repeat([]string{"warning/Noisy"}, 1155), "critical/A", "critical/B?", "critical/C")
	f("A 1, C 1, B 1 1 pending, Noisy 1155 1150 more", false, many...)
	f("A 1, A 1, B 1", true, "critical/A", "warning/B", "critical/A")
	f("A 2 1 pending, B 1", false, "critical/A?", "critical/A", "warning/B")
	f("B 1, A 1 1 silenced", false, "critical/A!", "info/B")
	f("A 2 1 caused", false, "critical/A", "warning/B<0", "critical/A")
	f("A 1 2 caused", false, "critical/A", "critical/B<0", "warning/C<1")
	f("B 1, A 1", false, "warning/A", "critical/B<0")
	f("B 1, A 1 1 pending", false, "critical/A?", "critical/B<0")
	f("B 1, A 1 1 silenced", false, "critical/A!", "warning/B<0")
	f("A 1, B 1", true, "critical/A", "warning/B<0")
}

// A page of very many alerts has the worst on top, names all of a rule in one row, and is small.
func TestManyAlerts(t *testing.T) {
	v := exampleView()
	example := v.Episodes()[3]
	v.Episodes = func() (out []episodes.Episode) {
		for i := range 10_000 {
			e := example
			e.Fingerprint, e.Alert, e.State, e.Cause = episodes.Fingerprint(i), fmt.Sprintf("Rule%d", i%400), episodes.StateFiring, nil
			e.Labels = map[string]string{"alertname": e.Alert, "severity": "warning", "namespace": fmt.Sprint(i), "pod": strings.Repeat("p", 60)}
			if i == 9_999 {
				e.Alert, e.Labels["severity"] = "Worst", "critical"
			}
			out = append(out, e)
		}
		return out
	}
	s := newTestServer(t, v, Options{})
	body := request(s, "GET", "/").Body.String()
	require.Less(t, len(body), 512<<10)
	require.Less(t, strings.Index(body, `<b class="name">Worst`), strings.Index(body, `<b class="name">Rule`))
	require.Contains(t, body, `<span class="tag many">25 alerts</span>`)
	require.Contains(t, body, "Rules 1 to 50 of 401")
	body = request(s, "GET", "/?filter=alertname%3D%22Rule7%22").Body.String()
	require.Equal(t, 25, strings.Count(body, "<article"))
}

// Alerts about crowsnest are a banner, whatever the query selects, and no rows.
func TestAboutCrowsnest(t *testing.T) {
	v := exampleView()
	list := v.Episodes
	v.Episodes = func() []episodes.Episode {
		return append(list(), episodes.Episode{
			Fingerprint: 7, Alert: "CrowsnestSourceMissing", State: episodes.StateFiring, StartsAt: now,
			Labels: map[string]string{"alertname": "CrowsnestSourceMissing", "severity": "warning"}, Annotations: map[string]string{"summary": "Waits for " + hostile},
		})
	}
	s := newTestServer(t, v, Options{})
	for _, path := range []string{"/", "/?filter=nothing", "/?page=2"} {
		body := request(s, "GET", path).Body.String()
		require.Contains(t, body, "About crowsnest:", path)
		require.Contains(t, body, `<a href="/episodes/0000000000000007">`, path)
		require.NotContains(t, body, `id="e-0000000000000007"><details`, path)
		require.NotContains(t, body, "<script>alert", path)
	}
}

// A search for a state is one for the state of the alert, unless it is the value of a label.
func TestSearchForStates(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	count := func(filter string) int {
		return strings.Count(request(s, "GET", "/?filter="+url.QueryEscape(filter)).Body.String(), `<article class="row firing`)
	}
	require.NotZero(t, count(""))
	require.Equal(t, count(""), count("state=firing"))
	require.Equal(t, count(""), count(`state = "firing"`))
	require.Zero(t, count("state=resolved"))
	require.Zero(t, count("state=NotReady"))
}

// What lost its place is neither firing nor resolved.
func TestUnwatched(t *testing.T) {
	v := exampleView()
	e := v.Episodes()[3]
	e.State, e.Reason, e.EndsAt, e.ConcludedAt, e.Cause = episodes.StateResolved, episodes.ReasonDisplaced, now.Add(-time.Minute), now, nil
	v.Episodes = func() []episodes.Episode { return []episodes.Episode{e} }
	v.Timeline = func(episodes.Fingerprint) (episodes.Timeline, bool) { return episodes.Timeline{Episode: e}, true }
	s := newTestServer(t, v, Options{})
	body := request(s, "GET", "/").Body.String()
	require.Contains(t, body, "<h2>Not watched any more</h2>")
	require.NotContains(t, body, "Resolved in the last day")
	require.NotContains(t, body, `class="row resolved`)
	body = request(s, "GET", "/episodes/"+e.Fingerprint.String()).Body.String()
	require.Contains(t, body, `<span class="state unwatched">not watched any more</span>`)
	require.Contains(t, request(s, "GET", "/api/v1/episodes?state=unwatched").Body.String(), `"state":"unwatched","reason":"displaced"`)
	require.Contains(t, request(s, "GET", "/api/v1/episodes?state=resolved").Body.String(), `"episodes":[]`)
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
	w := request(s, "GET", s.assets().assetURL("keys.json"))
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
	set, problems := buildRules("- alert: A\n  from: '{container=\"x\"}'\n  severity: info\n  match: y\n  tests: [{name: fires, stream: {container: x}, input: [{at: 0s, line: y}], expect: [{at: 1m, firing: [{alertname: A}]}]}]\n- {alert: B, from: '{container=\"x\"}', severity: info, match: z}\n")
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
	s.scanner.turn <- struct{}{}
	view.Rules = func() Rules { return Rules{Set: &rules.Set{Rules: set.Rules}} }
	s.view.Rules = view.Rules
	require.Contains(t, request(s, "GET", "/rules/A").Body.String(), "a scan is running")
}

// The charts of a rule show the last hour.
func TestCharts(t *testing.T) {
	view := exampleView()
	s := newTestServer(t, view, Options{})
	loaded, n := view.Rules(), int64(0)
	s.view.Rules = func() Rules {
		loaded.Evaluations = map[string]int64{"LeaseLost": n * 100}
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
