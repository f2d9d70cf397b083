package browser

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sinks/alertmanager"
	"crowsnest/web"
)

// hostile is log text that a browser must neither execute nor let break out of its place.
const hostile = "\x1b[31mE0101\x1b[0m <script>alert(1)</script><img src=x onerror=alert(2)> \u202eevil '\"{{.}}</textarea>"

// scene is what the pages show: a made-up daemon.
type scene struct {
	alerts, streams int
	// changes is added to the number of lines of the first alert.
	changes atomic.Int64
	// extra is how many further alerts are open.
	extra        atomic.Int64
	calm         bool   // no alert, no problem
	alertmanager string // address of its pages, and of its API
	silence      bool   // the pages make silences
	now          atomic.Pointer[func() time.Time]
	began        time.Time
	set          *rules.Set
	history      []*history.Entry

	mu   sync.Mutex
	made []episodes.Episode // what episode returns after the beginning
}

// serve starts a server of the scene and returns its address.
func (s *scene) serve(t *testing.T) string {
	t.Helper()
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	s.set, s.began = set, time.Now()
	s.history = s.ended()
	clock := func() time.Time { return s.began }
	s.now.Store(&clock)
	server := web.New(s.view(), web.Options{
		Registry: prometheus.NewRegistry(), Now: func() time.Time { return (*s.now.Load())() },
		Case: func(fp string, get func(string) ([]byte, error)) ([]byte, error) {
			_, err := get("episodes/" + fp + "/timeline")
			return []byte("<!doctype html><title>case</title>" + fp), err
		},
		Silence: s.makeSilence,
		RunTests: func(all []*rules.Rule) ([]web.TestOutcome, error) {
			report, err := replay.RunTests(all, replay.TestOptions{})
			var out []web.TestOutcome
			for _, r := range report.Results {
				out = append(out, web.TestOutcome{Rule: r.Rule, Test: r.Test, Failures: r.Failures})
			}
			return out, err
		},
	})
	for m := 60; m > 0; m-- { // an hour of samples
		at := s.began.Add(-time.Duration(m) * time.Minute)
		clock := func() time.Time { return at }
		s.now.Store(&clock)
		server.Sample()
	}
	live := time.Now
	s.now.Store(&live)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, l, nil) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return "http://" + l.Addr().String()
}

// past is how many minutes before the beginning the clock of the scene is; 0 later.
func (s *scene) past() int64 {
	return max(0, int64(s.began.Sub((*s.now.Load())()).Minutes()))
}

func (s *scene) view() web.View {
	return web.View{
		Episodes: s.episodes,
		Stats:    s.stats,
		Rules: func() web.Rules {
			seen := map[string]time.Time{}
			for i, r := range s.set.Rules {
				if i%7 != 0 {
					seen[r.Alert] = s.began.Add(-time.Minute)
				}
			}
			cost, tries := map[string]time.Duration{}, map[string]int64{}
			for i, r := range s.set.Rules {
				tries[r.Alert] = s.grown(i%9, i) * 17
				cost[r.Alert] = time.Duration(tries[r.Alert]) * 3 * time.Microsecond
			}
			return web.Rules{Set: s.set, LastLines: seen, Cost: cost, Evaluations: tries}
		},
		Sources:    s.sources,
		Endpoints:  s.endpoints,
		Deliveries: s.deliveries,
		Timeline:   s.timeline,
		Status: func() web.Status {
			return web.Status{
				Start: s.began.Add(-26 * time.Hour), Config: "global:\n  external_url: https://crowsnest.example.org\nsources:\n  kubelet: {}\n",
				Flags: map[string]string{"config.file": "/etc/crowsnest/crowsnest.yml", "web.listen-address": ":9797"}, Storage: "/var/lib/crowsnest",
				Reload: web.Reload{OK: true, Time: s.began, Success: s.began.Add(-time.Hour)}, SavedAt: s.began,
			}
		},
		External: func() []map[string]string { return []map[string]string{{"cluster": "prod-eu"}} },
		Unknown:  s.unknown,
		UnknownRule: func(string) (string, error) {
			return "pack: {name: x}\n", nil
		},
		History: func() []*history.Entry { return s.history },
		PastEpisodes: func(fp episodes.Fingerprint) (out []*history.Entry) {
			for _, x := range s.history {
				if x.Fingerprint == uint64(fp) {
					out = append(out, x)
				}
			}
			return out
		},
		Suppression: func(fp episodes.Fingerprint) *history.Suppression {
			for _, e := range s.episodes() {
				if e.Fingerprint == fp && e.Labels["namespace"] == "ci" {
					return &history.Suppression{Silence: "1", StartsAt: s.began, EndsAt: s.began.Add(time.Hour), Author: hostile, Comment: hostile}
				}
			}
			return nil
		},
		SuppressionProblem: func() string { return "" },
		Links: func() web.Links {
			return web.Links{Logs: "https://grafana.example.org/explore?panes={selector_json}&from={from}&to={to}", Alertmanager: cmp.Or(s.alertmanager, "http://alertmanager.example.org:9093"), Silences: s.silence}
		},
	}
}

