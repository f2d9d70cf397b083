package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"
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

var (
	now     = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	episode = episodes.Episode{
		Fingerprint: 0x0123456789abcdef, Alert: "ControllerLeaseLost", State: episodes.StateFiring, Rule: &rules.Rule{Pack: "leases"},
		Labels:      map[string]string{"alertname": "ControllerLeaseLost", "severity": "critical", "resolves": "clear", "namespace": "team-a", "pod": "a-0"},
		Annotations: map[string]string{"summary": "team-a/a-0 lost its lease and has not acquired it again"},
		StartsAt:    now.Add(-2 * time.Minute), FiredAt: now.Add(-time.Minute), LastSeen: now.Add(-time.Second), Count: 3,
		Line: "E1120 11:59:59.000000 1 main.go:1] leaderelection lost", FirstLine: "E1120 11:58:00.000000 1 main.go:1] leaderelection lost",
	}
	config = Config{URL: "https://hook.example/secret", ExternalLabels: map[string]string{"cluster": "prod-1"}, ExternalURL: "https://crowsnest.example.org/"}
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	file, err := os.Open("../../docs/webhook.schema.json")
	require.NoError(t, err)
	defer file.Close()
	doc, err := jsonschema.UnmarshalJSON(file)
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("webhook", doc))
	s, err := c.Compile("webhook")
	require.NoError(t, err)
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, body []byte) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	require.NoError(t, err)
	require.NoError(t, s.Validate(v), string(body))
}

// encode makes a request of messages.
func encode(t *testing.T, cfg Config, msgs ...sinks.Message) []byte {
	t.Helper()
	r := newReceiver(cfg.withDefaults())
	var alerts []Alert
	for _, m := range msgs {
		a, size, err := r.Encode(m, now)
		require.NoError(t, err)
		require.Positive(t, size)
		alerts = append(alerts, a)
	}
	body, err := r.cfg.encodePayload(alerts)
	require.NoError(t, err)
	return body
}

// The document shows the request as the sink makes it.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/webhook.md")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(doc)
	require.NotNil(t, shown)
	body := encode(t, config, sinks.Message{Episode: episode, New: true})
	require.JSONEq(t, string(shown[1]), string(body))
	s := schema(t)
	validate(t, s, body)
	validate(t, s, shown[1])
	// Each field of an alert is in the schema.
	var fields map[string]any
	data, err := json.Marshal(Alert{Pack: "x", Reason: "x", Line: "x", FirstLine: "x"})
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &fields))
	text, err := os.ReadFile("../../docs/webhook.schema.json")
	require.NoError(t, err)
	for name := range fields {
		require.Contains(t, string(text), `"`+name+`": {`)
	}
}

func TestEvents(t *testing.T) {
	s := schema(t)
	end := episode
	end.State, end.Reason, end.EndsAt = episodes.StateResolved, episodes.ReasonQuiet, now
	other := episode
	other.Labels = map[string]string{"alertname": "Other", "severity": "critical"}
	body := encode(t, config, sinks.Message{Episode: other}, sinks.Message{Episode: end, Resolved: true})
	validate(t, s, body)
	var p Payload
	require.NoError(t, json.Unmarshal(body, &p))
	require.Equal(t, "firing", p.Status)
	require.Equal(t, map[string]string{"cluster": "prod-1", "severity": "critical"}, p.CommonLabels)
	require.Equal(t, episode.Annotations, p.CommonAnnotations)
	require.Equal(t, "updated", p.Alerts[0].Event)
	require.Equal(t, "resolved", p.Alerts[1].Event)
	require.Equal(t, "resolved", p.Alerts[1].Status)
	require.Equal(t, "quiet", p.Alerts[1].Reason)
	require.Equal(t, now, p.Alerts[1].EndsAt)
	require.NoError(t, json.Unmarshal(encode(t, config, sinks.Message{Episode: end, Resolved: true}), &p))
	require.Equal(t, "resolved", p.Status)
}

// Whatever an episode holds, the request fits the schema and its bound.
func TestHostileEpisodes(t *testing.T) {
	s := schema(t)
	f := func(change func(ep *episodes.Episode)) {
		t.Helper()
		ep := episode
		ep.Labels, ep.Annotations = map[string]string{"alertname": "A"}, map[string]string{}
		change(&ep)
		body := encode(t, config, sinks.Message{Episode: ep, New: true})
		validate(t, s, body)
		require.Less(t, len(body), maxBody)
	}
	f(func(*episodes.Episode) {})
	f(func(ep *episodes.Episode) { ep.LastSeen, ep.FiredAt = time.Time{}, time.Time{} })
	f(func(ep *episodes.Episode) {
		ep.Labels["bad-name"], ep.Labels["ns"] = "x", strings.Repeat("\xff\n", 9000)
	})
	f(func(ep *episodes.Episode) { ep.Line = redact.Text(strings.Repeat("\"\u2028<\\", 9000)) })
	f(func(ep *episodes.Episode) {
		for i := range 1000 {
			ep.Annotations[fmt.Sprint("a", i)] = strings.Repeat("x", 1<<16)
		}
	})
	_, _, err := (&receiver{cfg: config.withDefaults()}).Encode(sinks.Message{}, now)
	require.Error(t, err)
}

