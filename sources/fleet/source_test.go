package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a network of daemons, by host.
type world struct {
	mu      sync.Mutex
	daemons map[string]*fake
	lists   map[string]string // answers of other hosts
	busy    int               // requests in progress
	most    int               // most of them at once
	times   []time.Time       // of requests for alerts
}

// fake is a daemon.
type fake struct {
	alerts   []string // JSON
	external map[string]string
	link     string
	version  string
	body     string // replaces the answer about alerts
	code     int
	hangs    bool
	asked    int
	full     int // answers with alerts
	start    time.Time
}

func firing(alert, severity, since, affected string) string {
	b, _ := json.Marshal(affected)
	return fmt.Sprintf(`{"fingerprint":"00","alert":%q,"pack":"p","state":"firing","labels":{"severity":%q,"other":"x"},"annotations":{"affected":%s},"startsAt":%q,"lastSeen":%q,"count":3,"more":[{"a":1}]}`,
		alert, severity, b, since, since)
}

func data(rec *httptest.ResponseRecorder, of any) {
	_ = json.NewEncoder(rec).Encode(map[string]any{"status": "success", "data": of})
}

// RoundTrip implements http.RoundTripper.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.busy++
	w.most = max(w.most, w.busy)
	d, list := w.daemons[r.URL.Host], w.lists[r.URL.Host]
	w.mu.Unlock()
	select { // a request takes a while
	case <-time.After(10 * time.Millisecond):
	case <-r.Context().Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.busy-- }()
	rec := httptest.NewRecorder()
	switch {
	case list != "":
		_, _ = io.WriteString(rec, list)
		return rec.Result(), nil
	case d == nil:
		return nil, errors.New("connection refused")
	case d.hangs:
		w.mu.Unlock()
		<-r.Context().Done()
		w.mu.Lock()
		return nil, r.Context().Err()
	}
	w.serve(rec, r, d)
	return rec.Result(), nil
}

func (w *world) serve(rec *httptest.ResponseRecorder, r *http.Request, d *fake) {
	d.asked++
	if d.code != 0 {
		rec.WriteHeader(d.code)
		return
	}
	switch r.URL.Path {
	case "/api/v1/status/runtimeinfo":
		data(rec, map[string]any{"startTime": d.start, "externalLabels": d.external, "externalURL": d.link})
	case "/api/v1/status/buildinfo":
		data(rec, map[string]string{"version": cmp.Or(d.version, "0.2.0")})
	case "/api/v1/episodes":
		w.times = append(w.times, time.Now())
		if r.URL.Query().Get("state") != "firing" {
			rec.WriteHeader(http.StatusBadRequest)
			return
		}
		body := cmp.Or(d.body, `{"data":{"episodes":[`+strings.Join(d.alerts, ",")+`]},"status":"success"}`)
		tag := fmt.Sprintf(`W/"%x"`, len(body))
		rec.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			rec.WriteHeader(http.StatusNotModified)
			return
		}
		d.full++
		_, _ = io.WriteString(rec, body)
	default:
		rec.WriteHeader(http.StatusNotFound)
	}
}

func (w *world) change(host string, f func(*fake)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.daemons[host])
}

type noPipe struct{ sources.Pipeline }

func (noPipe) AdvanceWatermark(string, time.Time, ...matcher.LaggingStream) {}

// live is a running source.
type live struct {
	*Source
	t *testing.T
	w *world
}

// run runs f beside a source with virtual time, in which the transport is a network.
func run(t *testing.T, cfg Config, w *world, f func(l live)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Transport = w
		require.NoError(t, cfg.Validate())
		s := New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx, noPipe{}) }()
		defer func() {
			cancel()
			require.NoError(t, <-done)
		}()
		f(live{s, t, w})
	})
}

// pass lets virtual time pass.
func (l live) pass(d time.Duration) {
	l.t.Helper()
	<-time.After(d)
	synctest.Wait()
}

func (l live) cluster(name string) Cluster {
	l.t.Helper()
	all := l.Clusters()
	i := slices.IndexFunc(all, func(c Cluster) bool { return c.Name == name })
	require.GreaterOrEqual(l.t, i, 0, "%s in %v", name, all)
	return all[i]
}

func (l live) states() map[string]State {
	out := map[string]State{}
	for _, c := range l.Clusters() {
		out[c.Name] = c.State
	}
	return out
}

const t0 = "2000-01-01T00:00:00Z"

