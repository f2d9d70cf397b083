package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/rules"
	selectors "crowsnest/rules/selector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// hostile is log text that must not be executed by a browser.
const hostile = `<script>alert(1)</script>"'{{.}}javascript:alert(1)`

func exampleView() View {
	from, err := selectors.Parse(`{container="manager"}`)
	if err != nil {
		panic(err)
	}
	lost := &rules.Rule{
		Alert: "LeaseLost", Pack: "demo", File: "demo.yaml", Line: 3, From: from, Steps: []rules.Step{{From: from}}, Severity: rules.SeverityCritical,
		Mode: rules.ModeOn, Scope: rules.ScopeCluster, For: 2 * time.Minute, Source: "- alert: LeaseLost\n" + hostile,
		Remediation: rules.Remediation{RunbookURL: "https://example.org/r", Affects: []rules.Affects{{Component: "x", Versions: "<1.0"}}},
		Places:      rules.PlacesOf(map[string]string{"severity": "override o.yaml:3"}),
		Verified:    []rules.Verified{{Component: "kubelet", Versions: ">=1.33 <1.36"}, {Component: "etcd", Versions: "~3.6"}},
	}
	off := &rules.Rule{Alert: "Off", Pack: "demo", From: from, Steps: []rules.Step{{From: from}}, Severity: rules.SeverityInfo, Mode: rules.ModeOff}
	set := &rules.Set{
		Packs: []*rules.Pack{{Name: "demo", Version: "1.2.3", File: "demo.yaml", SHA256: strings.Repeat("ab", 32), Rules: []*rules.Rule{lost, off}}},
		Rules: []*rules.Rule{lost, off},
	}
	open := episodes.Episode{
		Fingerprint: 0xabc, Rule: lost, Alert: "LeaseLost", State: episodes.StateFiring,
		Labels:      map[string]string{"alertname": "LeaseLost", "severity": "critical", "namespace": "team-a", "bad": hostile},
		Deadline:    now.Add(time.Minute),
		Annotations: map[string]string{"summary": hostile, "runbook_url": "javascript:alert(1)", "remediation": "Restart it.\n1. kubectl"},
		StartsAt:    now.Add(-time.Hour), FiredAt: now.Add(-50 * time.Minute), LastSeen: now.Add(-time.Minute), Count: 1234, Line: hostile, FirstLine: "first",
	}
	done := open
	done.Fingerprint, done.State, done.EndsAt, done.Reason = 0xdef, episodes.StateResolved, now, episodes.ReasonClear
	done.Labels = map[string]string{"alertname": "LeaseLost", "severity": "critical", "namespace": "team-b"}
	silent := open
	silent.Fingerprint, silent.Silent, silent.State = 0x123, true, episodes.StatePending
	silent.Labels = map[string]string{"alertname": "LeaseLost", "severity": "info", "namespace": "team-c"}
	self := episodes.Episode{
		Fingerprint: 1, Alert: "CrowsnestHeartbeat", State: episodes.StateFiring, StartsAt: now,
		Labels: map[string]string{"alertname": "CrowsnestHeartbeat", "severity": "none"},
	}
	return View{
		History: func() []*history.Entry { return nil }, PastEpisodes: func(episodes.Fingerprint) []*history.Entry { return nil },
		Unknown:  func() Unknown { return Unknown{} },
		Episodes: func() []episodes.Episode { return []episodes.Episode{done, self, silent, open} },
		Stats: func() episodes.Stats {
			return episodes.Stats{Rules: []episodes.RuleStatus{{Rule: lost, Firing: 1, RuleStats: episodes.RuleStats{Matches: 1234, LastMatch: now}}}}
		},
		Rules: func() Rules {
			return Rules{
				Set: set, LastLines: map[string]time.Time{"LeaseLost": now}, Cost: map[string]time.Duration{"LeaseLost": 1250 * time.Millisecond},
				Evaluations: map[string]int64{"LeaseLost": 4321},
				Running:     map[string][]string{"kubelet": {"v1.35.1", "v1.37.1-" + hostile}, "etcd": {hostile}},
				Broken:      []BrokenPack{{Pack: "demo", File: "demo.yaml", Error: "demo.yaml:1: " + hostile}, {Pack: "gone.yaml", File: "gone.yaml", Error: "broken"}},
			}
		},
		Sources: func() []Source {
			return []Source{{
				Name: "kubelet", Up: true, Opened: true, Watermark: now, Lines: 5, Bytes: 2048,
				Lost: map[string]int64{"rotated": 0}, Errors: map[string]int64{"open": 1},
				Streams: []Stream{{Labels: map[string]string{"pod": hostile}, Path: "/var/log/x", Offset: 10, Size: 20, LastRead: now}},
			}, {Name: "files", Error: hostile}}
		},
		Suppression: func(episodes.Fingerprint) *history.Suppression { return nil }, SuppressionProblem: func() string { return "" },
		External: func() []map[string]string { return []map[string]string{{"cluster": "east"}} },
		Links: func() Links {
			return Links{Logs: "https://logs.example.org/?q={selector}&from={from}", Alertmanager: "http://am.example.org:9093"}
		},
		Endpoints: func() []Endpoint {
			return []Endpoint{{Sink: "alertmanager", Endpoint: "http://am:9093", Error: hostile, Failed: map[string]int64{"timeout": 2}}}
		},
		Deliveries: func(episodes.Fingerprint) []Delivery {
			return []Delivery{
				{Sink: "alertmanager", Endpoint: "http://am:9093", Time: now.Add(-2 * time.Hour), Last: now.Add(-90 * time.Minute), Times: 9, Code: 200},
				{Sink: "alertmanager", Endpoint: "http://am:9093", Time: now.Add(-49 * time.Minute), Last: now.Add(-time.Minute), Times: 49, Code: 200},
				{Sink: "alertmanager", Endpoint: "http://am:9093", Time: now, Last: now, Times: 1, Code: 503, Error: hostile},
			}
		},
		Timeline: func(fp episodes.Fingerprint) (episodes.Timeline, bool) {
			switch fp {
			case open.Fingerprint:
				return episodes.Timeline{Episode: open, Skipped: 3, Events: []episodes.Event{
					{Time: now.Add(-65 * time.Minute), Kind: episodes.EventCounted, N: 4, Total: 5},
					{Time: now.Add(-time.Hour), Kind: episodes.EventOpened, Line: hostile},
					{Time: now.Add(-55 * time.Minute), Kind: episodes.EventOnHold, Sources: []string{"kubelet", hostile}},
					{Time: now.Add(-50 * time.Minute), Kind: episodes.EventFired},
				}}, true
			case done.Fingerprint:
				return episodes.Timeline{Episode: done, Events: []episodes.Event{{Time: now, Kind: episodes.EventEnded, Reason: episodes.ReasonClear, Line: "back"}}}, true
			case 0xfff:
				dropped := open
				dropped.Fingerprint, dropped.State, dropped.FiredAt = 0xfff, episodes.StateDropped, time.Time{}
				return episodes.Timeline{Episode: dropped, Events: []episodes.Event{{Time: now, Kind: episodes.EventEnded, Reason: episodes.ReasonMuted}}}, true
			}
			return episodes.Timeline{}, false
		},
		Status: func() Status {
			return Status{
				Start: now.Add(-time.Hour), Config: "password: <secret>\n", Flags: map[string]string{"x": hostile},
				Reload: Reload{OK: true, Time: now, Success: now}, Storage: "/data",
			}
		},
	}
}

