package web

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func exampleFleet() Fleet {
	answered := now.Add(-10 * time.Minute)
	return Fleet{
		Needed: 3, States: map[string]int{"up": 1, "unknown": 2, "conflict": 1},
		Clusters: []FleetCluster{
			{Name: "eu-1", State: "up", Since: now, Answered: &now, Link: "https://eu-1.example.org", Version: "0.2.0", Open: map[string]int{"critical": 2, "none": 1}, Rules: 1},
			{Name: "eu-2", State: "unknown", Since: answered, Answered: &answered, Error: hostile, Link: "javascript:alert(1)", Open: map[string]int{"warning": 7}, Rules: 2},
			{Name: "eu-3", State: "unknown", Since: now, Error: "no answer yet"},
			{Name: hostile, State: "conflict", Since: now, Error: "two targets"},
		},
		Rules: []FleetRule{{
			Rule: "Conflict", Severity: "critical", Since: answered, First: "eu-2", Alert: "00000000000000aa", Alerts: 9, Affected: 1, Old: 1,
			Versions: []FleetVersion{{"1.32.0", 1}, {hostile, 1}},
			Clusters: []FleetRuleCluster{
				{Cluster: "eu-2", Link: "javascript:alert(1)", Open: 7, Since: answered, Affected: "yes", Versions: []string{"1.32.0"}, Old: true},
				{Cluster: "eu-1", Link: "https://eu-1.example.org/?filter=Conflict", Open: 2, Since: now},
			},
		}},
		MoreRules: 4, Discovery: []FleetDiscovery{{Kind: "http_sd", Error: hostile, Since: now}},
	}
}

func TestFleetPage(t *testing.T) {
	s := newTestServer(t, fullView(), Options{})
	f := func(path string, want, lacks []string) {
		t.Helper()
		w := request(s, "GET", path)
		require.Equal(t, 200, w.Code)
		body := w.Body.String()
		require.NotContains(t, body, "<script>alert")
		require.NotContains(t, body, `href="javascript:`)
		for _, text := range want {
			require.Contains(t, body, text)
		}
		for _, text := range lacks {
			require.NotContains(t, body, text)
		}
	}
	f("/fleet", []string{
		`href="/fleet" aria-current="page"`, `href="/episodes/00000000000000aa">fleet alert`, `href="https://eu-1.example.org/?filter=Conflict"`,
		"2 of 4", "(1 as last reported)", "http_sd fails since", "10m 0s ago</time> in eu-2", "not known", "and 4 more rules",
		`<th scope="row">eu-3</th>`, "no answer yet",
	}, nil)
	f("/fleet?filter=eu-3", []string{`<th scope="row">eu-3</th>`, "No open rule matches."}, []string{`eu-1`})
	f("/fleet?filter=critical+eu-2", []string{"fleet alert", "No cluster matches."}, nil)
	f("/", []string{`<a href="/fleet">Fleet</a>`}, nil)

	s = newTestServer(t, exampleView(), Options{})
	f("/", nil, []string{`href="/fleet"`})
	w := request(s, "GET", "/fleet")
	require.Equal(t, 404, w.Code)
	require.Contains(t, w.Body.String(), "sources.fleet is not in its configuration")
}

// A client that has an answer of the API gets it again only if it changed.
func TestUnchangedAnswers(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	ask := func(path, tag string, head ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("If-None-Match", tag)
		for _, name := range head {
			r.Header.Set(name, "gzip")
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w
	}
	const path = "/api/v1/episodes?state=firing"
	first := ask(path, "")
	tag := first.Header().Get("ETag")
	require.Regexp(t, `^W/"[0-9a-f]{16}"$`, tag)
	again := ask(path, tag)
	require.Equal(t, 304, again.Code)
	require.Empty(t, again.Body.Bytes())
	require.Equal(t, 304, ask(path, tag, "Accept-Encoding").Code)
	require.Equal(t, 200, ask(path, `W/"00"`).Code)
	require.Equal(t, 200, ask("/api/v1/episodes", tag).Code, "another answer")
	require.Empty(t, ask("/api/v1/episodes?state=nope", "").Header().Get("ETag"))
	require.Empty(t, ask("/", "").Header().Get("ETag"), "a page has its time in it")
}
