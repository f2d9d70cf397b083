package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/sources/files"
	"crowsnest/sources/journal"
	"crowsnest/sources/kubelet"
	"crowsnest/sources/kubernetes"
	"crowsnest/sources/loki"
	"crowsnest/sources/objects"
	"crowsnest/sources/stdin"
	"crowsnest/test/fakekube"
	"crowsnest/test/fakeloki"
	"crowsnest/test/rulefolder"
)

// lines collects a log. Safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) contains(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// idleCase is one way to see nothing.
type idleCase struct {
	name, source, reason string
	prepare              func(t *testing.T, s *ship) func(*config.Config)
}

func only(settings any) func(*config.Config) {
	return func(c *config.Config) {
		c.Sources.All = nil
		c.Sources.Add(settings)
	}
}

func lokiOf(t *testing.T, tenants ...string) *loki.Config {
	fake := fakeloki.New()
	fake.Push(fakeloki.Entry{Tenant: "prod", Labels: map[string]string{"container": "syncer", "namespace": "a"}, Time: time.Now(), Line: "well"})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	cfg := &loki.Config{}
	cfg.URL, cfg.Selector, cfg.Tenants = server.URL, `{container=~".+"}`, tenants
	return cfg
}

func idleCases() []idleCase {
	return []idleCase{
		{"include with a typo", "kubelet", "no_logs", func(_ *testing.T, s *ship) func(*config.Config) {
			s.log("a", "line")
			return only(&kubelet.Config{Dir: s.dir + "/pods", Include: []string{"taem-*"}})
		}},
		{"everything excluded", "kubelet", "no_logs", func(_ *testing.T, s *ship) func(*config.Config) {
			s.log("a", "line")
			return only(&kubelet.Config{Dir: s.dir + "/pods", Exclude: []string{"*"}})
		}},
		{"wrong folder", "kubelet", "no_logs", func(_ *testing.T, s *ship) func(*config.Config) {
			s.log("a", "line")
			return only(&kubelet.Config{Dir: s.dir})
		}},
		{"all logs are links", "kubelet", "unreadable", func(t *testing.T, s *ship) func(*config.Config) {
			for _, pod := range []string{"a", "b"} {
				s.log(pod, "line")
				log := filepath.Join(s.dir, "pods", "team-a_"+pod+"_1b2c", "syncer", "0.log")
				require.NoError(t, os.Rename(log, s.dir+"/"+pod+"-json.log"))
				require.NoError(t, os.Symlink(s.dir+"/"+pod+"-json.log", log))
			}
			return only(&kubelet.Config{Dir: s.dir + "/pods"})
		}},
		{"logs without a line", "kubelet", "no_lines", func(t *testing.T, s *ship) func(*config.Config) {
			dir := filepath.Join(s.dir, "pods", "team-a_a_1b2c", "syncer")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(dir+"/0.log", nil, 0o644))
			return only(&kubelet.Config{Dir: s.dir + "/pods"})
		}},
		{"no file matches", "files", "no_logs", func(_ *testing.T, s *ship) func(*config.Config) {
			return only(&files.Config{Paths: []files.Path{{Path: s.dir + "/*.lgo", Labels: map[string]string{"container": "syncer"}}}})
		}},
		{"a pipe without a line", "stdin", "no_lines", func(t *testing.T, s *ship) func(*config.Config) {
			r, w := io.Pipe()
			t.Cleanup(func() { w.Close() })
			s.stdin = r
			return only(&stdin.Config{Labels: map[string]string{"container": "syncer"}})
		}},
		{"a tenant of Loki that does not exist", "loki", "no_logs", func(t *testing.T, _ *ship) func(*config.Config) {
			return only(lokiOf(t, "prdo"))
		}},
		{"a selector of Loki that selects nothing", "loki", "no_logs", func(t *testing.T, _ *ship) func(*config.Config) {
			c := lokiOf(t, "prod")
			c.Selector = `{namespace="b"}`
			return only(c)
		}},
		{"a namespace without pods", "kubernetes", "no_logs", func(*testing.T, *ship) func(*config.Config) {
			return only(&kubernetes.Config{Namespaces: []string{"taem-a"}, Transport: fakekube.New()})
		}},
		{"a kind without objects", "objects", "no_logs", func(*testing.T, *ship) func(*config.Config) {
			api := fakekube.New()
			api.Break(func(r *http.Request) *http.Response {
				if r.URL.Path != "/api/v1" {
					return nil
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"resources":[{"name":"nodes","kind":"Node"}]}`))}
			})
			return only(&objects.Config{Kinds: []string{"nodes"}, Transport: api})
		}},
		{"a namespace without Events", "events", "no_lines", func(_ *testing.T, s *ship) func(*config.Config) {
			s.rules.Write("a.yaml", strings.Replace(strings.Replace(rulefolder.Pack("a", "A", "text of a"),
				`{container="syncer"}`, `{component="events"}`, 1), "container: syncer", "component: events", 1))
			return only(&objects.EventsConfig{Namespaces: []string{"taem-a"}, Transport: fakekube.New()})
		}},
		{"an empty folder of the journal", "journal", "not_installed", func(_ *testing.T, s *ship) func(*config.Config) {
			s.rules.Write("a.yaml", strings.Replace(strings.Replace(rulefolder.Pack("a", "A", "text of a"),
				`{container="syncer"}`, `{unit="a.service"}`, 1), "container: syncer", "unit: a.service", 1))
			return only(&journal.Config{Dirs: []string{s.dir}})
		}},
		{"a label that no stream has", "kubelet", "no_rules", func(_ *testing.T, s *ship) func(*config.Config) {
			s.log("a", "text of a")
			s.rules.Write("a.yaml", strings.ReplaceAll(rulefolder.Pack("a", "A", "text of a"), "syncer", "sincer"))
			return func(*config.Config) {}
		}},
		{"a namespace list without the namespace", "kubelet", "no_rules", func(_ *testing.T, s *ship) func(*config.Config) {
			s.log("a", "text of a")
			s.rules.Write("a.yaml", strings.ReplaceAll(strings.Replace(rulefolder.Pack("a", "A", "text of a"),
				"  severity:", "  origin: infrastructure\n  severity:", 1), "namespace: a,", "namespace: kube-system,"))
			return func(*config.Config) {}
		}},
		{"scope node and a rule about the cluster", "kubelet", "no_rules", func(_ *testing.T, s *ship) func(*config.Config) {
			s.log("a", "text of a")
			return func(c *config.Config) { c.Rules.Scope = rules.ScopeNode }
		}},
		{"every rule disabled", "kubelet", "no_rules", func(_ *testing.T, s *ship) func(*config.Config) {
			s.log("a", "text of a")
			overrides := s.dir + "/overrides.yaml"
			require.NoError(s.t, os.WriteFile(overrides, []byte("overrides:\n- rule: A\n  disable: nobody needs it\n"), 0o644))
			return func(c *config.Config) { c.Rules.Overrides = append(c.Rules.Overrides, overrides) }
		}},
	}
}

// Whoever sees nothing says so: the coverage is never full, the heartbeat is absent, and
// everything that shows the state of the process names the source and the reason.
func TestSeesNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("cases", func(t *testing.T) {
		for _, c := range idleCases() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s, logged := oneOfShips(t), &lines{}
				s.logged = logged
				change := c.prepare(t, s)
				s.cfg = func(cfg *config.Config) {
					cfg.Global.BlindAfter = time.Second
					change(cfg)
				}
				s.start()
				requireIdle(t, s, logged, c)
			})
		}
	})
}

// A source without the right to read is blind, and its alert names the right.
func TestMayNotRead(t *testing.T) {
	defer goleak.VerifyNone(t)
	refuses := func() *fakekube.Server {
		api := fakekube.New()
		api.Break(func(*http.Request) *http.Response { return fakekube.Answer(http.StatusForbidden, "forbidden") })
		return api
	}
	t.Run("cases", func(t *testing.T) {
		for source, settings := range map[string]any{
			"events":     &objects.EventsConfig{Transport: refuses()},
			"objects":    &objects.Config{Kinds: []string{"nodes"}, Transport: refuses()},
			"kubernetes": &kubernetes.Config{Transport: refuses()},
		} {
			t.Run(source, func(t *testing.T) {
				t.Parallel()
				s := oneOfShips(t)
				s.cfg = func(c *config.Config) {
					c.Global.BlindAfter = time.Second
					only(settings)(c)
				}
				s.start()
				s.eventually(func() bool {
					said := ""
					require.NotContains(t, coverageOf(t, s), "full")
					s.am.mu.Lock()
					defer s.am.mu.Unlock()
					for _, p := range s.am.posts {
						require.NotEqual(t, "CrowsnestHeartbeat", p.Labels["alertname"])
						if p.Labels["alertname"] == "CrowsnestBlind" && p.Labels["source"] == source {
							said = p.Annotations["description"]
						}
					}
					return strings.Contains(said, "not allowed")
				}, "it is blind, and says what to grant")
				require.Contains(t, coverageOf(t, s), "not seen: "+source)
			})
		}
	})
}

func requireIdle(t *testing.T, s *ship, logged *lines, c idleCase) {
	t.Helper()
	labels := map[string]string{}
	s.eventually(func() bool {
		require.NotContains(t, coverageOf(t, s), "full")
		s.am.mu.Lock()
		defer s.am.mu.Unlock()
		for _, p := range s.am.posts {
			require.NotEqual(t, "CrowsnestHeartbeat", p.Labels["alertname"], p.Annotations["coverage"])
			if p.Labels["alertname"] == "CrowsnestIdle" {
				maps.Copy(labels, p.Labels)
				require.NotEmpty(t, p.Annotations["remediation"])
			}
		}
		return len(labels) > 0
	}, "the alert arrives")
	require.Equal(t, map[string]string{
		"alertname": "CrowsnestIdle", "severity": "critical", "source": c.source, "reason": c.reason, "cluster": "lab",
	}, labels)
	require.Contains(t, coverageOf(t, s), "idle: "+c.source)
	code, ready := s.get("/-/ready")
	require.Equal(t, http.StatusOK, code, "a restart would not help")
	require.Contains(t, ready, "source "+c.source+" is idle: ")
	_, metrics := s.get("/metrics")
	require.Contains(t, metrics, fmt.Sprintf(`crowsnest_source_idle{source=%q} 1`, c.source))
	_, api := s.get("/api/v1/sources")
	require.Contains(t, api, `"idleReason":"`+c.reason+`"`)
	_, page := s.get("/sources")
	require.Contains(t, page, "Idle: ")
	_, page = s.get("/status")
	require.Contains(t, page, "idle: "+c.source)
	require.True(t, logged.contains("source is idle"))
}

func coverageOf(t *testing.T, s *ship) string {
	t.Helper()
	var got struct{ Data struct{ Coverage string } }
	_, body := s.get("/api/v1/status/runtimeinfo")
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	return got.Data.Coverage
}

// One line that a rule may match ends it, and the heartbeat begins.
func TestIdleEnds(t *testing.T) {
	s := newShip(t)
	s.cfg = func(c *config.Config) { c.Global.BlindAfter = time.Second }
	s.start()
	s.eventually(func() bool { return len(s.am.firing("CrowsnestIdle")) == 1 }, "idle")
	s.log("a", "a line")
	s.eventually(func() bool { return s.am.resolved("CrowsnestIdle") }, "not idle")
	s.eventually(func() bool { return len(s.am.firing("CrowsnestHeartbeat")) == 1 }, "it reads")
	require.Equal(t, "full: kubelet", coverageOf(t, s))
}

// Streams of Loki that exist are read, although no rule matches one of their lines.
func TestQuietLokiIsNotIdle(t *testing.T) {
	s := newShip(t)
	s.cfg = func(c *config.Config) {
		c.Global.BlindAfter = 10 * time.Second // longer than Loki's round takes on a busy machine
		only(lokiOf(t, "prod"))(c)
	}
	s.start()
	s.eventually(func() bool { return len(s.am.firing("CrowsnestHeartbeat")) == 1 }, "it reads")
	require.Equal(t, "full: loki", coverageOf(t, s))
	require.Empty(t, s.am.firing("CrowsnestIdle"))
}

// A node without a log that a rule selects is normal while another node has one. If no node
// has one, somebody is paged, by the aggregator alone.
func TestEmptyNodes(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	aggregator, address := newAggregator(t)
	change := aggregator.cfg
	soon := func(c *config.Config) { c.Global.BlindAfter = time.Second }
	aggregator.cfg = func(c *config.Config) { change(c); soon(c) }
	aggregator.start()
	var nodes []*ship
	for _, name := range []string{"n1", "n2"} {
		n := newAgentOf(t, address.String(), name)
		of := n.cfg
		n.cfg = func(c *config.Config) { of(c); soon(c) }
		n.start()
		nodes = append(nodes, n)
	}
	aggregator.eventually(func() bool { return len(aggregator.am.firing("CrowsnestIdle")) > 0 }, "both nodes are empty")
	require.NotContains(t, coverageOf(t, aggregator), "full")
	nodes[0].log("a", "a line")
	aggregator.eventually(func() bool { return coverageOf(t, aggregator) == "full: agents (2 of 2 nodes, 1 of them idle)" }, "one is enough")
	aggregator.eventually(func() bool {
		_, body := aggregator.get("/api/v1/alerts")
		return !strings.Contains(body, "CrowsnestIdle")
	}, "nothing is wrong with an empty node")
	_, page := aggregator.get("/sources")
	require.Contains(t, page, "has no log of a pod", "the page shows why the node is idle")
}

// An address that answers everything with a page has accepted nothing, until Alertmanager
// answers there.
func TestAPageIsNoReceiver(t *testing.T) {
	s := newShip(t)
	var page atomic.Bool
	page.Store(true)
	accepts := s.am.server.Config.Handler
	s.am.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page.Load() {
			_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title>")
			return
		}
		accepts.ServeHTTP(w, r)
	})
	s.start()
	s.log("a", "text of a")
	s.eventually(func() bool {
		_, body := s.get("/api/v1/sources")
		return strings.Contains(body, "the response does not come from Alertmanager")
	}, "the page names the cause")
	_, metrics := s.get("/metrics")
	require.Contains(t, metrics, `crowsnest_notification_endpoint_up{`)
	require.NotRegexp(t, `crowsnest_notification_endpoint_up\{.*\} 1`, metrics)
	require.Regexp(t, `crowsnest_notifications_failed_total\{.*reason="foreign".*\} [1-9]`, metrics)
	page.Store(false)
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "it was not delivered, and is repeated")
}
