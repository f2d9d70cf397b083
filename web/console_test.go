package web

import (
	"encoding/json"
	"errors"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

func TestActions(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	e := exampleView().Episodes()[3]
	e.Labels = map[string]string{"alertname": "LeaseLost", "namespace": "team-a", "pod": "web-0", "bad": `a"&b`}
	a := s.episodeActions(e)
	require.Equal(t, Actions{
		Silence: "http://am.example.org:9093/#/silences/new?filter=%7Balertname%3D%22LeaseLost%22%2Cbad%3D%22a%5C%22%26b%22%2Ccluster%3D%22east%22%2Cnamespace%3D%22team-a%22%2Cpod%3D%22web-0%22%7D",
		Logs:    "https://logs.example.org/?q=%7Bcontainer%3D%22manager%22%2C%20namespace%3D%22team-a%22%2C%20pod%3D%22web-0%22%7D&from=1767318845000",
		Kubectl: "kubectl logs -n team-a web-0 -c manager --timestamps --since-time=2026-01-02T01:54:05Z",
		Runbook: "/runbooks/LeaseLost",
	}, a)
	for _, pod := range []string{"x; rm -rf /", "$(id)", "-x", "A", strings.Repeat("a", 300), "a\nb"} {
		e.Labels["pod"] = pod
		require.Empty(t, s.episodeActions(e).Kubectl, pod)
	}
	e.State = episodes.StateResolved
	require.Empty(t, s.episodeActions(e).Silence, "nothing is left to silence")
	s.view.Links = func() Links {
		return Links{Logs: `https://x/?a={selector_json}&b={to}&c={from_time}&d={to_time}&e={pod}&f={nope}&g=%7B`, Alertmanager: "javascript:alert(1)"}
	}
	e.Labels = map[string]string{"pod": `"`}
	a = s.episodeActions(e)
	require.Equal(t, "https://x/?a=%7Bcontainer%3D%5C%22manager%5C%22%2C%20pod%3D%5C%22%5C%5C%5C%22%5C%22%7D&b=1767323045000&c=2026-01-02T01%3A54%3A05Z&d=2026-01-02T03%3A04%3A05Z&e=%22&f=&g=%7B", a.Logs)
	e.State = episodes.StateFiring
	require.Empty(t, s.episodeActions(e).Silence)
}

func TestRemedy(t *testing.T) {
	require.Equal(t, remedy{
		Summary: "Do this.\nAnd that.", Steps: []string{"kubectl get x", "cat <<E\n2 lines\nE", "3. is part of it"}, Notes: []string{"UNSAFE_VALUE_1 is 'x'"},
	}, parseRemedy("Do this.\nAnd that.\n1. kubectl get x\n2. cat <<E\n2 lines\nE\n3. 3. is part of it\nUNSAFE_VALUE_1 is 'x'"))
	require.Equal(t, remedy{}, parseRemedy(""))
}

func TestPendingText(t *testing.T) {
	e := episodes.Episode{State: episodes.StatePending, StartsAt: now.Add(-time.Minute), Deadline: now.Add(time.Hour)}
	require.Equal(t, "Pending since 2026-01-02 03:03:05Z. It fires in 1h 0m, at 2026-01-02 04:04:05Z, if the failure has not recovered by then.", pendingText(now, e))
	e.OnHold, e.AwaitedParts = true, []episodes.AwaitedPart{{Part: "clear", Selector: `{component="events"}`}}
	require.Equal(t, "Pending since 2026-01-02 03:03:05Z. On hold, so it does not fire: `clear` waits for lines of {component=\"events\"}, which no source reads.", pendingText(now, e))
	e.OnHold, e.Deadline = false, now.Add(-time.Second)
	require.Contains(t, pendingText(now, e), "reads the remaining lines")
}

// What an alert of a pending failure says is not stated as true.
func TestPendingIsNotStatedAsTrue(t *testing.T) {
	view := exampleView()
	e := view.Episodes()[3]
	e.State, e.FiredAt, e.Annotations = episodes.StatePending, time.Time{}, map[string]string{"summary": "has been down for an hour"}
	view.Episodes = func() []episodes.Episode { return []episodes.Episode{e} }
	view.Timeline = func(episodes.Fingerprint) (episodes.Timeline, bool) { return episodes.Timeline{Episode: e}, true }
	s := newTestServer(t, view, Options{})
	require.Contains(t, request(s, "GET", "/").Body.String(), "if it fires: has been down")
	require.Contains(t, request(s, "GET", "/episodes/0000000000000abc").Body.String(), "If it fires, it says: has been down")
}

func TestPicture(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	e, tl, ok := s.episodeTimeline("0000000000000abc")
	require.True(t, ok)
	p := s.drawPicture(e, tl)
	var kinds []string
	for _, b := range p.Bands {
		kinds = append(kinds, b.Class)
	}
	require.Equal(t, []string{"pending", "firing", "held"}, kinds)
	require.Len(t, p.Marks, 7, "all but the next conclusion")
	require.NotEmpty(t, p.Ticks)
	require.LessOrEqual(t, len(p.Ticks), 6)
	for _, span := range []time.Duration{time.Second, time.Minute, time.Hour, 40 * time.Hour, 400 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		n := len(axisTicks(axis{now.Add(-span), now}))
		require.True(t, n >= 1 && n <= 6, "%s: %d", span, n)
	}
	path, sum := sparkPath([]uint32{0, 1, 4})
	require.EqualValues(t, 5, sum)
	require.Equal(t, "M114 16h2V13h2V1h2V16", path)
	body := request(s, "GET", "/episodes/0000000000000abc").Body.String()
	require.Contains(t, body, `<rect class="band firing"`)
	require.NotContains(t, body, " style=")
}

func TestAssets(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	total := 0
	for name, f := range s.assets() {
		require.NotEmpty(t, f.kind, name)
		w := request(s, "GET", s.assets().assetURL(name))
		require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"))
		require.Equal(t, f.plain, w.Body.Bytes())
		total += len(f.plain)
		r := httptest.NewRequest("GET", "/static/"+name, nil)
		r.Header.Set("Accept-Encoding", "br;q=1, gzip;q=0.5")
		w = httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
		w = httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, http.StatusNotModified, w.Code)
	}
	require.Less(t, len(s.assets()["console.js"].plain), 60<<10)
	require.Less(t, total, 100<<10)
	require.Equal(t, 404, request(s, "GET", "/static/nope.js").Code)
}