// makeSilence makes a silence at the Alertmanager of the scene.
func (s *scene) makeSilence(ctx context.Context, x web.Silence) []web.Silenced {
	sink, err := alertmanager.New(alertmanager.Config{URLs: []string{s.alertmanager}}, alertmanager.Options{})
	if err != nil {
		return []web.Silenced{{Receiver: "alertmanager", Error: err.Error()}}
	}
	made := web.Silenced{Receiver: s.alertmanager}
	if _, made.ID, err = sink.Silence(ctx, alertmanager.Silence(x)); err != nil {
		made.Error = err.Error()
	}
	return []web.Silenced{made}
}

func (s *scene) stats() episodes.Stats {
	var out episodes.Stats
	for i, r := range s.set.Rules {
		st := episodes.RuleStatus{Rule: r}
		if i%5 == 0 {
			st.Matches, st.LastMatch = int64(i)*13+s.grown(i%4, i), s.began.Add(-time.Duration(i)*time.Minute)
		}
		out.Rules = append(out.Rules, st)
	}
	return out
}

var spaces = []string{"kube-system", "payments", "shop-frontend", "team-blue-staging", "ingress", "monitoring", "data-platform", "ci", "auth", "search"}

// ruleOf returns a rule for an alert of the scene. The first alert is critical, so that it is on the first page of many.
func (s *scene) ruleOf(i int) *rules.Rule {
	first := slices.IndexFunc(s.set.Rules, func(r *rules.Rule) bool { return r.Severity == rules.SeverityCritical })
	return s.set.Rules[(first+i*37)%len(s.set.Rules)]
}

func (s *scene) episodes() []episodes.Episode {
	out := []episodes.Episode{{
		Fingerprint: 1, Alert: "CrowsnestHeartbeat", State: episodes.StateFiring, StartsAt: s.began.Add(-26 * time.Hour), LastSeen: s.began,
		Labels: map[string]string{"alertname": "CrowsnestHeartbeat", "severity": "none"},
	}}
	if s.calm {
		return out
	}
	out = append(out, episodes.Episode{
		Fingerprint: 2, Alert: "CrowsnestSourceMissing", State: episodes.StateFiring, StartsAt: s.began.Add(-time.Hour), LastSeen: s.began,
		Labels: map[string]string{"alertname": "CrowsnestSourceMissing", "severity": "warning"}, Annotations: map[string]string{"summary": "Open failures of 3 rules wait for lines that no source reads"},
	})
	n := s.alerts + int(s.extra.Load())
	if s.past() > 0 {
		for i := range n {
			out = append(out, s.episode(i))
		}
		return out
	}
	// The engine has its episodes at hand: making up thousands takes longer than a page.
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.made); i < n; i++ {
		s.made = append(s.made, s.episode(i))
	}
	if n > 0 {
		s.made[0] = s.episode(0) // it changes
	}
	return append(out, s.made[:n]...)
}

