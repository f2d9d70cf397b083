package web

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/test/apicheck"
)

// fullView returns a view with a value in every field that the API shows.
func fullView() View {
	v := exampleView()
	list := v.Episodes()
	full := list[len(list)-1]
	full.Fingerprint, full.OnHold, full.WaitsFor, full.Overflow = 0x456, true, []string{"kubelet"}, true
	full.Cause = &episodes.Cause{Fingerprint: list[0].Fingerprint, Alert: "LeaseLost", Severity: "critical", Labels: map[string]string{"a": "b"}, Summary: hostile, StartsAt: now}
	v.Episodes = func() []episodes.Episode { return append([]episodes.Episode{full}, list...) }
	past := pastOf(full, 3)
	v.History = func() []*history.Entry { return past }
	v.PastEpisodes = func(fp episodes.Fingerprint) []*history.Entry {
		if fp == full.Fingerprint {
			return past
		}
		return nil
	}
	v.Unknown = func() Unknown {
		return Unknown{Enabled: true, Forwarded: true, Failures: []UnknownFailure{{
			Fingerprint: "00000000000000aa", Labels: map[string]string{"a": "b"}, OtherTexts: []redact.Text{"x"}, Object: "x", Since: now, Last: now,
			Pods: []string{"p"}, Changes: []string{"c"}, Examples: []redact.Text{redact.Text(hostile)},
		}}}
	}
	v.UnknownRule = func(fp string) (string, error) {
		if fp != "00000000000000aa" {
			return "", errors.New("no failure has this fingerprint")
		}
		return "pack: {}", nil
	}
	sources := v.Sources()
	sources[0].Idle, sources[0].Absent, sources[0].LeftOut, sources[0].AwaySince = "x", []string{"y"}, map[string]int64{"n": 1}, now
	sources[0].Losses, sources[0].Filtered = map[string]int64{"rotated": 1}, true
	sources[0].Unread = []Unread{{Path: "p", Reason: "w", Since: now}}
	sources[0].Members = []Member{{Name: "agents/n1", Error: "x", Since: now, Watermark: now, Skew: 1, Reports: []string{"A"}}}
	v.Sources = func() []Source { return sources }
	loaded, status := v.Rules(), v.Status()
	rule := *loaded.Set.Rules[0]
	rule.Silent, rule.Disabled = time.Minute, "x"
	rule.Causes = []rules.Cause{{Alert: "Off", Same: []string{"a"}, Lag: time.Second}}
	loaded.Set.Rules[0], loaded.Set.Packs[0].Rules[0] = &rule, &rule
	loaded.Quarantined, loaded.WaitReasons = map[string]string{"LeaseLost": "slow"}, map[string]string{"LeaseLost": "agents"}
	v.Rules = func() Rules { return loaded }
	status.Missing, status.Absent, status.Unhealthy, status.Reload.Error = []string{"m"}, []string{"a"}, "u", "e"
	v.Status = func() Status { return status }
	return v
}

// pastOf returns remembered episodes like x, the newest start first.
func pastOf(x episodes.Episode, n int) (out []*history.Entry) {
	for i := range n {
		at := now.Add(-time.Duration(i+1) * 30 * time.Minute)
		out = append(out, &history.Entry{
			Fingerprint: uint64(x.Fingerprint), Alert: x.Alert, Pack: "demo", Reason: "clear", Silent: true, Overflow: true, Labels: x.Labels,
			Summary: hostile, StartsAt: at.Add(-time.Hour), FiredAt: at, LastSeen: at, EndsAt: at, ConcludedAt: at, Lines: 3, Notified: 2, Flaps: n - i - 1,
			Cause: &history.Cause{Fingerprint: 0xdef, Alert: "LeaseLost", Severity: "critical", Labels: x.Labels, StartsAt: at},
		})
	}
	return out
}