func TestClustersAreRead(t *testing.T) {
	w := &world{daemons: map[string]*fake{
		"a:1": {link: "https://a.example.org/x", external: map[string]string{"cluster": "a"}, alerts: []string{
			firing("Conflict", "warning", "2000-01-01T00:00:00Z", "no: autoscaler 1.31.2 is not among the affected versions (>=1.32.0)."),
			firing("Conflict", "critical", "1999-12-31T23:00:00Z", "yes: autoscaler v1.32.0 is affected (versions >=1.32.0); fixed in 1.33."),
			firing("Full", "warning", "2000-01-01T00:00:00Z", ""),
			strings.Replace(firing("CrowsnestBlind", "critical", t0, ""), `"pack":"p",`, "", 1),
			strings.Replace(firing("Quiet", "warning", t0, ""), `"state"`, `"silent":true,"state"`, 1),
			strings.Replace(firing("Soon", "warning", t0, ""), "firing", "pending", 1),
		}},
		"b:1": {},
	}}
	cfg := Config{Clusters: []Target{{"a", "http://user:secret@a:1/"}, {"b", "http://b:1"}, {"c", "http://c:1"}}}
	run(t, cfg, w, func(l live) {
		require.Equal(l.t, map[string]State{"a": Unknown, "b": Unknown, "c": Unknown}, l.states())
		require.Equal(l.t, "no answer yet", l.cluster("b").Error)
		require.False(l.t, l.Status().Up)
		l.pass(5 * time.Second)
		require.Equal(l.t, map[string]State{"a": Up, "b": Up, "c": Unknown}, l.states())
		a := l.cluster("a")
		require.Equal(l.t, map[string]int{"critical": 2, "warning": 2}, a.Open)
		require.Equal(l.t, []Rule{
			{Name: "Conflict", Severity: "critical", Open: 2, Since: time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC), Affected: "yes", Versions: []string{"1.31.2", "v1.32.0"}},
			{Name: "Full", Severity: "warning", Open: 1, Since: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},
		}, a.Rules)
		require.Equal(l.t, "0.2.0", a.Version)
		require.Equal(l.t, "https://a.example.org/x", a.Link)
		require.Equal(l.t, "http://b:1", l.cluster("b").Link)
		require.Empty(l.t, l.cluster("b").Open)
		require.Equal(l.t, "no answer: connection refused", l.cluster("c").Error)
		require.True(l.t, l.Status().Up)
		require.Positive(l.t, l.Status().Errors["poll"])
	})
}

// A cluster that stops answering is unknown after a while, and keeps its alerts; one lost
// answer does not count.
func TestSilenceIsUnknown(t *testing.T) {
	w := &world{daemons: map[string]*fake{"a:1": {alerts: []string{firing("Full", "warning", t0, "")}}}}
	run(t, Config{Clusters: []Target{{"a", "http://a:1"}}}, w, func(l live) {
		l.pass(5 * time.Second)
		w.change("a:1", func(d *fake) { d.hangs = true })
		l.pass(30 * time.Second)
		require.Equal(l.t, Up, l.cluster("a").State, "one lost answer")
		l.pass(40 * time.Second)
		c := l.cluster("a")
		require.Equal(l.t, Unknown, c.State)
		require.Equal(l.t, "no answer in time", c.Error)
		require.Equal(l.t, c.Answered, c.Since)
		require.Len(l.t, c.Rules, 1, "as last reported")
		st := l.Status()
		require.False(l.t, st.Up)
		require.Equal(l.t, "none of 1 clusters answers; a: no answer in time", st.Error)
		w.change("a:1", func(d *fake) { d.hangs, d.alerts = false, nil })
		l.pass(30 * time.Second)
		require.Equal(l.t, Up, l.cluster("a").State)
		require.Empty(l.t, l.cluster("a").Rules)
	})
}