func (s *scene) episode(i int) episodes.Episode {
	r := s.ruleOf(i)
	now := s.began
	e := episodes.Episode{
		Fingerprint: episodes.Fingerprint(0x0abc000000000000 + i), Rule: r, Alert: r.Alert, State: episodes.StateFiring,
		StartsAt: now.Add(-time.Duration(3+i%200) * time.Minute), LastSeen: now.Add(-time.Duration(i%50) * time.Second),
		Count: int64(i%7*31 + 1), Line: redact.Text("E1126 05:41:07.123456       1 controller.go:329] \"Reconciler error\" err=\"context deadline exceeded\" controller=\"machine\" namespace=\"" + spaces[i%len(spaces)] + "\""),
		Labels: map[string]string{
			"alertname": r.Alert, "severity": string(r.Severity), "cluster": "prod-eu", "namespace": spaces[i%len(spaces)],
			"pod": fmt.Sprintf("controller-%05d-x%dv", i*7919%99999, i%10),
		},
		Annotations: map[string]string{},
	}
	e.FiredAt = e.StartsAt.Add(2 * time.Minute)
	data := rules.TemplateData{Labels: map[string]string{"container": "manager"}, Vars: map[string]string{}, Value: e.Count, Line: string(e.Line)}
	for _, name := range append(slices.Clone(r.By), r.CapturedNames...) {
		data.Labels[name], data.Vars[name] = valueOf(name, i), valueOf(name, i)
	}
	for _, name := range r.By {
		if e.Labels[name] == "" && len(e.Labels) < 7 {
			e.Labels[name] = valueOf(name, i)
		}
	}
	maps.Copy(data.Labels, e.Labels)
	for _, a := range r.Annotations {
		e.Annotations[a.Name], _ = a.Template.Execute(data)
	}
	e.Annotations["remediation"], _ = r.Remediation.Text(data, func(v string) string { return v })
	if len(r.Remediation.Affects) > 0 {
		e.Annotations["affected"] = "unknown: Affected are versions below 1.2.3; the running version is not known"
	}
	e.FirstLine = e.Line
	switch i % 11 {
	case 3:
		e.State, e.FiredAt, e.Deadline = episodes.StatePending, time.Time{}, now.Add(57*time.Minute)
		e.StartsAt = now.Add(-3 * time.Minute)
	case 5:
		e.OnHold, e.WaitsFor = true, []string{"kubelet"}
		e.AwaitedParts = []episodes.AwaitedPart{{Part: "clear", Selector: `{component="events"}`}, {Part: "match", Selector: "{}", Sources: e.WaitsFor}}[i/11%2:]
	case 7:
		e.State, e.EndsAt, e.Reason, e.ConcludedAt = episodes.StateResolved, now.Add(-time.Duration(i%14)*time.Minute), episodes.ReasonClear, now
		if i/11%3 == 2 {
			e.Reason = episodes.ReasonDisplaced
		}
	}
	if i == 0 {
		e.Line, e.Count = hostile, e.Count+s.changes.Load()
	}
	if i%11 == 1 && i > 0 {
		cause := s.ruleOf(i - 1)
		e.Cause = &episodes.Cause{Fingerprint: episodes.Fingerprint(0x0abc000000000000 + i - 1), Alert: cause.Alert, Severity: string(cause.Severity), StartsAt: now.Add(-time.Hour)}
	}
	if begun := now.Sub(e.StartsAt).Minutes(); s.past() < int64(begun) {
		e.Count += max(0, s.grown(1+i%5, i)-s.grownAt(1+i%5, i, max(0, 60-int64(begun))))
	}
	return e
}

// grown is how many lines something wrote in the last hour up to the time of the scene, which
// come in bursts.
func (s *scene) grown(perMinute, i int) int64 { return s.grownAt(perMinute, i, 60-s.past()) }

func (s *scene) grownAt(perMinute, i int, minutes int64) (sum int64) {
	for m := range minutes {
		x := (m*m*int64(7+i%5) + int64(i)*31) % 23
		if x > 11 {
			sum += (x - 11) * int64(perMinute) / 4
		}
	}
	return sum
}

