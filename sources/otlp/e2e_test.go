//go:build e2e

package otlp_test

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/otlp"
	"crowsnest/test/authority"
	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// number returns a number from the environment.
func number(t *testing.T, name string, def int) int {
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// The rule Lines counts all lines. A failure of the rule Lost begins and ends every few lines.
const e2ePack = `pack: {name: e2e, version: "1.0.0", rules: 2}
defaults: {severity: warning, origin: any}
rules:
- alert: Lines
  from: '{namespace="team-a", pod="app-0", container="app", cluster="lab", node_name="n1"}'
  match: {regex: 'line [0-9]+ of (?P<id>all)'}
  by: [id]
  keep_firing_for: 1h
  annotations: {lines: "{{ $value }}"}
- alert: Lost
  from: '{namespace="team-a", pod="app-0", container="app", cluster="lab", node_name="n1"}'
  match: {regex: 'lost id=(?P<id>[0-9]+);'}
  clear: {regex: 'taken id=(?P<id>[0-9]+);'}
  by: [id]
  limit: 10000
`

// scene is a pod whose log a real collector reads and sends to the real program.
type scene struct {
	t         *testing.T
	d         *daemon.Daemon
	am        *fakeam.AM
	pod       *kubesim.Container
	options   servers.CollectorOptions
	collector *servers.Server
	written   int
	ending    map[int]bool // failures whose end is written, by id
}

// newScene starts everything. The collector uses TLS if there is an authority.
func newScene(t *testing.T, ca *authority.Authority) *scene {
	dir := t.TempDir()
	files := map[string]string{"rules.yaml": e2ePack, "token": "secret", "web.yml": ""}
	scheme, caFile := "http://", ""
	if ca != nil {
		ca.Issue("tls", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		scheme, caFile = "https://", filepath.Join(ca.Dir, "ca.crt")
		files["web.yml"] = fmt.Sprintf("tls_server_config: {cert_file: %[1]s/tls.crt, key_file: %[1]s/tls.key}\n", ca.Dir)
	}
	s := &scene{t: t, am: fakeam.New(), ending: map[int]bool{}, d: &daemon.Daemon{Dir: dir, Binary: filepath.Join(dir, "crowsnest")}}
	require.NoError(t, daemon.Build(s.d.Binary))
	am := httptest.NewServer(s.am)
	t.Cleanup(am.Close)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var err error
	s.d.Addr, err = daemon.FreeAddr()
	require.NoError(t, err)
	listen, err := daemon.FreeAddr()
	require.NoError(t, err)
	require.NoError(t, s.d.Configure(fmt.Sprintf(`
global: {external_labels: {cluster: lab}, blind_after: 10s}
rules: {shipped: false, paths: [rules.yaml]}
sources: {otlp: {listen_address: %q, bearer_token_file: token, web_config_file: web.yml, lateness: 5s}}
sinks: {alertmanager: {urls: [%q], min_firing: 0s}}
limits: {fingerprints: 1000000} # every line matches, and a killed collector sends its unfinished batches again after all others
`, listen, am.URL)))
	pods := filepath.Join(dir, "pods")
	s.pod = kubesim.New(kubesim.Options{Root: pods, Namespace: "team-a", Pod: "app-0", Container: "app"})
	t.Cleanup(s.pod.Close)
	t.Cleanup(func() {
		_, _ = s.d.End(syscall.SIGKILL)
		if t.Failed() {
			t.Log(s.d.LogEnd())
		}
	})
	require.NoError(t, s.d.Start())
	require.NoError(t, s.d.Ready(t.Context(), time.Minute))
	s.options = servers.CollectorOptions{Pods: pods, Endpoint: scheme + listen, Node: "n1", Token: "secret", CA: caFile}
	s.collector = servers.Collector(t, s.options)
	return s
}

func (s *scene) write(what string, lines int) {
	for range lines {
		s.written++
		s.pod.Write("stdout", fmt.Sprintf("line %d of all%s", s.written, what))
	}
	require.NoError(s.t, s.pod.Err)
}

// notified returns the distinct starts of each failure of which Alertmanager was notified, and whether it ended.
func (s *scene) notified() (starts map[int]map[time.Time]bool, ended map[int]bool) {
	starts, ended = map[int]map[time.Time]bool{}, map[int]bool{}
	for _, a := range s.am.Accepted("Lost") {
		id, err := strconv.Atoi(a.Alert.Labels["id"])
		require.NoError(s.t, err)
		if starts[id] == nil {
			starts[id] = map[time.Time]bool{}
		}
		starts[id][a.Alert.StartsAt], ended[id] = true, a.Resolved
	}
	return starts, ended
}

// endNotified ends the failures of which Alertmanager was notified.
func (s *scene) endNotified() {
	starts, _ := s.notified()
	for id := range starts {
		if !s.ending[id] {
			s.write(fmt.Sprintf("; taken id=%d;", id), 1)
			s.ending[id] = true
		}
	}
}

// counted returns the newest number of lines of the alert Lines.
func (s *scene) counted() int {
	n := 0
	for _, a := range s.am.Accepted("Lines") {
		got, err := strconv.Atoi(a.Alert.Annotations["lines"])
		require.NoError(s.t, err)
		n = max(n, got)
	}
	return n
}

// outage is a time in which crowsnest is away. Lines and a failure are written meanwhile, and the collector is killed.
func (s *scene) outage(length time.Duration, failure, lines int) {
	const parts = 20
	_, _ = s.d.End(syscall.SIGKILL)
	s.write(fmt.Sprintf("; lost id=%d;", failure), 1)
	for part := range parts {
		s.write("", lines/parts)
		wait.Pause(s.t.Context(), length/parts)
		if part == parts/2 {
			s.collector.Kill()
			s.write("", 100)
			s.collector.Launch()
		}
	}
	require.NoError(s.t, s.d.Start())
}

// Kills of the collector and of crowsnest in turn, and crowsnest away for longer in the middle: no line is lost, and none
// counts twice. CROWSNEST_OTLP_KILLS, CROWSNEST_OTLP_LINES and CROWSNEST_OTLP_OUTAGE set the numbers of kills and of
// lines, and the seconds for which crowsnest is away.
func TestE2EKills(t *testing.T) {
	kills, lines := number(t, "CROWSNEST_OTLP_KILLS", 10), number(t, "CROWSNEST_OTLP_LINES", 20_000)
	away := time.Duration(number(t, "CROWSNEST_OTLP_OUTAGE", 5)) * time.Second
	s := newScene(t, nil)
	s.write("", 1)
	require.True(t, wait.Until(time.Minute, func() bool { return s.counted() == 1 }), "the first line")
	for k := range kills {
		s.write(fmt.Sprintf("; lost id=%d;", k), 1)
		for range 10 { // so that a kill comes between batches, and into one
			s.write("", lines/kills/10)
			wait.Pause(t.Context(), 50*time.Millisecond)
		}
		s.endNotified()
		switch {
		case k == kills/2:
			s.outage(away, kills, lines/kills)
		case k%2 == 0:
			s.collector.Kill()
			s.write("", 100)
			s.collector.Launch()
		default:
			_, _ = s.d.End(syscall.SIGKILL)
			s.write("", 100)
			wait.Pause(t.Context(), time.Second)
			require.NoError(t, s.d.Start())
		}
	}
	failures := kills + 1
	began := time.Now()
	ok := wait.Until(10*time.Minute, func() bool {
		s.endNotified()
		_, ended := s.notified()
		for id := range failures {
			if !ended[id] {
				return false
			}
		}
		return s.counted() >= s.written
	})
	t.Logf("%d kills, %d lines, %v away, all counted after another %v", kills, s.written, away, time.Since(began).Round(time.Second))
	require.True(t, ok, "%d of %d lines", s.counted(), s.written)
	s.write("", 1) // nothing that comes again counts
	require.True(t, wait.Until(time.Minute, func() bool { return s.counted() >= s.written }))
	require.Equal(t, s.written, s.counted())
	starts, _ := s.notified()
	require.Len(t, starts, failures)
	for id, all := range starts {
		require.Len(t, all, 1, "failure %d began more than once", id)
	}
	require.Empty(t, s.am.NeverNotified())
	require.Empty(t, s.am.Accepted("CrowsnestLinesLost"))
}

// A collector that is gone is blind, and one that comes back is not.
func TestE2ESilence(t *testing.T) {
	s := newScene(t, nil)
	s.write("", 1)
	require.True(t, wait.Until(time.Minute, func() bool { return s.counted() == 1 }), "the first line")
	s.collector.Kill()
	require.True(t, wait.Until(time.Minute, func() bool { return s.am.States("CrowsnestBlind") == "firing" }), "blind")
	require.Equal(t, otlp.New(otlp.Config{}).Name()+"/lab/n1", s.am.Accepted("CrowsnestBlind")[0].Alert.Labels["source"])
	s.collector.Launch()
	require.True(t, wait.Until(time.Minute, func() bool {
		s.write("", 1)
		wait.Pause(t.Context(), time.Second)
		last := s.am.Accepted("CrowsnestBlind")
		return last[len(last)-1].Resolved
	}), "it sends again")
}

// refused returns how many requests were refused for a reason.
func (s *scene) refused(reason string) float64 {
	all, err := s.d.Metrics(s.t.Context())
	require.NoError(s.t, err)
	for name, value := range all {
		if strings.HasPrefix(name, "crowsnest_source_errors_total{") && strings.Contains(name, `"`+reason+`"`) {
			return value
		}
	}
	return 0
}

// A collector sends over TLS with a token. One with another token, and one that does not trust the certificate, are not
// believed.
func TestE2ETLS(t *testing.T) {
	s := newScene(t, authority.New(t, t.TempDir()))
	s.write("", 1)
	require.True(t, wait.Until(time.Minute, func() bool { return s.counted() == 1 }), "the first line")
	s.collector.Kill()
	s.write("", 1)
	stranger := s.options
	stranger.Token = "another"
	servers.Collector(t, stranger)
	require.True(t, wait.Until(time.Minute, func() bool { return s.refused("auth") > 0 }), "another token")
	stranger = s.options
	stranger.CA = ""
	distrusting := servers.Collector(t, stranger)
	require.True(t, wait.Until(time.Minute, func() bool { return strings.Contains(distrusting.Log(), "unknown authority") }))
	require.Equal(t, 1, s.counted())
	s.collector.Launch()
	require.True(t, wait.Until(time.Minute, func() bool { return s.counted() == 2 }), "the second line")
}