// Answers that are hostile or of something else are refused, and the cluster is unknown.
func TestRefusedAnswers(t *testing.T) {
	many := strings.Builder{}
	for i := range maxRules + 1 {
		many.WriteString(firing(fmt.Sprintf("R%d", i), "warning", t0, "") + ",")
	}
	wrap := func(list string) string { return `{"data":{"episodes":[` + list + `]},"status":"success"}` }
	for name, body := range map[string]string{
		"large":       wrap(firing("A", "warning", t0, strings.Repeat("x", 3<<20))),
		"endless":     wrap(strings.Repeat(firing("A", "warning", t0, "")+",", 20000) + firing("A", "warning", t0, "")),
		"nested":      strings.Repeat(`{"a":`, 20000),
		"deep":        wrap(`{"labels":` + strings.Repeat("[", 20000)),
		"page":        "<!doctype html><title>proxy</title>",
		"error":       `{"data":{"episodes":[]},"status":"error"}`,
		"empty":       `{}`,
		"null":        `null`,
		"list":        `[]`,
		"no list":     `{"status":"success","data":{"episodes":null}}`,
		"other form":  wrap(`{"alert":5}`),
		"bad name":    wrap(firing("<script>", "warning", t0, "")),
		"many rules":  wrap(strings.TrimSuffix(many.String(), ",")),
		"broken off":  `{"data":{"episodes":[` + firing("A", "warning", t0, ""),
		"bad numbers": `{"data":{"episodes":[1e999]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{daemons: map[string]*fake{"a:1": {body: body}}}
			run(t, Config{Clusters: []Target{{"a", "http://a:1"}}, MaxAnswerMiB: 2}, w, func(l live) {
				l.pass(3 * time.Second)
				c := l.cluster("a")
				require.Equal(l.t, Unknown, c.State)
				require.Regexp(l.t, "not from crowsnest|more than|broke off", c.Error)
				require.NotContains(l.t, c.Error, "<")
				require.Empty(l.t, c.Rules)
				st := l.Status()
				require.Equal(l.t, int64(1), st.Errors["refused"]+st.Errors["poll"], st.Errors)
			})
		})
	}
	for code, want := range map[int]string{401: "check the credentials", 404: "not that of a crowsnest daemon", 421: "--web.allowed-host", 302: "it answers 302", 304: "it answers 304", 503: "it answers 503"} {
		w := &world{daemons: map[string]*fake{"a:1": {code: code}}}
		run(t, Config{Clusters: []Target{{"a", "http://a:1"}}}, w, func(l live) {
			l.pass(3 * time.Second)
			require.Equal(l.t, Unknown, l.cluster("a").State)
			require.Contains(l.t, l.cluster("a").Error, want)
		})
	}
}

// Texts of daemons are harmless.
func TestTextsAreCleaned(t *testing.T) {
	w := &world{daemons: map[string]*fake{"a:1": {
		link: "javascript:alert(1)", version: "1\x1b[31m\u202e" + strings.Repeat("x", 500),
		alerts: []string{firing("A", "wild<b>", t0, "yes: a \u202ev1 is affected (versions 1).")},
	}}}
	run(t, Config{Clusters: []Target{{"a", "http://a:1"}}}, w, func(l live) {
		l.pass(3 * time.Second)
		c := l.cluster("a")
		require.Equal(l.t, Up, c.State)
		require.Equal(l.t, "http://a:1", c.Link)
		require.LessOrEqual(l.t, len(c.Version), maxVersion+len("…"))
		require.NotContains(l.t, c.Version, "\x1b")
		require.Equal(l.t, map[string]int{"none": 1}, c.Open)
		require.Equal(l.t, []string{"v1"}, c.Rules[0].Versions)
	})
}

// Alerts that did not change are not sent again.
func TestUnchangedAlertsAreNotSent(t *testing.T) {
	w := &world{daemons: map[string]*fake{"a:1": {alerts: []string{firing("A", "warning", t0, "")}}}}
	run(t, Config{Clusters: []Target{{"a", "http://a:1"}}}, w, func(l live) {
		l.pass(2 * time.Minute)
		require.Equal(l.t, 1, w.daemons["a:1"].full)
		require.Len(l.t, l.cluster("a").Rules, 1)
		w.change("a:1", func(d *fake) { d.alerts = append(d.alerts, firing("B", "warning", t0, "")) })
		l.pass(time.Minute)
		require.Equal(l.t, 2, w.daemons["a:1"].full)
		require.Len(l.t, l.cluster("a").Rules, 2)
		require.Positive(l.t, l.stats().polls.Same)
	})
}

// A daemon of another cluster is in conflict with its target, and what it reports is not
// used.
func TestContradictingNames(t *testing.T) {
	w := &world{daemons: map[string]*fake{"a:1": {external: map[string]string{"cluster": "b"}, alerts: []string{firing("A", "warning", t0, "")}}}}
	run(t, Config{Clusters: []Target{{"a", "http://a:1"}}}, w, func(l live) {
		l.pass(3 * time.Second)
		c := l.cluster("a")
		require.Equal(l.t, Conflict, c.State)
		require.Equal(l.t, `the daemon at http://a:1 is of cluster "b" according to its external_labels, and its target is named "a": correct one of them`, c.Error)
		require.Empty(l.t, c.Rules)
		w.change("a:1", func(d *fake) { d.external["cluster"] = "a" })
		l.pass(20 * time.Second)
		require.Equal(l.t, Up, l.cluster("a").State)
	})
}