// checker compares the answers of servers with openapi.json.
type checker struct {
	t    *testing.T
	doc  *apicheck.Document
	seen map[string]map[int]bool // status codes of each operation
}

// check requests a target of an operation. The path of the operation is that of the target
// unless it is stated.
func (c *checker) check(s *Server, code int, target string, path ...string) {
	c.t.Helper()
	method, uri, _ := strings.Cut(target, " ")
	name, _, _ := strings.Cut(target, "?")
	if len(path) > 0 {
		name = method + " " + path[0]
	}
	c.answer(s, code, name, func() *http.Request { return httptest.NewRequest(method, uri, nil) })
}

// answer makes a request of an operation.
func (c *checker) answer(s *Server, code int, name string, ask func() *http.Request) {
	c.t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, ask())
	require.Equal(c.t, code, w.Code, "%s: %s", name, w.Body)
	c.doc.Check(ask(), w.Code, w.Header(), w.Body.Bytes())
	if c.seen[name] == nil {
		c.seen[name] = map[int]bool{}
	}
	c.seen[name][code] = true
}

// Each answer of each handler has the form that the document states, and no other field; so
// have those of an empty daemon.
func TestAnswersAreAsDocumented(t *testing.T) {
	c := &checker{t: t, doc: apicheck.New(t, OpenAPI()), seen: map[string]map[int]bool{}}
	require.Equal(t, slices.Sorted(maps.Keys(operations())), c.doc.Operations)
	on := Options{Reload: func(context.Context) error { return nil }, Scan: func(string, matcher.Labels, *rules.Set) (Scanned, error) {
		one := []ScanFailure{{Labels: map[string]string{}, EndsAt: &now, Matched: []string{"a"}, OtherRules: []string{"B"}, OtherPlaces: []map[string]string{{"a": "b"}}, Missing: "more"}}
		return Scanned{one, one, []ScanUnknown{{Examples: []redact.Text{}}}, 1, 2, 3, "known"}, nil
	}}
	full := newTestServer(t, fullView(), on)
	for _, s := range []*Server{full, newTestServer(t, emptyView(), on)} {
		for _, path := range []string{
			"alerts", "episodes", "history", "counts", "rules", "unknown", "sources", "openapi.json",
			"status/buildinfo", "status/config", "status/flags", "status/runtimeinfo",
		} {
			c.check(s, 200, "GET /api/v1/"+path)
		}
		c.check(s, 200, "GET /metrics")
		c.check(s, 200, "POST /-/reload")
	}
	c.queries(full)
	c.episodes(full)
	c.streams(full)
	c.scans(full)
	c.check(full, 503, "GET /-/healthy")
	c.check(full, 503, "GET /-/ready")
	off := newTestServer(t, exampleView(), Options{})
	c.check(off, 200, "GET /-/healthy")
	c.check(off, 200, "GET /-/ready")
	c.check(off, 403, "POST /-/reload")
	broken := newTestServer(t, exampleView(), Options{Reload: func(context.Context) error { return errors.New("broken pack") }})
	c.check(broken, 400, "POST /-/reload")

	for name, op := range operations() {
		want := append([]int{200}, op.errors...)
		for code, text := range op.plain {
			if !strings.HasPrefix(text, "Too many") { // gate_test.go
				want = append(want, code)
			}
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(c.seen[name])), "answers to %s", name)
	}
}

// queries checks parameters of queries.
func (c *checker) queries(s *Server) {
	c.t.Helper()
	for _, path := range []string{"alerts", "episodes", "history", "counts"} {
		c.check(s, 200, "GET /api/v1/"+path+"?fingerprint=0000000000000456&filter=a!%3Db&match%5B%5D=c%3D%22%22")
		c.check(s, 400, "GET /api/v1/"+path+"?filter=%7B")
	}
	c.check(s, 200, "GET /api/v1/alerts?state=firing&state=pending")
	c.check(s, 200, "GET /api/v1/history?from=7d&to=2030-01-01&limit=1&q=lease+lost&after=1900000000000000000-0000000000000456")
}