func newTestServer(t *testing.T, view View, opt Options) *Server {
	opt.Hosts = append(opt.Hosts, "example.com") // of httptest.NewRequest
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	opt.Now = func() time.Time { return now }
	require.NoError(t, reg.Register(Metrics(view, opt.Now)))
	opt.Registry = reg
	return New(view, opt)
}

func request(s *Server, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestPages(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	f := func(path string, code int, want ...string) {
		t.Helper()
		w := request(s, "GET", path)
		require.Equal(t, code, w.Code, w.Body.String())
		body := w.Body.String()
		require.NotContains(t, body, "<script>alert", "what a log says must be escaped")
		require.NotContains(t, body, `href="javascript:`)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'self'")
		for _, text := range want {
			require.Contains(t, body, text)
		}
	}
	f("/", 200, "LeaseLost", "1,234 lines", "team-a", "Resolved in the last day", "Silent (shown here, not sent)", "1h 0m")
	f("/?filter=namespace%3D%22team-b%22", 200, "No open alert matches this filter", "team-b")
	f("/?filter=%7Bbroken", 400, "write matchers such as")
	f("/episodes/0000000000000abc", 200, "What to do", "Restart it.", "Sent as", "(503)", "the condition became true", "namespace=&#34;team-a&#34;")
	f("/episodes/0000000000000def", 200, "a log line reports the recovery")
	f("/episodes/nonsense", 404, "not open")
	f("/episodes/0000000000000abc", 200, "4 of 5 counted", "on hold: no progress from sources kubelet, &lt;script", "49 times until", "3 events between")
	f("/episodes/0000000000000fff", 200, "planned work was announced")
	f("/episodes/0000000000000001", 200, "CrowsnestHeartbeat")
	f("/rules", 200, "LeaseLost", "1.2.3", "abababababab", "disabled", "gone.yaml", "verified for kubelet &gt;=1.33 &lt;1.36, you run v1.37.1-&lt;script&gt;")
	f("/rules/LeaseLost", 200, "tried on 4,321 lines", "override o.yaml:3", "https://example.org/r", "affected &lt;1.0", "kubelet &gt;=1.33 &lt;1.36: you run v1.37.1-", "etcd ~3.6: the running version is not known")
	f("/rules/Nope", 404, "No rule has the name Nope")
	f("/sources", 200, "kubelet", "2.0 KiB", "http://am:9093", "10 B")
	f("/status", 200, "password</span>: &lt;secret&gt;", "/data")
	f("/nowhere", 404, "There is no page /nowhere")
}

// emptyView is that of a daemon that has nothing yet.
func emptyView() View {
	return View{
		External: func() []map[string]string { return nil },
		Episodes: func() []episodes.Episode { return nil }, Stats: func() episodes.Stats { return episodes.Stats{} },
		Rules: func() Rules { return Rules{Set: &rules.Set{}} }, Sources: func() []Source { return nil },
		Endpoints: func() []Endpoint { return nil }, Status: func() Status { return Status{Missing: []string{"no rules are loaded"}} },
		Unknown:     func() Unknown { return Unknown{Enabled: true, Failures: []UnknownFailure{}} },
		Links:       func() Links { return Links{} },
		Suppression: func(episodes.Fingerprint) *history.Suppression { return nil }, SuppressionProblem: func() string { return "" },
		History: func() []*history.Entry { return nil }, PastEpisodes: func(episodes.Fingerprint) []*history.Entry { return nil },
	}
}

// A page without content says so and does not fail.
func TestEmptyPages(t *testing.T) {
	s := newTestServer(t, emptyView(), Options{})
	for _, path := range []string{"/", "/history", "/rules", "/unknown", "/sources", "/status"} {
		w := request(s, "GET", path)
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), "Not ready.")
	}
	for _, path := range []string{"alerts", "episodes", "history", "rules", "unknown", "sources"} {
		require.NotContains(t, request(s, "GET", "/api/v1/"+path).Body.String(), "null", "lists are lists")
	}
	w := request(s, "GET", "/-/ready")
	require.Equal(t, 503, w.Code)
	require.Contains(t, w.Body.String(), "- no rules are loaded")
}

