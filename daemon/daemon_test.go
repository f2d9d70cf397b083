package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/test/rulefolder"

	"go.uber.org/goleak"

	"crowsnest/episodes"
	"crowsnest/sinks/alertmanager"
	"crowsnest/sources/kubelet"
	"crowsnest/test/setclock"
	"crowsnest/web"
)

const (
	patience = 30 * time.Second
	often    = 20 * time.Millisecond
)

// receiver is an Alertmanager that accepts and remembers everything.
type receiver struct {
	server *httptest.Server
	mu     sync.Mutex
	posts  []posted
	hang   chan struct{} // if not nil, answers wait for it
}

type posted struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		hang := r.hang
		r.mu.Unlock()
		if hang != nil {
			select {
			case <-hang:
			case <-req.Context().Done():
			}
			return
		}
		var in []posted
		body, err := io.ReadAll(req.Body)
		if err == nil && json.Unmarshal(body, &in) == nil {
			r.mu.Lock()
			r.posts = append(r.posts, in...)
			r.mu.Unlock()
		}
	}))
	t.Cleanup(r.server.Close)
	return r
}

// firing returns the start times with which an alert was notified as firing.
func (r *receiver) firing(alert string) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []time.Time
	for _, p := range r.posts {
		if p.Labels["alertname"] == alert && p.EndsAt.After(time.Now()) && !slices.Contains(out, p.StartsAt) {
			out = append(out, p.StartsAt)
		}
	}
	return out
}

func (r *receiver) resolved(alert string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.posts, func(p posted) bool {
		return p.Labels["alertname"] == alert && !p.EndsAt.After(time.Now())
	})
}

// ship is one daemon under test with its surroundings.
type ship struct {
	t     *testing.T
	dir   string
	am    *receiver
	rules rulefolder.Folder
	url   string
	cfg   func(*config.Config) // changes the configuration; nil: nothing
	d     *Daemon
	stop  func()
	clock setclock.Clock // clock of the daemon and of the lines
	// passes makes time pass when the clock is set, instead of the clock being wrong.
	passes bool
	stdin  io.Reader
	logged io.Writer // gets a copy of the log; nil: none
}

func newShip(t *testing.T) *ship {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	return oneOfShips(t)
}

// oneOfShips is newShip for a test with several, which checks for leaked goroutines itself.
func oneOfShips(t *testing.T) *ship {
	s := &ship{t: t, dir: t.TempDir(), am: newReceiver(t), rules: rulefolder.New(t)}
	s.rules.Write("a.yaml", strings.Replace(rulefolder.Pack("a", "A", "text of a"), "severity:", "clear: recovered\n  severity:", 1))
	require.NoError(t, os.MkdirAll(s.dir+"/pods", 0o755))
	return s
}

// start runs the daemon and returns when it is ready.
func (s *ship) start() {
	t := s.t
	t.Helper()
	none := time.Duration(0)
	cfg := config.Default()
	cfg.Global.ExternalLabels = map[string]string{"cluster": "lab"}
	cfg.Rules = config.RulesConfig{Paths: []string{s.rules.Dir}}
	cfg.Storage.Path = s.dir + "/state"
	cfg.Sources.Add(&kubelet.Config{Dir: s.dir + "/pods"})
	cfg.Sinks.Add(&alertmanager.Config{URLs: []string{s.am.server.URL}, MinFiring: &none})
	if s.cfg != nil {
		s.cfg(cfg)
	}
	now := s.clock.Now
	if s.passes {
		now = func() time.Time { return s.clock.Now().Round(0) }
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	log := io.Writer(zerolog.NewTestWriter(t))
	if s.logged != nil {
		log = io.MultiWriter(log, s.logged)
	}
	s.d, err = New(Options{
		Cfg: cfg, Log: zerolog.New(log), Listener: l, Web: WebOptions{Lifecycle: true}, Stdin: s.stdin,
		Getenv: func(string) string { return "" }, now: now,
	})
	require.NoError(t, err)
	s.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.d.Run(ctx) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-done)
		})
	}
	t.Cleanup(s.stop)
	s.eventually(func() bool { code, _ := s.get("/-/ready"); return code == http.StatusOK }, "ready")
}

func (s *ship) eventually(ok func() bool, what string) {
	s.t.Helper()
	require.Eventually(s.t, ok, patience, often, what)
}

func (s *ship) get(path string) (int, string) {
	return s.do(http.MethodGet, path)
}

func (s *ship) do(method, path string) (int, string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(method, s.url+path, nil)
	require.NoError(s.t, err)
	res, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res.StatusCode, string(body)
}