// Pages and the API are compressed for clients that accept that, and only for those.
func TestCompression(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	for _, path := range []string{"/", "/api/v1/episodes"} {
		plain := request(s, "GET", path)
		require.Empty(t, plain.Header().Get("Content-Encoding"))
		require.Equal(t, "Accept-Encoding", plain.Header().Get("Vary"))
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		z, err := gzip.NewReader(w.Body)
		require.NoError(t, err)
		var b strings.Builder
		_, err = z.WriteTo(&b)
		require.NoError(t, err)
		require.Equal(t, plain.Body.String(), b.String())
	}
}

func TestRunbooks(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	view := exampleView()
	view.Rules = func() Rules { return Rules{Set: set} }
	s := newTestServer(t, view, Options{})
	for _, r := range set.Rules[:20] {
		w := request(s, "GET", "/runbooks/"+r.Alert)
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), "<h2>Mitigation</h2>")
		require.NotContains(t, w.Body.String(), "<!--")
		require.NotContains(t, w.Body.String(), `.md"`)
	}
	require.Equal(t, 404, request(s, "GET", "/runbooks/Nope").Code)
	require.Contains(t, request(s, "GET", "/api/v1/runbooks/"+set.Rules[0].Alert).Body.String(), "## Mitigation")
	require.Equal(t, 404, request(s, "GET", "/api/v1/runbooks/Nope").Code)
	body, err := renderMarkdown("[a](A.md) [b](../p/B.md) [c](README.md) [d](javascript:alert(1)) <script>x</script> [e](https://x.example.org/y.md)\n\n- <img src=x>")
	require.NoError(t, err)
	require.Contains(t, body, `<a href="/runbooks/A">a</a> <a href="/runbooks/B">b</a> <a href="/rules">c</a> <a href="">d</a>`)
	require.Contains(t, body, `<a href="https://x.example.org/y.md">e</a>`)
	require.NotContains(t, body, "<script")
	require.NotContains(t, body, "<img")
}

func TestCaseFile(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{Case: func(fp string, get func(string) ([]byte, error)) ([]byte, error) {
		data, err := get("episodes/" + fp + "/timeline")
		if err != nil {
			return nil, err
		}
		_, err = get("episodes/nope/timeline")
		require.Error(t, err)
		return data, nil
	}})
	w := request(s, "GET", "/episodes/0000000000000abc/case")
	require.Equal(t, 200, w.Code)
	require.Equal(t, `attachment; filename="case-0000000000000abc-20260102-030405.html"`, w.Header().Get("Content-Disposition"))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "sandbox")
	require.Contains(t, w.Body.String(), `"alert":"LeaseLost"`)
	require.Equal(t, 404, request(s, "GET", "/episodes/0000000000000999/case").Code)
	s.opt.Case = func(string, func(string) ([]byte, error)) ([]byte, error) { return nil, errors.New("no") }
	require.Equal(t, 500, request(s, "GET", "/episodes/0000000000000def/case").Code)
	require.Equal(t, 404, request(newTestServer(t, exampleView(), Options{}), "GET", "/episodes/0000000000000abc/case").Code)
}