func TestValidate(t *testing.T) {
	f := func(cfg Config, want string) {
		t.Helper()
		err := cfg.Validate()
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cr3t")
	}
	f(config, "")
	f(Config{URLFile: "/x"}, "")
	f(Config{}, "url: the address is missing")
	f(Config{URL: "http://a", URLFile: "/x"}, "remove one")
	f(Config{URL: "a.example/s3cr3t"}, "no scheme")
	f(Config{URL: "http://s3cr3t@a"}, "no credentials")
	f(Config{URL: "http://a/%zzs3cr3t"}, "invalid address")
	f(Config{URL: "http://a/#s3cr3t"}, "follows the #")
	f(Config{URL: "http:///s3cr3t"}, "no host")
	f(Config{URL: "http://a", ExternalLabels: map[string]string{"severity": "x"}}, "external_labels: ")
	require.Equal(t, "https://hook.example", config.receiverName())
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

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 5*time.Millisecond, what)
}

// hook keeps requests.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	header http.Header
	code   int
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{code: http.StatusOK}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.bodies, h.header = append(h.bodies, body), r.Header
		w.Header().Set("Location", "http://127.0.0.1:1/secret-path")
		w.WriteHeader(h.code)
		_, _ = io.WriteString(w, "the answer\n")
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.bodies)
}

func (h *hook) set(code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.code = code
}

// Alerts arrive with the credentials, in requests of bounded size; ends are sent
// unless send_resolved is false.
func TestDelivery(t *testing.T) {
	s := schema(t)
	h := newHook(t)
	file := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(file, []byte(h.URL+"/x?key=1\n"), 0o600))
	no := false
	for _, cfg := range []Config{{URL: commonconfig.Secret(h.URL)}, {URLFile: file, SendResolved: &no}} {
		cfg.HTTP = httpconfig.Config{HTTPClientConfig: commonconfig.HTTPClientConfig{Authorization: &commonconfig.Authorization{Type: "Bearer", Credentials: "t"}}}
		sink, stop := run(t, cfg)
		var eps []episodes.Episode
		for i := range 200 {
			ep := episode
			ep.Fingerprint += episodes.Fingerprint(i)
			eps = append(eps, ep)
		}
		sink.Notify(eps)
		eventually(t, "delivered", func() bool { return sink.Status()[0].Sent == 200 })
		before := h.requests()
		end := episode
		end.State, end.EndsAt = episodes.StateResolved, now
		sink.Notify([]episodes.Episode{end})
		eventually(t, "delivered", func() bool { return sink.Status()[0].Pending == 0 })
		stop()
		require.Equal(t, cfg.SendResolved == nil, h.requests() > before)
	}
	require.Equal(t, "Bearer t", h.header.Get("Authorization"))
	require.Equal(t, "application/json", h.header.Get("Content-Type"))
	require.True(t, strings.HasPrefix(h.header.Get("User-Agent"), "crowsnest/"))
	for _, body := range h.bodies {
		validate(t, s, body)
	}
}

// What the answers mean, and that none of them shows the address.
func TestAnswers(t *testing.T) {
	h := newHook(t)
	goroutines := runtime.NumGoroutine()
	post := func(cfg Config) delivery.Answer {
		t.Helper()
		r := newReceiver(cfg.withDefaults())
		defer r.Close()
		a, _, err := r.Encode(sinks.Message{Episode: episode, New: true}, now)
		require.NoError(t, err)
		answer := r.Deliver(context.Background(), []Alert{a})
		if answer.Err != nil {
			require.NotContains(t, answer.Err.Error(), "secret")
		}
		return answer
	}
	here := Config{URL: commonconfig.Secret(h.URL + "/secret")}
	for code, want := range map[int]string{
		200: "", 202: "", 204: "", 301: delivery.ReasonRedirect, 307: delivery.ReasonRedirect, 400: delivery.ReasonRefused,
		401: delivery.ReasonAuth, 403: delivery.ReasonAuth, 404: delivery.ReasonClientError, 413: delivery.ReasonRefused,
		422: delivery.ReasonRefused, 429: delivery.ReasonRateLimited, 500: delivery.ReasonServerError, 503: delivery.ReasonServerError,
	} {
		h.set(code)
		before := h.requests()
		a := post(here)
		require.Equal(t, want, a.Reason, "status %d", code)
		require.Equal(t, want == "", a.Err == nil, "status %d: %v", code, a.Err)
		require.Equal(t, before+1, h.requests(), "status %d", code)
	}
	require.Equal(t, delivery.ReasonConfig, post(Config{URLFile: "/nowhere"}).Reason)
	bad := here
	bad.HTTP.TLSConfig.CAFile = "/nowhere"
	require.Equal(t, delivery.ReasonConfig, post(bad).Reason)
	h.Close()
	require.Equal(t, delivery.ReasonConnection, post(here).Reason)

	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	require.Equal(t, delivery.ReasonTimeout, post(Config{URL: commonconfig.Secret(slow.URL), Timeout: 50 * time.Millisecond}).Reason)
	close(hang)
	slow.Close()
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no")
}

// Requests to a server that fails are repeated until it accepts the alert.
func TestOutage(t *testing.T) {
	h := newHook(t)
	h.set(http.StatusServiceUnavailable)
	sink, stop := run(t, Config{URL: commonconfig.Secret(h.URL)})
	sink.Notify([]episodes.Episode{episode})
	eventually(t, "tried", func() bool { return h.requests() > 1 })
	require.Equal(t, 1, sink.Status()[0].Pending)
	h.set(http.StatusOK)
	eventually(t, "delivered", func() bool { return sink.Status()[0].Sent == 1 })
	stop()
	r := newReceiver(config.withDefaults())
	r.http.Transport = failing{}
	require.Equal(t, delivery.ReasonConnection, r.Deliver(context.Background(), []Alert{{}}).Reason)
}
