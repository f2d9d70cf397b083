package loki

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/grafana/loki/pkg/push"
	commonconfig "github.com/prometheus/common/config"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/episodes"
	"crowsnest/internal/httpconfig"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// received is one push request.
type received struct {
	header http.Header
	size   int // of the body
	body   push.PushRequest
}

// fakeLoki keeps the requests for the push API.
type fakeLoki struct {
	*httptest.Server
	mu   sync.Mutex
	got  []received
	code int // of the answers; 0: 204
	hang chan struct{}
}

func newFakeLoki(t *testing.T) *fakeLoki {
	t.Helper()
	f := &fakeLoki{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.Header.Get("Content-Type") == "application/json" { // the proof that this is Loki
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		f.mu.Lock()
		hang, code := f.hang, f.code
		f.mu.Unlock()
		if hang != nil {
			<-hang
		}
		got := received{header: r.Header, size: len(raw)}
		data, err := snappy.Decode(nil, raw)
		if err == nil {
			err = got.body.Unmarshal(data)
		}
		switch {
		case r.URL.Path != pushPath || err != nil:
			code = http.StatusTeapot
		case code == 0:
			code = http.StatusNoContent
		}
		f.mu.Lock()
		f.got = append(f.got, got)
		f.mu.Unlock()
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "the answer")
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeLoki) set(code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.code = code
}

func (f *fakeLoki) requests() []received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

var (
	now     = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	episode = episodes.Episode{
		Fingerprint: 0x1234, Alert: "LeaseLost", State: episodes.StateFiring, Rule: &rules.Rule{Pack: "vcluster"},
		Labels:      map[string]string{"alertname": "LeaseLost", "severity": "critical", "resolves": "clear", "namespace": "team-a"},
		Annotations: map[string]string{"summary": `the lease of "team-a" is lost`, "runbook_url": "https://runbooks.example/lease"},
		StartsAt:    now.Add(-2 * time.Minute), FiredAt: now.Add(-time.Minute), LastSeen: now.Add(-time.Second), Count: 3,
		Line: "E1120 leaderelection lost",
	}
	cluster = map[string]string{"cluster": "prod-1", "region": "eu"}
)

func ended(ep episodes.Episode) episodes.Episode {
	ep.State, ep.Reason = episodes.StateResolved, episodes.ReasonClear
	ep.EndsAt, ep.ConcludedAt = now.Add(-500*time.Millisecond), now
	return ep
}

func meta(e entry) map[string]string {
	out := map[string]string{}
	for _, m := range e.metadata {
		out[m.Name] = m.Value
	}
	return out
}

func TestEntry(t *testing.T) {
	cfg := Config{ExternalLabels: cluster, ExternalURL: "https://crowsnest.example", Labels: map[string]string{"team": "x"}}.withDefaults()
	e, err := cfg.newEntry(sinks.Message{Episode: episode, New: true}, now)
	require.NoError(t, err)
	require.Equal(t, `{cluster="prod-1", service_name="crowsnest", severity="critical", team="x"}`, e.labels.String())
	require.Equal(t, episode.FiredAt, e.time)
	require.JSONEq(t, `{"event":"opened","alertname":"LeaseLost","severity":"critical","summary":"the lease of \"team-a\" is lost",
		"labels":{"cluster":"prod-1","namespace":"team-a","region":"eu","resolves":"clear"},"count":3,"starts_at":"2026-11-20T11:58:00Z",
		"last_seen":"2026-11-20T11:59:59Z","runbook_url":"https://runbooks.example/lease","url":"https://crowsnest.example/episodes/0000000000001234"}`, e.line)
	require.Equal(t, map[string]string{
		"alertname": "LeaseLost", "event": "opened", "fingerprint": "0000000000001234", "pack": "vcluster", "starts_at": "2026-11-20T11:58:00Z",
		"namespace": "team-a", "region": "eu", "resolves": "clear", "line": "E1120 leaderelection lost",
	}, meta(e))
	require.NotContains(t, e.line, episode.Line, "what looks for the line in all of Loki must not find it here")

	e, err = cfg.newEntry(sinks.Message{Episode: episode}, now)
	require.NoError(t, err)
	require.Equal(t, "updated", meta(e)["event"])
	require.Equal(t, episode.LastSeen, e.time)

	e, err = cfg.newEntry(sinks.Message{Episode: ended(episode), Resolved: true, New: true}, now)
	require.NoError(t, err)
	require.Equal(t, now, e.time)
	require.Contains(t, e.line, `"ends_at":"2026-11-20T11:59:59.5Z","reason":"clear"`)
}

func TestEntryLogfmt(t *testing.T) {
	cfg := Config{Format: formatLogfmt}.withDefaults()
	e, err := cfg.newEntry(sinks.Message{Episode: ended(episode), Resolved: true, New: true}, now)
	require.NoError(t, err)
	require.Equal(t, `event=resolved alertname=LeaseLost severity=critical summary="the lease of \"team-a\" is lost" namespace=team-a resolves=clear `+
		`count=3 starts_at=2026-11-20T11:58:00Z last_seen=2026-11-20T11:59:59Z ends_at=2026-11-20T11:59:59.5Z reason=clear runbook_url=https://runbooks.example/lease`, e.line)
}

// Loki accepts the entry of any episode.
func TestHostileEpisodes(t *testing.T) {
	cfg := Config{ExternalLabels: cluster}.withDefaults()
	f := func(change func(ep *episodes.Episode), check func(e entry)) {
		t.Helper()
		ep := episode
		ep.Labels = map[string]string{"alertname": "A", "severity": "info"}
		change(&ep)
		for _, format := range []string{formatJSON, formatLogfmt} {
			cfg.Format = format
			e, err := cfg.newEntry(sinks.Message{Episode: ep, New: true}, now)
			require.NoError(t, err)
			require.NotContains(t, e.line, "\n")
			require.Less(t, e.size(), 64<<10)
			check(e)
		}
	}
	f(func(ep *episodes.Episode) { ep.FiredAt = now.Add(-2 * time.Hour) }, func(e entry) { require.Equal(t, now, e.time, "too old for its stream") })
	f(func(ep *episodes.Episode) { ep.FiredAt = now.Add(time.Hour) }, func(e entry) { require.Equal(t, now, e.time, "ahead of Loki's clock") })
	f(func(ep *episodes.Episode) { ep.Labels["bad-name"] = "x" }, func(e entry) { require.NotContains(t, meta(e), "bad-name") })
	f(func(ep *episodes.Episode) { ep.Labels["severity"] = "a\"}\n\xff" }, func(e entry) { require.NotContains(t, string(e.labels["severity"]), "\n") })
	f(func(ep *episodes.Episode) { ep.Labels["ns"] = strings.Repeat("x", 1<<20) }, func(e entry) { require.LessOrEqual(t, len(meta(e)["ns"]), delivery.MaxValue) })
	f(func(ep *episodes.Episode) { ep.Line = redact.Text(strings.Repeat("\x00ä", 1<<20)) }, func(e entry) { require.LessOrEqual(t, len(meta(e)["line"]), delivery.MaxAnnotation) })
	f(func(ep *episodes.Episode) { ep.Annotations = map[string]string{"summary": strings.Repeat("\n", 1<<20)} }, func(entry) {})
	f(func(ep *episodes.Episode) {
		for i := range 1000 {
			ep.Labels[fmt.Sprint("l", i)] = "x"
		}
	}, func(e entry) { require.LessOrEqual(t, len(e.metadata), maxMetadata) })
	_, err := cfg.newEntry(sinks.Message{Episode: episodes.Episode{}}, now)
	require.Error(t, err)
}

func TestValidate(t *testing.T) {
	f := func(cfg Config, want string) {
		t.Helper()
		if cfg.URL == "" {
			cfg.URL = example
		}
		err := cfg.Validate()
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
	}
	f(Config{}, "")
	f(Config{URL: "http://loki:3100/prefix/", Format: "logfmt", Tenant: "a", Labels: map[string]string{"team": "x"}}, "")
	f(Config{URL: "loki:3100"}, "url: ")
	f(Config{URL: "http://loki/loki/api/v1/push"}, "without /loki/api/v1/push")
	f(Config{URL: "http://u:p@loki"}, "no credentials")
	f(Config{URL: "http://loki?x=y"}, `url: "http://loki?x=y": remove`)
	f(Config{Format: "xml"}, `format: "xml" is not known`)
	f(Config{Tenant: "a|b"}, "tenant: ")
	f(Config{Labels: map[string]string{"severity": "x"}}, "labels: severity is set by crowsnest")
	f(Config{Labels: map[string]string{"a-b": "x"}}, "is not a label name")
	f(Config{Labels: map[string]string{"__tenant_id__": "x"}}, "is not a label name")
	f(Config{ExternalURL: "x"}, "external_url: ")
	require.ErrorContains(t, Config{}.Validate(), "url: the address is missing")
	_, err := New(Config{}, Options{})
	require.Error(t, err)
}

// run starts a sink and returns a function that stops it.
func run(t *testing.T, cfg Config) (*Sink, func()) {
	t.Helper()
	s, err := New(cfg, Options{Log: zerolog.Nop()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return s, stop
}

func live(name string) episodes.Episode {
	ep := episode
	ep.Labels = map[string]string{"alertname": name, "severity": "info"}
	ep.Alert = name
	ep.StartsAt, ep.FiredAt, ep.LastSeen = time.Now(), time.Now(), time.Now()
	for _, c := range name {
		ep.Fingerprint = ep.Fingerprint*131 + episodes.Fingerprint(c)
	}
	return ep
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 5*time.Millisecond, what)
}

// One request holds everything that is due, as snappy and protobuf, with the tenant and the
// credentials.
func TestPush(t *testing.T) {
	f := newFakeLoki(t)
	cfg := Config{URL: f.URL, Tenant: "ops", HTTP: httpconfig.Config{HTTPClientConfig: commonconfig.HTTPClientConfig{
		BasicAuth:   &commonconfig.BasicAuth{Username: "u", Password: "p"},
		HTTPHeaders: &commonconfig.Headers{Headers: map[string]commonconfig.Header{"X-Own": {Values: []string{"1"}}}},
	}}}
	s, stop := run(t, cfg)
	s.Notify([]episodes.Episode{live("A"), live("B")})
	eventually(t, "delivered", func() bool { return s.Status()[0].Sent == 2 })
	stop()
	got := f.requests()
	require.Len(t, got, 1)
	require.Equal(t, "ops", got[0].header.Get("X-Scope-OrgID"))
	require.Equal(t, "1", got[0].header.Get("X-Own"))
	require.Equal(t, "Basic dTpw", got[0].header.Get("Authorization"))
	require.Equal(t, "application/x-protobuf", got[0].header.Get("Content-Type"))
	require.Len(t, got[0].body.Streams, 1)
	require.Len(t, got[0].body.Streams[0].Entries, 2)
	var line summary
	require.NoError(t, json.Unmarshal([]byte(got[0].body.Streams[0].Entries[0].Line), &line))
	require.Equal(t, "opened", line.Event)
	require.NotContains(t, cfg.HTTP.HTTPHeaders.Headers, "Connection", "the configuration is not changed")
}

// A hundred requests leave neither goroutines nor connections behind.
func TestNothingIsLeft(t *testing.T) {
	f := newFakeLoki(t)
	s, stop := run(t, Config{URL: f.URL})
	before := runtime.NumGoroutine()
	for i := range 100 {
		s.Notify([]episodes.Episode{live(fmt.Sprint("A", i))})
		eventually(t, "delivered", func() bool { return s.Status()[0].Sent == int64(i+1) })
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
	t.Logf("goroutines: %d before, %d after 100 requests", before, runtime.NumGoroutine())
	stop()
}

// What the answers mean.
func TestAnswers(t *testing.T) {
	f := newFakeLoki(t)
	post := func(cfg Config) delivery.Answer {
		t.Helper()
		cfg.URL = f.URL
		cfg = cfg.withDefaults()
		r := &receiver{cfg: cfg, log: zerolog.Nop()}
		e, _, err := r.Encode(sinks.Message{Episode: live("A"), New: true}, time.Now())
		require.NoError(t, err)
		return r.Deliver(context.Background(), []entry{e})
	}
	for code, want := range map[int]string{
		204: "", 200: "", 301: delivery.ReasonRedirect, 400: delivery.ReasonRefused, 401: delivery.ReasonAuth, 403: delivery.ReasonAuth,
		404: delivery.ReasonClientError, 413: delivery.ReasonRefused, 422: delivery.ReasonRefused, 429: delivery.ReasonRateLimited,
		500: delivery.ReasonServerError, 503: delivery.ReasonServerError,
	} {
		f.set(code)
		before := len(f.requests())
		a := post(Config{})
		require.Equal(t, want, a.Reason, "status %d", code)
		require.Equal(t, want == "", a.Err == nil, "status %d: %v", code, a.Err)
		require.Len(t, f.requests(), before+1, "status %d: tried once", code)
		if a.Err != nil {
			require.Contains(t, a.Err.Error(), "the answer")
		}
	}
	a := post(Config{HTTP: httpconfig.Config{HTTPClientConfig: commonconfig.HTTPClientConfig{TLSConfig: commonconfig.TLSConfig{CAFile: "/nowhere"}}}})
	require.Equal(t, delivery.ReasonConfig, a.Reason)

	f.mu.Lock()
	f.hang = make(chan struct{})
	f.mu.Unlock()
	require.Equal(t, delivery.ReasonTimeout, post(Config{Timeout: 50 * time.Millisecond}).Reason)
	close(f.hang)
	f.Close()
	a = post(Config{})
	require.Equal(t, delivery.ReasonConnection, a.Reason)
	require.NotContains(t, a.Err.Error(), "http://")
}

// A Loki that hangs delays a stop by no more than the drain. The request that
// the library waits for ends by its own timeout.
func TestStopWhileLokiHangs(t *testing.T) {
	f := newFakeLoki(t)
	f.hang = make(chan struct{})
	before := runtime.NumGoroutine()
	s, stop := run(t, Config{URL: f.URL, Timeout: 5 * time.Second})
	s.Notify([]episodes.Episode{live("A")})
	at := time.Now()
	stop()
	require.Less(t, time.Since(at), delivery.Drain+2*time.Second)
	t.Logf("stopped after %s; %d goroutines more than before", time.Since(at).Round(time.Millisecond), runtime.NumGoroutine()-before)
	close(f.hang)
	eventually(t, "the library's goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// Bodies are bounded although the library counts only lines.
func TestBodies(t *testing.T) {
	f := newFakeLoki(t)
	s, stop := run(t, Config{URL: f.URL})
	var eps []episodes.Episode
	for i := range 2000 {
		ep := live(fmt.Sprint("A", i))
		for j := range 15 {
			ep.Labels[fmt.Sprint("l", j)] = strings.Repeat(fmt.Sprint(i), 60)
		}
		ep.Annotations = map[string]string{"summary": strings.Repeat("s", 3000)}
		eps = append(eps, ep)
	}
	s.Notify(eps)
	eventually(t, "delivered", func() bool { return s.Status()[0].Sent == 2000 })
	stop()
	seen := 0
	for _, r := range f.requests() {
		n := 0
		for _, st := range r.body.Streams {
			n += len(st.Entries)
		}
		seen += n
		require.LessOrEqual(t, n, maxEntries)
		require.LessOrEqual(t, r.size, maxBody+64<<10)
		require.LessOrEqual(t, r.body.Size(), maxBody+64<<10, "before compression")
	}
	require.Equal(t, 2000, seen)
}

// A page that accepts everything is not Loki.
func TestAPageIsNotLoki(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>Sign in</html>")
	}))
	t.Cleanup(page.Close)
	s, stop := run(t, Config{URL: page.URL})
	s.Notify([]episodes.Episode{live("A")})
	eventually(t, "refused", func() bool { return s.Status()[0].Failed[delivery.ReasonForeign] > 0 })
	st := s.Status()[0]
	require.False(t, st.Up)
	require.Zero(t, st.Sent)
	require.Equal(t, 1, st.Pending)
	require.Contains(t, st.Error, "the response does not come from Loki")
	stop()
}