// pump is a rule to play with.
const pump = `- alert: PumpStuck
  from: '{container="pump"}'
  severity: warning
  match: {contains: valve stuck, not: test}
  tests:
  - {name: fires, stream: {container: pump}, input: [{at: 0s, line: "valve stuck"}], expect: [{at: 1m, firing: [{alertname: PumpStuck}]}]}
`

func play(t *testing.T, s *Server, r ScanRequest) (Tried, int) {
	t.Helper()
	body, err := json.Marshal(r)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/scan", strings.NewReader(string(body))))
	var out struct{ Data ScanResult }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out), w.Body.String())
	if out.Data.Tried == nil {
		return Tried{}, w.Code
	}
	return *out.Data.Tried, w.Code
}

func TestTryRules(t *testing.T) {
	tested := 0
	s := newTestServer(t, exampleView(), Options{RunTests: func(all []*rules.Rule) ([]TestOutcome, error) {
		tested += len(all)
		return []TestOutcome{{Rule: all[0].Alert, Test: all[0].Tests[0].Name, Failures: []string{}}}, nil
	}})
	got, code := play(t, s, ScanRequest{Rules: pump, Lines: "valve stuck\r\n\nnothing\nvalve stuck in a test", Labels: `container="pump"`})
	require.Equal(t, 200, code)
	require.Empty(t, got.Problems)
	require.Len(t, got.Lines, 3)
	require.Equal(t, []string{"PumpStuck"}, got.Lines[0].Matches)
	require.Empty(t, got.Lines[2].Matches)
	require.Equal(t, []TestOutcome{{Rule: "PumpStuck", Test: "fires", Failures: []string{}}}, got.Tests)
	require.Equal(t, 1, tested)

	got, _ = play(t, s, ScanRequest{Rules: pump, Lines: "valve stuck", Labels: `{container="other"}`})
	require.Empty(t, got.Lines[0].Matches)
	got, _ = play(t, s, ScanRequest{Rules: "pack: {name: p, version: 1.0.0}\nrules:\n" + pump})
	require.Empty(t, got.Problems)
	got, _ = play(t, s, ScanRequest{Rules: "- alert: X\n  mach: y\n"})
	require.NotEmpty(t, got.Problems)
	require.Contains(t, strings.Join(got.Problems, "\n"), "rules:2:3: error:", "positions are those of the text")
	long := strings.Replace(pump, "at: 0s,", "at: 0s, repeat: 99999, every: 1ms,", 1)
	for _, name := range []string{"b", "c", "d"} {
		long += strings.Replace(long[strings.Index(long, "  - {name"):], "fires", name, 1)
	}
	got, _ = play(t, s, ScanRequest{Rules: long})
	require.Contains(t, strings.Join(got.Problems, "\n"), "the tests were not run")
	got, _ = play(t, s, ScanRequest{Rules: pump, Lines: strings.Repeat("x\n", maxExplained+5)})
	require.Equal(t, 5, got.Omitted)
	for _, bad := range []ScanRequest{
		{Rules: strings.Repeat("#", maxScanRules+1)}, {Rules: pump, Lines: strings.Repeat("x", maxScanLog+1)}, {Rules: pump, Labels: "{"}, {Rules: pump, Labels: `{a=~"b"}`},
	} {
		_, code = play(t, s, bad)
		require.Equal(t, 400, code)
	}
}

// The form works without JavaScript, and only from the pages of this server.
func TestScanForm(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	post := func(body, site string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/scan", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w
	}
	form := url.Values{"rules": {pump}, "lines": {hostile + "\nvalve stuck"}}.Encode()
	w := post(form, "same-origin")
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), "PumpStuck: the line matches")
	require.NotContains(t, w.Body.String(), "<script>alert")
	require.Equal(t, http.StatusForbidden, post(form, "cross-site").Code)
	require.Equal(t, 400, post("rules="+strings.Repeat("x", maxScanBody), "same-origin").Code)
	require.Equal(t, 400, post("labels=%7B", "same-origin").Code)
	require.Contains(t, request(s, "GET", "/scan?rule=LeaseLost").Body.String(), "- alert: LeaseLost")
	require.Equal(t, 200, request(s, "GET", "/scan?rule=%3Cscript%3E").Code)
	require.Equal(t, "/scan?rule=A", request(s, "GET", "/playground?rule=A").Header().Get("Location"))
}