// log appends a line to the log of a pod, of the namespace team-a if it names none.
func (s *ship) log(pod, text string) {
	s.t.Helper()
	namespace, name, named := strings.Cut(pod, "/")
	if !named {
		namespace, name = "team-a", pod
	}
	dir := filepath.Join(s.dir, "pods", namespace+"_"+name+"_1b2c", "syncer")
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	f, err := os.OpenFile(filepath.Join(dir, "0.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(s.t, err)
	_, err = fmt.Fprintf(f, "%s stderr F %s\n", s.clock.Now().UTC().Format(time.RFC3339Nano), text)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
}

// A line becomes an alert, its recovery resolves it, and neither a restart nor
// a line that is read again makes another one.
func TestDaemonLineToAlert(t *testing.T) {
	s := newShip(t)
	s.start()
	s.log("vc-0", "text of a, password=hunter2")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
	s.eventually(func() bool { return len(s.am.firing("CrowsnestHeartbeat")) == 1 }, "so does the heartbeat")
	s.am.mu.Lock()
	text, err := json.Marshal(s.am.posts)
	s.am.mu.Unlock()
	require.NoError(t, err)
	require.Contains(t, string(text), `"cluster":"lab"`)
	require.NotContains(t, string(text), "hunter2")
	for _, path := range []string{"/", "/rules", "/rules/A", "/sources", "/status", "/metrics", "/api/v1/alerts", "/api/v1/episodes", "/api/v1/rules", "/api/v1/status/config"} {
		code, body := s.get(path)
		require.Equal(t, http.StatusOK, code, path)
		require.NotContains(t, body, "hunter2", path)
	}
	_, body := s.get("/metrics")
	require.Contains(t, body, `crowsnest_rule_matches_total{pack="a",rule="A",severity="warning"} 1`)
	require.Contains(t, body, `crowsnest_source_lines_total{source="kubelet"} 1`)
	require.Contains(t, body, "crowsnest_detection_seconds_count 1")
	require.Contains(t, body, "crowsnest_build_info{")
	require.Contains(t, body, "crowsnest_config_last_reload_successful 1")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)

	s.stop()
	saved, err := os.ReadFile(s.dir + "/state/state")
	require.NoError(t, err)
	require.NotContains(t, string(saved), "hunter2", "no secret in the state")
	require.False(t, s.am.resolved("A"), "a stop resolves nothing")
	s.start()
	s.log("vc-0", "recovered")
	s.eventually(func() bool { return s.am.resolved("A") }, "the recovery arrives")
	require.Len(t, s.am.firing("A"), 1, "it was one episode")
	requireTimeline(t, s)
}

// requireTimeline checks the timeline of the episode of A: opened, read back, cleared by a
// line, and notified twice.
func requireTimeline(t *testing.T, s *ship) {
	t.Helper()
	var listed struct {
		Data struct{ Episodes []web.Episode }
	}
	_, body := s.get("/api/v1/episodes?filter=alertname%3DA")
	require.NoError(t, json.Unmarshal([]byte(body), &listed))
	require.Len(t, listed.Data.Episodes, 1)
	path := "/episodes/" + listed.Data.Episodes[0].Fingerprint
	var got struct{ Data web.Timeline }
	s.eventually(func() bool {
		_, body = s.get("/api/v1" + path + "/timeline")
		return strings.Contains(body, ": resolved, accepted (200)")
	}, "the end is accepted")
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.NotContains(t, body, "hunter2")
	kinds := map[string]string{}
	for _, ev := range got.Data.Events {
		kinds[ev.Kind] = ev.Text + "|" + string(ev.Line)
	}
	require.Equal(t, "the condition became true|text of a, password=<redacted>", kinds["opened"])
	require.Equal(t, "ended: a log line reports the recovery (log of namespace team-a, pod vc-0, container syncer)|recovered", kinds["ended"])
	require.Contains(t, kinds, "restored")
	code, page := s.get(path)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, "a log line reports the recovery")
}

// Lines that are written while the daemon is down are read after its start.
func TestDaemonReadsOnAfterRestart(t *testing.T) {
	s := newShip(t)
	s.start()
	s.log("vc-0", "all is well")
	s.eventually(func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(body, `source_lines_total{source="kubelet"} 1`)
	}, "read")
	s.stop()
	s.log("vc-0", "text of a")
	s.start()
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
}