// The reason why a file was refused is shown at the pack of this file, even if two files have packs of one name.
func TestBrokenPackOfAFile(t *testing.T) {
	view := exampleView()
	rulesOf := view.Rules
	view.Rules = func() Rules {
		r := rulesOf()
		set := *r.Set
		set.Packs = append(slices.Clone(set.Packs), &rules.Pack{Name: "demo", File: "second.yaml"})
		r.Set, r.Broken = &set, []BrokenPack{{Pack: "demo", File: "second.yaml", Error: "second"}, {Pack: "demo", File: "third.yaml", Error: "third", Missing: true}}
		return r
	}
	var answer struct{ Data Groups }
	require.NoError(t, json.Unmarshal(request(newTestServer(t, view, Options{}), "GET", "/api/v1/rules").Body.Bytes(), &answer))
	broken := map[string]string{}
	for _, g := range answer.Data.Groups {
		require.Equal(t, "demo", g.Name)
		broken[g.File] = g.Broken
	}
	require.Equal(t, map[string]string{"demo.yaml": "", "second.yaml": "second", "third.yaml": "third"}, broken)
}

func TestStatic(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	for _, path := range []string{"/static/style.css", "/static/console.js", "/static/icon.svg"} {
		w := request(s, "GET", path)
		require.Equal(t, 200, w.Code, path)
		body := w.Body.String()
		require.NotContains(t, strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), "http", "no request leaves the page")
	}
	require.NotEqual(t, 200, request(s, "GET", "/static/../view.go").Code)
}