// The page has the three sections of a scan of a pasted text or of a file, which is nowhere stored
// and whose text no browser executes.
func TestScan(t *testing.T) {
	var logs []string
	s := newTestServer(t, exampleView(), Options{Scan: func(log string, labels matcher.Labels, set *rules.Set) (Scanned, error) {
		logs = append(logs, log)
		require.NotNil(t, set)
		return Scanned{
			Known:    "1 alert.",
			Alerts:   []ScanFailure{{Rule: "LeaseLost", Severity: "critical", State: "firing", Summary: hostile, Line: hostile, Matched: []string{"<script>"}, Remediation: "1. " + hostile, Count: 2}},
			Findings: []ScanFailure{{Rule: "Off", Severity: "warning", Reason: "too_short", Missing: "alerts if the failure lasts 10 minutes", Summary: "is down", Count: 1}},
			Unknown:  []ScanUnknown{{Component: hostile, Reason: "new", Pattern: hostile, Examples: []redact.Text{hostile}}},
		}, nil
	}})
	post := func(lines, file string) *httptest.ResponseRecorder {
		var b strings.Builder
		form := multipart.NewWriter(&b)
		require.NoError(t, form.WriteField("lines", lines))
		w, err := form.CreateFormFile("file", "x.log")
		require.NoError(t, err)
		_, err = w.Write([]byte(file))
		require.NoError(t, err)
		require.NoError(t, form.Close())
		r := httptest.NewRequest("POST", "/scan", strings.NewReader(b.String()))
		r.Header.Set("Content-Type", form.FormDataContentType())
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		got := httptest.NewRecorder()
		s.Handler().ServeHTTP(got, r)
		return got
	}
	body := post(hostile, "").Body.String()
	for _, want := range []string{"<h2>Alerts</h2>", "<h2>Described but not certain</h2>", "<h2>No rule describes</h2>", "Alerts if the failure lasts 10 minutes.", "If it alerts, it says: is down", "<mark>&lt;script&gt;</mark>"} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "<script>alert")
	require.Equal(t, 200, post("pasted", "of a file\xff").Code)
	require.Equal(t, []string{hostile, "of a file\ufffd"}, logs)
	require.Equal(t, 400, post("", "").Code)
	require.Equal(t, 400, post(strings.Repeat("x", maxScanLog+1), "").Code)
	require.Equal(t, 400, post("", strings.Repeat("x", maxScanBody)).Code)
	require.Len(t, logs, 2)
}

// One request is tried at a time, and requests beyond a few are refused.
func TestScanIsBounded(t *testing.T) {
	hold, began := make(chan struct{}), make(chan struct{}, 10)
	s := newTestServer(t, exampleView(), Options{RunTests: func([]*rules.Rule) ([]TestOutcome, error) {
		began <- struct{}{}
		<-hold
		return nil, nil
	}})
	done := make(chan int, maxScans)
	for range maxScans {
		go func() {
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/scan", strings.NewReader(`{"rules":"`+strings.ReplaceAll(strings.ReplaceAll(pump, "\"", "\\\""), "\n", "\\n")+`"}`)))
			done <- w.Code
		}()
	}
	<-began
	require.Eventually(t, func() bool { return len(s.scanner.admit) == maxScans }, 10*time.Second, time.Millisecond)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/scan", strings.NewReader(`{}`)))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Empty(t, began, "one at a time")
	close(hold)
	for range maxScans {
		require.Contains(t, []int{200, 400, 503}, <-done)
	}
}

func TestSourcesPage(t *testing.T) {
	view := exampleView()
	view.Sources = func() []Source {
		return []Source{{Name: "kubelet", Up: true, Streams: []Stream{
			{Labels: map[string]string{"namespace": "a", "pod": "p-1", "container": "manager"}, Size: 10},
			{Labels: map[string]string{"namespace": "a", "pod": "p-2", "container": "x"}},
			{Labels: map[string]string{"namespace": "b", "pod": "q-1", "container": "manager"}},
		}}}
	}
	s := newTestServer(t, view, Options{})
	body := request(s, "GET", "/sources").Body.String()
	require.Contains(t, body, `<b>a</b> <span class="num">2 streams</span>`)
	require.Contains(t, body, `<b>b</b> <span class="num">1 stream</span>`)
	require.Contains(t, body, "1 without a rule")
	require.Contains(t, body, `data-name="Rules">1</td>`, "a rule applies to the container manager")
	body = request(s, "GET", "/sources?filter=Q-1").Body.String()
	require.Contains(t, body, "<b>b</b>")
	require.NotContains(t, body, "<b>a</b>")
	require.Contains(t, request(s, "GET", "/sources?filter=nope").Body.String(), "No stream matches.")
	body = request(s, "GET", "/rules?filter=quarantined").Body.String()
	require.Contains(t, body, "No rule matches.")
	require.Contains(t, request(s, "GET", "/rules?filter=lease+critical").Body.String(), "LeaseLost")
}