func TestDaemonReload(t *testing.T) {
	s := newShip(t)
	s.start()
	// A manual reload returns the whole error.
	s.rules.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	code, body := s.do(http.MethodPost, "/-/reload")
	require.Equal(t, http.StatusOK, code, body)
	s.log("vc-0", "text of b")
	s.eventually(func() bool { return len(s.am.firing("B")) == 1 }, "the new rule works")
	s.rules.Write("b.yaml", "pack: {nme: b}\n")
	code, body = s.do(http.MethodPost, "/-/reload")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "did you mean `name`?")
	s.eventually(func() bool { return len(s.am.firing("CrowsnestPackBroken")) == 1 }, "it is notified")
	require.False(t, s.am.resolved("B"), "the last good version stays")

	// An automatic reload follows a change of files. A removed rule resolves its alerts.
	s.rules.Remove("b.yaml")
	s.eventually(func() bool { return s.am.resolved("B") && s.am.resolved("CrowsnestPackBroken") }, "the folder is watched")
}

// A stop does not wait for a peer that hangs.
func TestDaemonStopsWithHungPeer(t *testing.T) {
	s := newShip(t)
	s.am.hang = make(chan struct{})
	s.start()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { _, body := s.get("/api/v1/alerts"); return strings.Contains(body, `"A"`) }, "it fires")
	began := time.Now()
	s.stop()
	require.Less(t, time.Since(began), 5*time.Second+patience/10, "the promise is five seconds")
	close(s.am.hang)

	// The next run sends what this one could not.
	s.am.mu.Lock()
	s.am.hang = nil
	s.am.mu.Unlock()
	s.start()
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
}

// The daemon starts with any content of the state.
func TestDaemonStartsWithDamagedState(t *testing.T) {
	s := newShip(t)
	s.start()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
	s.stop()
	for _, name := range []string{"state", "state.prev"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "state", name), []byte("nonsense\x00"), 0o600))
	}
	s.start()
	s.eventually(func() bool { _, body := s.get("/api/v1/alerts"); return strings.Contains(body, `"A"`) }, "it is restored from the lines")
	require.Len(t, s.am.firing("A"), 1, "with the same start")
}

// The state cannot be written: detection continues, and the daemon reports the failure.
func TestDaemonWithoutStorage(t *testing.T) {
	s := newShip(t)
	require.NoError(t, os.WriteFile(s.dir+"/state", []byte("a file where a folder should be"), 0o600))
	s.start()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
	s.eventually(func() bool { _, body := s.get("/metrics"); return !strings.Contains(body, "state_save_errors_total 0") }, "it is counted")
}

// A pack that breaks before a start stays in force in its last good version.
func TestDaemonStartsWithLastGoodRules(t *testing.T) {
	s := newShip(t)
	s.start()
	s.stop()
	s.rules.Write("a.yaml", "half writ")
	s.start()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 && len(s.am.firing("CrowsnestPackBroken")) == 1 }, "the rule works, and the broken pack is notified")
}

// A restored alert is notified once: the open episode wins over one of the same alert
// that ended before it, and the last of several ends wins. A pending one is no alert: the
// last end before it is notified.
func TestNewestStates(t *testing.T) {
	ep := func(fp episodes.Fingerprint, s episodes.State, n int64) episodes.Episode {
		return episodes.Episode{Fingerprint: fp, State: s, Count: n}
	}
	got := newestStates([]episodes.Episode{
		ep(1, episodes.StateFiring, 1), ep(2, episodes.StatePending, 2),
		ep(1, episodes.StateResolved, 3), ep(3, episodes.StateResolved, 4), ep(3, episodes.StateResolved, 5),
		ep(2, episodes.StateResolved, 6), ep(2, episodes.StateResolved, 7),
	})
	require.Equal(t, []episodes.Episode{
		ep(2, episodes.StateResolved, 7),
		ep(1, episodes.StateFiring, 1), ep(2, episodes.StatePending, 2), ep(3, episodes.StateResolved, 5),
	}, got)
}

// A kill right after an end was notified, before that was saved: the alert is not
// notified as firing again.
func TestDaemonKilledAfterAnEnd(t *testing.T) {
	s := newShip(t)
	s.start()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
	s.stop()
	before, err := os.ReadFile(s.dir + "/state/state")
	require.NoError(t, err)
	s.start()
	s.log("vc-0", "recovered")
	s.eventually(func() bool { return s.am.resolved("A") }, "the end is notified")
	s.stop()
	require.NoError(t, os.WriteFile(s.dir+"/state/state", before, 0o600))
	s.am.mu.Lock()
	s.am.posts = nil
	s.am.mu.Unlock()
	s.start()
	s.eventually(func() bool { return s.am.resolved("A") }, "the end is read again, and notified")
	require.Empty(t, s.am.firing("A"))
}