// ended makes up a history of 30 days.
func (s *scene) ended() []*history.Entry {
	if s.calm {
		return nil
	}
	var out []*history.Entry
	for i := range min(s.alerts*3, 900) {
		r := s.ruleOf(i % 23)
		starts := s.began.Add(-time.Duration(1+i*i%97+i*7) * 25 * time.Minute)
		x := &history.Entry{
			Fingerprint: uint64(0x0def000000000000 + i%40), Alert: r.Alert, Pack: r.Pack, Reason: string(episodes.ReasonClear), Summary: "What happened: " + r.Alert,
			Labels:   map[string]string{"alertname": r.Alert, "severity": string(r.Severity), "namespace": spaces[i%len(spaces)], "pod": fmt.Sprintf("controller-%05d", i%40)},
			StartsAt: starts, FiredAt: starts.Add(time.Minute), EndsAt: starts.Add(time.Duration(3+i%90) * time.Minute), Lines: int64(i%50*7 + 1), Notified: 2 + i%3, Flaps: i % 5 / 4,
		}
		if i%6 == 0 {
			x.Reason = string(episodes.ReasonQuiet)
		}
		if x.EndsAt.Before(s.began) {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, history.NewestFirst)
	return out
}

// valueOf makes up a value for a label or a capture.
func valueOf(name string, i int) string {
	known := map[string]string{
		"server": "10.0.0.%d:6443", "node": "node-%d", "reason": "NotReady", "kind": "Machine", "object": "web-%d", "name": "web-%d", "error": "context deadline exceeded",
		"image": "registry.example.org/app:1.%d.0", "url": "https://10.0.0.%d/healthz", "webhook": "validate.example.org", "namespace": spaces[i%len(spaces)],
	}
	form, ok := known[name]
	if !ok {
		form = strings.ReplaceAll(name, "_", "-") + "-%d"
	}
	if strings.Contains(form, "%d") {
		return fmt.Sprintf(form, i%250)
	}
	return form
}

func (s *scene) timeline(fp episodes.Fingerprint) (episodes.Timeline, bool) {
	i := int(fp - 0x0abc000000000000)
	if fp < 0x0abc000000000000 || i >= s.alerts {
		return episodes.Timeline{}, false
	}
	e := s.episode(i)
	tl := episodes.Timeline{Episode: e, Skipped: 2, Events: []episodes.Event{
		{Time: e.StartsAt.Add(-30 * time.Second), Kind: episodes.EventCounted, N: 1, Total: 3},
		{Time: e.StartsAt, Kind: episodes.EventOpened, Line: e.Line, Log: "pod controller"},
	}}
	if !e.FiredAt.IsZero() {
		tl.Events = append(tl.Events, episodes.Event{Time: e.FiredAt, Kind: episodes.EventFired})
	}
	if e.OnHold {
		tl.Events = append(tl.Events, episodes.Event{Time: s.began.Add(-2 * time.Minute), Kind: episodes.EventOnHold, Sources: []string{"kubelet"}})
	}
	if !e.EndsAt.IsZero() {
		tl.Events = append(tl.Events, episodes.Event{Time: e.EndsAt, Kind: episodes.EventEnded, Reason: e.Reason})
	}
	return tl, true
}

func (s *scene) deliveries(fp episodes.Fingerprint) []web.Delivery {
	i := int(fp - 0x0abc000000000000)
	if fp < 0x0abc000000000000 || i%11 == 3 {
		return nil
	}
	e := s.episode(i)
	out := []web.Delivery{{Sink: "alertmanager", Endpoint: "http://am-0:9093", Time: e.FiredAt.Add(time.Second), Last: s.began, Times: 12, Code: 200}}
	if i%13 == 0 {
		out = append(out, web.Delivery{Sink: "alertmanager", Endpoint: "http://am-1:9093", Time: s.began.Add(-4 * time.Minute), Last: s.began, Times: 9, Error: "connection refused"})
	}
	return out
}

func (s *scene) endpoints() []web.Endpoint {
	return []web.Endpoint{
		{Sink: "alertmanager", Endpoint: "http://am-0:9093", Up: true, Sent: 12345},
		{Sink: "alertmanager", Endpoint: "http://am-1:9093", Up: s.calm, Sent: 11000, Pending: 7, Error: map[bool]string{false: "dial tcp 10.0.0.7:9093: connection refused"}[s.calm]},
	}
}

func (s *scene) sources() []web.Source {
	k := web.Source{
		Name: "kubelet", Up: true, Opened: true, Watermark: time.Now().Add(-2 * time.Second), Lag: 340 * time.Millisecond,
		Lines: s.grown(9, 3) * 9_234, Bytes: 7 << 30, Lost: map[string]int64{"rotated": 4096}, Errors: map[string]int64{"open": 3},
	}
	for i := range s.streams {
		k.Streams = append(k.Streams, web.Stream{
			Labels: map[string]string{"namespace": spaces[i%len(spaces)], "pod": fmt.Sprintf("app-%d-7d9f8b6c5d-%05d", i%40, i), "container": "manager", "node": "node-" + fmt.Sprint(i%5)},
			Path:   fmt.Sprintf("/var/log/pods/%s_app-%d_uid/manager/0.log", spaces[i%len(spaces)], i), Offset: int64(i) * 4096, Size: int64(i)*4096 + int64(i%9/8)*123456,
			Lines: s.grown(i%9, i/40) * 9, LastRead: time.Now().Add(-time.Second),
		})
	}
	e := web.Source{Name: "events", Up: s.calm, Opened: true, Watermark: time.Now().Add(-6 * time.Minute), Lines: 4123, Error: map[bool]string{false: "watch events: the API server refused: 403"}[s.calm]}
	if !s.calm {
		e.AwaySince = s.began.Add(-6 * time.Minute)
	}
	return []web.Source{k, e}
}

func (s *scene) unknown() web.Unknown {
	u := web.Unknown{Enabled: true, PerDay: 10, Patterns: 412, Components: 31, Failures: []web.UnknownFailure{}}
	if !s.calm {
		u.Failures = append(u.Failures, web.UnknownFailure{
			Fingerprint: "00000000deadbeef", State: "alert", Reason: "new", Component: "payments/ledger", Labels: map[string]string{"namespace": "payments"},
			Pattern: "failed to post entry <*>: " + hostile, Level: "error", Since: s.began.Add(-time.Hour), Last: s.began, Count: 321,
			Pods: []string{"ledger-0", "ledger-1"}, Changes: []string{"image ledger:1.4.0 to ledger:1.5.0, 3 minutes before"}, Examples: []redact.Text{hostile}, Ignore: "{component: ledger}",
		})
	}
	return u
}