func TestAPI(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	f := func(path string, code int) map[string]any {
		t.Helper()
		w := request(s, "GET", path)
		require.Equal(t, code, w.Code, w.Body.String())
		require.Equal(t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
		var out map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
		if code == 200 {
			require.Equal(t, "success", out["status"])
			return out["data"].(map[string]any)
		}
		require.Equal(t, "error", out["status"])
		return out
	}
	alerts := f("/api/v1/alerts?filter=alertname%3DLeaseLost", 200)["alerts"].([]any)
	require.Len(t, alerts, 1)
	alert := alerts[0].(map[string]any)
	require.Equal(t, "firing", alert["state"])
	require.Equal(t, "1.234e+03", alert["value"])

	require.Len(t, f("/api/v1/episodes", 200)["episodes"], 4)
	require.Len(t, f("/api/v1/episodes?state=resolved", 200)["episodes"], 1)
	require.Len(t, f("/api/v1/episodes?match[]={namespace=~%22team-.*%22}&filter=severity!=%22info%22", 200)["episodes"], 2)
	require.Contains(t, f("/api/v1/episodes?state=odd", 400)["error"], "firing, pending, held, unwatched, resolved")
	require.Contains(t, f("/api/v1/alerts?filter=%7B%7B", 400)["error"], "write matchers such as")
	require.Equal(t, "LeaseLost", f("/api/v1/episodes/0000000000000abc", 200)["alert"])
	f("/api/v1/episodes/0", 404)
	require.Len(t, f("/api/v1/episodes/0000000000000abc", 200)["deliveries"], 1, "the newest answer of each receiver")

	var kinds []string
	tl := f("/api/v1/episodes/0000000000000abc/timeline", 200)
	require.Equal(t, "LeaseLost", tl["episode"].(map[string]any)["alert"])
	for _, ev := range tl["events"].([]any) {
		kinds = append(kinds, ev.(map[string]any)["kind"].(string))
	}
	require.Equal(t, []string{"counted", "opened", "held", "fired", "told", "newest", "told", "next"}, kinds, "an answer to an earlier episode is omitted")
	require.EqualValues(t, 3, tl["skipped"])
	require.Equal(t, "dropped", f("/api/v1/episodes/0000000000000fff/timeline", 200)["episode"].(map[string]any)["state"])
	require.Len(t, f("/api/v1/episodes/0000000000000001/timeline", 200)["events"], 2)
	for _, no := range []string{"0", "nonsense", "-000000000000abc", "00000000000000000abc", "0000000000000999"} {
		f("/api/v1/episodes/"+no+"/timeline", 404)
	}
	groups := f("/api/v1/rules", 200)["groups"].([]any)
	require.Len(t, groups, 2)
	rule := groups[0].(map[string]any)["rules"].([]any)[0].(map[string]any)
	require.Equal(t, "ok", rule["health"])
	require.Equal(t, "firing", rule["state"])
	require.Equal(t, 1.25, rule["evaluationSeconds"])
	require.EqualValues(t, 4321, rule["tries"])
	require.EqualValues(t, 0, rule["streams"])
	require.NotContains(t, rule, "givenUp")
	require.Len(t, f("/api/v1/sources", 200)["sources"], 2)
	require.Equal(t, "password: <secret>\n", f("/api/v1/status/config", 200)["yaml"])
	require.Contains(t, f("/api/v1/status/buildinfo", 200), "goVersion")
	require.Contains(t, f("/api/v1/status/runtimeinfo", 200), "goroutineCount")
	require.Contains(t, f("/api/v1/status/flags", 200), "x")
	require.Equal(t, "not_found", f("/api/v1/nope", 404)["errorType"])
	require.Equal(t, 404, request(s, "POST", "/api/v1/alerts").Code, "nothing can be changed")
}

// The pages and the API show a quarantined rule and the reason.
func TestQuarantined(t *testing.T) {
	view := exampleView()
	loaded := view.Rules()
	loaded.Quarantined = map[string]string{"LeaseLost": "it took <too> much"}
	view.Rules = func() Rules { return loaded }
	s := newTestServer(t, view, Options{})
	body := request(s, "GET", "/api/v1/rules").Body.String()
	require.Contains(t, body, `"health":"given_up"`)
	require.Contains(t, body, `"givenUp":"it took \u003ctoo\u003e much"`)
	require.Contains(t, request(s, "GET", "/rules").Body.String(), `class="health-given_up" title="it took &lt;too&gt; much">quarantined</td>`)
	require.Contains(t, request(s, "GET", "/rules/LeaseLost").Body.String(), "no longer evaluated: it took &lt;too&gt; much. A changed version")
}

func TestProbesAndReload(t *testing.T) {
	view := exampleView()
	s := newTestServer(t, view, Options{})
	require.Equal(t, 200, request(s, "GET", "/-/healthy").Code)
	require.Equal(t, 200, request(s, "GET", "/-/ready").Code)
	require.Equal(t, 403, request(s, "POST", "/-/reload").Code)
	require.Contains(t, request(s, "POST", "/-/reload").Body.String(), "--web.enable-lifecycle")
	require.Equal(t, 404, request(s, "GET", "/debug/pprof/").Code)

	view.Status = func() Status { return Status{Unhealthy: "source kubelet stopped"} }
	var err error
	s = newTestServer(t, view, Options{Reload: func(context.Context) error { return err }, Pprof: true})
	require.Equal(t, 503, request(s, "GET", "/-/healthy").Code)
	require.Equal(t, 200, request(s, "POST", "/-/reload").Code)
	err = errors.New("demo.yaml:3:1: error: whole text")
	w := request(s, "POST", "/-/reload")
	require.Equal(t, 400, w.Code)
	require.Contains(t, w.Body.String(), "whole text")
	require.NotEqual(t, 200, request(s, "GET", "/-/reload").Code)
	require.Equal(t, 200, request(s, "GET", "/debug/pprof/").Code)
}

func TestMetrics(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	problems, err := testutil.GatherAndLint(s.opt.Registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	body := request(s, "GET", "/metrics").Body.String()
	require.Contains(t, body, `crowsnest_rule_blind{rule="LeaseLost"} 0`)
	require.NotContains(t, body, `crowsnest_rule_streams{rule="LeaseLost"}`, "it has none")
	require.NotContains(t, body, "team-a", "no series may depend on what a log says")
}

func TestRunStops(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	main, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, main, probe) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(addr net.Addr, path string) (int, string) {
		res, err := client.Get("http://" + addr.String() + path)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	code, _ := get(main.Addr(), "/metrics")
	require.Equal(t, 200, code)
	code, _ = get(probe.Addr(), "/-/ready")
	require.Equal(t, 200, code)
	code, _ = get(probe.Addr(), "/metrics")
	require.Equal(t, 404, code, "the second listener has no authentication")
	hung, err := net.Dial("tcp", main.Addr().String())
	require.NoError(t, err)
	defer hung.Close()
	cancel()
	require.NoError(t, <-done)
}

func TestWebConfigBroken(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{ConfigFile: "/nonexistent/web.yml"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorContains(t, s.Run(t.Context(), l, nil), "/nonexistent/web.yml")
}

// What follows about an alert of silence is not what follows about others, and it began with the
// last line.
func TestSilenceTexts(t *testing.T) {
	x := episodes.Episode{
		Rule: &rules.Rule{Silent: time.Minute}, State: episodes.StateFiring,
		LastSeen: now.Add(-time.Minute), StartsAt: now, Deadline: now.Add(time.Hour),
	}
	require.Contains(t, presentEvents(x)[0].Text, "expires if no line matches")
	require.Equal(t, x.LastSeen, x.ActiveAt())
	x.Rule = &rules.Rule{}
	require.Contains(t, presentEvents(x)[0].Text, "resolves if no further line matches")
	require.Equal(t, x.StartsAt, x.ActiveAt())
	require.Equal(t, "last matching line", eventText(episodes.Event{Kind: episodes.EventLast}))
}

// The page of a rule with `silent` says how many keys it watches, and none where that is so.
func TestArmedKeysOfARule(t *testing.T) {
	for _, armed := range []int{0, 12} {
		view := exampleView()
		set := view.Rules().Set
		set.Rules[0].Silent = time.Minute
		view.Stats = func() episodes.Stats {
			return episodes.Stats{Rules: []episodes.RuleStatus{{Rule: set.Rules[0], Armed: armed}}}
		}
		s := newTestServer(t, view, Options{})
		require.Contains(t, request(s, "GET", "/rules/LeaseLost").Body.String(), fmt.Sprintf("<dt>Armed</dt><dd>%d keys", armed))
		require.Contains(t, request(s, "GET", "/api/v1/rules").Body.String(), fmt.Sprintf(`"armed":%d`, armed))
	}
	s := newTestServer(t, exampleView(), Options{})
	require.NotContains(t, request(s, "GET", "/rules/LeaseLost").Body.String(), "Armed")
}

func TestText(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		require.Equal(t, want, got)
	}
	f(formatTime(time.Time{}), "never")
	f(formatTime(now), "2026-01-02 03:04:05Z")
	f(formatAgo(now, now), "0s ago")
	f(formatAgo(now, now.Add(-90*time.Second)), "1m 30s ago")
	f(formatAgo(now, now.Add(-26*time.Hour)), "1d 2h ago")
	f(formatAgo(now, now.Add(5*time.Minute)), "in 5m 0s")
	f(humanBytes(1023), "1023 B")
	f(humanBytes(1536), "1.5 KiB")
	f(safeLink("javascript:alert(1)"), "")
	f(safeLink("//evil"), "")
	f(safeLink("https://x/y?z"), "https://x/y?z")
}