// Polls are bounded in number and spread over time.
func TestPollsAreSpread(t *testing.T) {
	w := &world{daemons: map[string]*fake{}}
	cfg := Config{Concurrency: 4}
	for i := range 100 {
		host := fmt.Sprintf("c%d:1", i)
		w.daemons[host] = &fake{}
		cfg.Clusters = append(cfg.Clusters, Target{fmt.Sprintf("c%d", i), "http://" + host})
	}
	run(t, cfg, w, func(l live) {
		l.pass(5 * time.Minute)
		require.LessOrEqual(l.t, w.most, 4)
		perSecond := map[int64]int{}
		for _, at := range w.times {
			perSecond[at.Unix()]++
		}
		require.InDelta(l.t, 100*20, len(w.times), 150)
		late := slices.Max(slices.Collect(maps.Values(perSecond)))
		require.Less(l.t, late, 80, "polls of all clusters at once")
		for _, d := range w.daemons {
			require.Positive(l.t, d.asked)
		}
	})
}

func TestDiscovery(t *testing.T) {
	list := func(pairs ...string) string {
		var out []string
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, fmt.Sprintf(`{"targets":[%q],"labels":{"cluster":%q,"__scheme__":"https"}}`, pairs[i], pairs[i+1]))
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	w := &world{daemons: map[string]*fake{"a:1": {}, "b:1": {}, "s:1": {}}, lists: map[string]string{"sd": list("a:1", "a", "b:1", "b")}}
	set := func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lists["sd"] = text
	}
	cfg := Config{Clusters: []Target{{"static", "http://s:1"}}, HTTPSD: &HTTPSD{URL: "http://sd/list?token=secret"}, MaxClusters: 4}
	run(t, cfg, w, func(l live) {
		l.pass(5 * time.Second)
		require.Equal(l.t, map[string]State{"static": Up, "a": Up, "b": Up}, l.states())
		require.Equal(l.t, "https://a:1", l.cluster("a").Link)

		set("<html>")
		l.pass(2 * time.Minute)
		require.Len(l.t, l.Failing(), 1)
		require.Contains(l.t, l.Failing()[0].Error, "http_sd: not a list of targets")
		require.Equal(l.t, map[string]State{"static": Up, "a": Up, "b": Up}, l.states(), "the clusters of before")

		set("[]")
		l.pass(2 * time.Minute)
		require.Empty(l.t, l.Failing())
		require.Equal(l.t, map[string]State{"static": Up, "a": Unknown, "b": Unknown}, l.states())
		require.Contains(l.t, l.cluster("a").Error, "discovery has not found it since")

		set(list("b:1", "b"))
		l.pass(2 * time.Minute)
		require.Equal(l.t, map[string]State{"static": Up, "a": Unknown, "b": Up}, l.states())
		l.pass(time.Hour)
		require.Equal(l.t, map[string]State{"static": Up, "b": Up}, l.states(), "forgotten")

		set(list("a:1", "a", "b:1", "a"))
		l.pass(2 * time.Minute)
		require.Equal(l.t, Conflict, l.cluster("a").State)
		require.Equal(l.t, `two targets are of cluster "a": https://a:1 and https://b:1; a fleet view reads one daemon for each cluster`, l.cluster("a").Error)
		set(list("a:1", "a", "a:1", "c"))
		l.pass(2 * time.Minute)
		require.Equal(l.t, Conflict, l.cluster("a").State)
		require.Contains(l.t, l.cluster("c").Error, "2 clusters have the address https://a:1: a, c")
		set(list("x:1", "static"))
		l.pass(2 * time.Minute)
		require.Equal(l.t, Conflict, l.cluster("static").State)

		set(`[{"targets":["a:1","ftp://x"],"labels":{}}]`)
		l.pass(2 * time.Minute)
		require.Contains(l.t, l.cluster("a:1").Error, "has no label cluster")
		require.Equal(l.t, Conflict, l.cluster("ftp://x").State)
	})
}