// episodes checks the paths that name an episode or a failure.
func (c *checker) episodes(s *Server) {
	c.t.Helper()
	const episode, rule = "/api/v1/episodes/{fingerprint}", "/api/v1/unknown/{fingerprint}/rule"
	for fp, code := range map[string]int{"0000000000000456": 200, "0000000000000abc": 200, "ffffffffffffffff": 404} {
		c.check(s, code, "GET /api/v1/episodes/"+fp, episode)
		c.check(s, code, "GET /api/v1/episodes/"+fp+"/timeline", episode+"/timeline")
	}
	c.check(s, 200, "GET /api/v1/unknown/00000000000000aa/rule", rule)
	c.check(s, 404, "GET /api/v1/unknown/bb/rule", rule)
	c.check(s, 200, "GET /api/v1/runbooks/LeaseLost", "/api/v1/runbooks/{name}")
	c.check(s, 404, "GET /api/v1/runbooks/bb", "/api/v1/runbooks/{name}")
}

// streams checks the stream of changes, which its reader ends.
func (c *checker) streams(s *Server) {
	c.t.Helper()
	c.answer(s, 200, "GET /api/v1/stream", func() *http.Request {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return httptest.NewRequestWithContext(ctx, "GET", "/api/v1/stream", nil)
	})
}

// scans checks the scan of a log.
func (c *checker) scans(s *Server) {
	c.t.Helper()
	play := func(code int, body, site string) {
		c.t.Helper()
		c.answer(s, code, "POST /api/v1/scan", func() *http.Request {
			r := httptest.NewRequest("POST", "/api/v1/scan", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Sec-Fetch-Site", site)
			return r
		})
	}
	play(200, `{"rules": "rules:\n- alert: A\n  match: {regex: 'a(?P<x>b)'}\n  severity: info\n  annotations: {summary: A}", "lines": "ab\nc", "labels": "namespace=\"n\""}`, "same-origin")
	play(200, `{"rules": "rules: [", "lines": "", "labels": ""}`, "same-origin")
	play(200, `{"lines": "E0101 lost"}`, "same-origin")
	play(400, `{"lines": " "}`, "same-origin")
	play(400, `[]`, "same-origin")
	play(403, `{}`, "cross-site")
}

// The document refuses what it does not state: a field more, one less, another type.
func TestDocumentIsStrict(t *testing.T) {
	var in map[string]any
	require.NoError(t, json.Unmarshal(OpenAPI(), &in))
	open := 0
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			if _, has := x["properties"]; has && x["type"] == "object" && x["additionalProperties"] != false {
				open++
			}
			for _, inner := range x {
				walk(inner)
			}
		case []any:
			for _, inner := range x {
				walk(inner)
			}
		}
	}
	walk(in["paths"])
	walk(in["components"])
	require.Zero(t, open, "objects that allow fields that are not stated")
}

// A rule names the running versions that it was not verified with, and no others.
func TestUnverified(t *testing.T) {
	all := []rules.Verified{{Component: "kubelet", Versions: ">=1.33 <1.36"}, {Component: "etcd", Versions: "~3.6"}}
	f := func(running map[string][]string, want string) {
		t.Helper()
		require.Equal(t, want, Rule{Verified: toVerified(all, running)}.Unverified())
	}
	f(nil, "")
	f(map[string][]string{"kubelet": {"v1.35.1"}, "etcd": {"", "latest"}, "containerd": {"9.0.0"}}, "")
	f(map[string][]string{"kubelet": {"v1.35.1", "v1.37.0"}, "etcd": {"3.5.1-0", "latest"}},
		"verified for kubelet >=1.33 <1.36, you run v1.37.0; verified for etcd ~3.6, you run 3.5.1-0")
	require.Equal(t, []string{"latest"}, toVerified(all, map[string][]string{"etcd": {"latest"}})[1].Unknown)
}