func TestTooManyClusters(t *testing.T) {
	w := &world{lists: map[string]string{"sd": `[{"targets":["a:1"],"labels":{"cluster":"a"}},{"targets":["b:1"],"labels":{"cluster":"b"}},{"targets":["c:1"],"labels":{"cluster":"c"}}]`}}
	run(t, Config{HTTPSD: &HTTPSD{URL: "http://sd"}, MaxClusters: 2}, w, func(l live) {
		l.pass(3 * time.Second)
		require.Len(l.t, l.Clusters(), 2)
		require.Equal(l.t, "http_sd: 1 clusters are more than max_clusters (2) allows and are not read; raise it", l.Failing()[0].Error)
	})
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.yml", "- targets: ['a:1']\n  labels: {cluster: a, __crowsnest_path__: /base}\n")
	write("b.json", `[{"targets":["https://b:1"],"labels":{"cluster":"b"}}]`)
	sd := &FileSD{Files: []string{filepath.Join(dir, "*.yml"), filepath.Join(dir, "b.json")}}
	groups, err := sd.read()
	require.NoError(t, err)
	var got []string
	for _, f := range targets(groups, "cluster") {
		require.NoError(t, f.err)
		got = append(got, f.cluster+" "+f.base.String())
	}
	require.Equal(t, []string{"a http://a:1/base", "b https://b:1"}, got)

	write("c.yml", "targets: 5\n")
	_, err = sd.read()
	require.ErrorContains(t, err, "c.yml: not a list of targets")
	_, err = (&FileSD{Files: []string{filepath.Join(dir, "gone.yml")}}).read()
	require.ErrorContains(t, err, "there is no file")
	write("c.yml", strings.Repeat("#", maxDiscovery+1))
	_, err = sd.read()
	require.ErrorContains(t, err, "more than 8 MiB")
}

// What clusters last reported outlives a restart.
func TestPositions(t *testing.T) {
	w := &world{daemons: map[string]*fake{"a:1": {alerts: []string{firing("A", "critical", t0, "")}}, "b:1": {}}, lists: map[string]string{"sd": `[{"targets":["b:1"],"labels":{"cluster":"b"}}]`}}
	cfg := Config{Clusters: []Target{{"a", "http://a:1"}}, HTTPSD: &HTTPSD{URL: "http://sd"}}
	var saved json.RawMessage
	run(t, cfg, w, func(l live) {
		l.pass(5 * time.Second)
		require.True(l.t, l.Changed())
		saved = l.Positions()
		require.False(l.t, l.Changed())
		l.pass(30 * time.Second)
		require.False(l.t, l.Changed())
		require.NotEqual(l.t, string(saved), string(l.Positions()), "times are saved as well")
	})
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Hour)
		s := New(cfg)
		require.NoError(t, s.Restore(saved))
		all := s.Clusters()
		require.Len(t, all, 2)
		require.Equal(t, Unknown, all[0].State)
		require.Equal(t, "A", all[0].Rules[0].Name)
		require.Equal(t, "discovery has not found it yet", all[1].Error)
		require.Error(t, s.Restore(json.RawMessage("[")))
	})
}

func TestValidate(t *testing.T) {
	f := func(c Config, want ...string) {
		t.Helper()
		err := c.Validate()
		if len(want) == 0 {
			require.NoError(t, err)
		}
		for _, text := range want {
			require.ErrorContains(t, err, text)
		}
	}
	a := []Target{{"a", "http://a"}}
	f(Config{Clusters: a})
	f(Config{}, "no cluster is configured")
	f(Config{Clusters: []Target{{"a", "http://a"}, {"a", "http://b"}}}, `clusters: two entries have the name "a"`)
	f(Config{Clusters: []Target{{"a", "http://x"}, {"b", "http://x/"}}}, `"a" and "b" have the same url`)
	f(Config{Clusters: []Target{{"a", "x:80"}}}, "not an absolute http or https address")
	f(Config{Clusters: []Target{{"a\u202e", "http://x"}}}, "cannot be shown")
	f(Config{Clusters: a, Interval: time.Minute, UnknownAfter: time.Minute}, "use at least 2m0s")
	f(Config{Clusters: a, Interval: time.Millisecond}, "use at least 1s")
	f(Config{Clusters: a, Alert: Alert{MinClusters: 1}}, "use at least 2")
	f(Config{Clusters: a, Alert: Alert{MinClusters: 2, MinShare: .1}}, "remove one of them")
	f(Config{FileSD: &FileSD{Files: []string{"rel.yml", "/a/[.yml", "/a/b.txt"}}}, "is relative", "is not a glob", "neither JSON nor YAML")
	f(Config{HTTPSD: &HTTPSD{URL: "sd"}}, "http_sd: the url is not")
}
