package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/component"
	"crowsnest/test/daemon"
	"crowsnest/test/wait"
)

// board is a dashboard of Grafana.
type board struct {
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
	file   string
}

type panel struct {
	ID      int     `json:"id"`
	Type    string  `json:"type"`
	Title   string  `json:"title"`
	Panels  []panel `json:"panels"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// boards returns the committed dashboards.
func boards(t *testing.T) []board {
	t.Helper()
	files, err := filepath.Glob(root + "/dashboards/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 9)
	var out []board
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		b := board{file: filepath.Base(file)}
		require.NoError(t, json.Unmarshal(text, &b), file)
		out = append(out, b)
	}
	return out
}

// all returns the panels of a dashboard, those of folded rows included.
func (b board) all() []panel {
	var out []panel
	for _, p := range b.Panels {
		out = append(append(out, p), p.Panels...)
	}
	return out
}

// A dashboard has the name of its file as uid, numbers its panels, and no panel covers
// another one.
func TestDashboardsAreWellFormed(t *testing.T) {
	titles := map[string]bool{}
	for _, b := range boards(t) {
		require.Equal(t, b.file, b.UID+".json")
		require.False(t, titles[b.Title], b.Title)
		titles[b.Title] = true
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range b.all() {
			require.False(t, ids[p.ID], "%s: two panels have the number %d", b.UID, p.ID)
			ids[p.ID] = true
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, "%s: %s", b.UID, p.Title)
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.Empty(t, taken[at], "%s: %s covers %s", b.UID, p.Title, taken[at])
					taken[at] = p.Title
				}
			}
			require.Equal(t, p.Type != "row" && p.Type != "text", len(p.Targets) > 0, "%s: %s", b.UID, p.Title)
		}
	}
}

// Each kind of source has a dashboard, which explains the reasons for which it loses lines, and
// the sidecar of Grafana finds every dashboard.
func TestEverySourceHasADashboard(t *testing.T) {
	listed, err := os.ReadFile(root + "/dashboards/kustomization.yaml")
	require.NoError(t, err)
	for _, b := range boards(t) {
		require.Contains(t, string(listed), fmt.Sprintf("- {name: %s-dashboard, files: [%s]}\n", b.UID, b.file))
	}
	for _, kind := range component.Sources() {
		text, err := os.ReadFile(root + "/dashboards/crowsnest-source-" + kind.Key + ".json")
		require.NoError(t, err, "copy the dashboard of a similar kind; see Add a source in CONTRIBUTING.md")
		for reason := range kind.Losses {
			require.Contains(t, string(text), "| `"+reason+"` |", kind.Key)
		}
	}
}

// pack has a rule for each severity and state.
const pack = `pack: {name: scene, version: 0.1.0}
rules:
- {alert: SceneCritical, from: '{container="manager"}', match: scene critical, by: [pod], severity: critical, annotations: {summary: It is critical.}}
- {alert: SceneInfo, from: '{container="manager"}', match: scene info, by: [pod], severity: info, annotations: {summary: It is there.}}
- {alert: ScenePending, from: '{container="manager"}', match: scene pending, clear: scene well, for: 1h, by: [pod], severity: warning, annotations: {summary: It lasts.}}
- {alert: SceneUnit, from: '{identifier="scene"}', match: scene unit, by: [identifier], severity: info, annotations: {summary: It is in the journal.}}
- {alert: SceneRare, from: '{container="manager"}', match: scene rare, count: 256, within: 1h, by: [pod], severity: warning, annotations: {summary: It is frequent.}}
`

// scene is an aggregator with sources of its own, and an agent. Both read the log of one
// container.
type scene struct {
	aggregator, agent *daemon.Daemon
	pods              string // folder of logs
}

// start starts the daemons. more is added to the sources of the aggregator.
func start(t *testing.T, alertmanager, more string) scene {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "crowsnest")
	require.NoError(t, daemon.Build(binary))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "scene.yaml"), []byte(pack), 0o600))
	s := scene{pods: filepath.Join(dir, "pods")}
	require.NoError(t, os.MkdirAll(filepath.Join(s.pods, "kube-system_a-0_1", "manager"), 0o755))
	s.log(t, "begin")
	alertmanagers := filepath.Join(dir, "alertmanagers.yml")
	target := strings.TrimPrefix(alertmanager, "http://")
	require.NoError(t, os.WriteFile(alertmanagers, []byte("- targets: ["+target+"]\n"), 0o600))
	listen, err := daemon.FreeAddr()
	require.NoError(t, err)
	input, keep, err := os.Pipe() // ends with the test
	require.NoError(t, err)
	t.Cleanup(func() { input.Close(); keep.Close() })
	begin := func(config string) *daemon.Daemon {
		addr, err := daemon.FreeAddr()
		require.NoError(t, err)
		d := &daemon.Daemon{Binary: binary, Dir: t.TempDir(), Addr: addr, Prepare: func(cmd *exec.Cmd) { cmd.Stdin = input }}
		t.Cleanup(func() { _, _ = d.End(syscall.SIGKILL) })
		require.NoError(t, d.Configure("rules: {paths: ["+dir+"/scene.yaml]}\n"+config))
		require.NoError(t, d.Start())
		require.NoError(t, d.Ready(t.Context(), time.Minute))
		return d
	}
	s.aggregator = begin(fmt.Sprintf(`
sources:
  agents: {listen_address: %q}
  kubelet: {dir: %q}
  files: {paths: [{path: %q, labels: {container: manager, pod: file}}]}
  stdin: {labels: {job: demo}}
%s
sinks:
  alertmanager: {file_sd_configs: [{files: [%q]}]}
high_availability: {shared_folder: %q, listen_address: "127.0.0.1:0", lease_duration: 3s}
`, listen, s.pods, filepath.Join(dir, "extra.log"), more, alertmanagers, dir))
	s.agent = begin(fmt.Sprintf("sources: {kubelet: {dir: %q}}\nsinks: {upstream: {url: 'http://%s', node: node-1}}\n", s.pods, listen))
	return s
}

// log writes lines of now.
func (s scene) log(t *testing.T, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(s.pods, "kube-system_a-0_1", "manager", "0.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer f.Close()
	for _, line := range lines {
		_, err := fmt.Fprintf(f, "%s stderr F %s\n", time.Now().UTC().Format(time.RFC3339Nano), line)
		require.NoError(t, err)
	}
}

// scrape returns the metrics of both daemons, without their labels and the suffixes of
// histograms.
func (s scene) scrape(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, d := range []*daemon.Daemon{s.aggregator, s.agent} {
		body, err := d.Get(t.Context(), "/metrics")
		require.NoError(t, err)
		text.WriteString(body)
	}
	return text.String()
}

// later are metrics that appear with their first event,
// and the tables that have them.
var later = map[string]string{
	"crowsnest_evictions_total":         "episodes/metrics.go",
	"crowsnest_episode_overflow_total":  "episodes/metrics.go",
	"crowsnest_rule_inactive":           "daemon/metrics.go",
	"crowsnest_source_losses_total":     "sources/metrics.go",
	"crowsnest_source_lost_bytes_total": "sources/metrics.go",
	"crowsnest_source_errors_total":     "sources/metrics.go",
	"crowsnest_agents_reporting":        "agent/server/source.go",
}

// Every metric in the rules and on the dashboards exists in a real daemon, and the page
// of alerts has a section for every alert that crowsnest sends about itself.
func TestMetricsExist(t *testing.T) {
	s := start(t, "http://127.0.0.1:1", "")
	var text string
	// The aggregator has series per node when the agent has reported.
	require.NoError(t, wait.NoError(t.Context(), time.Minute, func() error {
		if text = s.scrape(t); !strings.Contains(text, `crowsnest_agent_up{node="node-1"`) {
			return fmt.Errorf("no agent has reported")
		}
		return nil
	}))
	series := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`).FindAllStringSubmatch(text, -1) {
		series[m[1]] = true
	}
	require.Greater(t, len(series), 100)
	var used []string
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			// A recorded series is not one of a daemon.
			expr := strings.ReplaceAll(r.Expr, "instance:crowsnest_notifies:bool", "")
			used = append(used, metricName.FindAllString(expr, -1)...)
		}
	}
	for _, b := range boards(t) {
		text, err := os.ReadFile(filepath.Join(root, "dashboards", b.file))
		require.NoError(t, err)
		used = append(used, metricName.FindAllString(string(text), -1)...)
	}
	require.Greater(t, len(used), 200)
	for _, name := range used {
		if table := later[name]; table != "" {
			text, err := os.ReadFile("../../" + table)
			require.NoError(t, err)
			require.Contains(t, string(text), `"`+strings.TrimPrefix(name, "crowsnest_")+`"`, table)
			continue
		}
		require.True(t, series[name], "no daemon has %s", name)
	}
	doc, err := os.ReadFile("../../docs/alerts.md")
	require.NoError(t, err)
	own := regexp.MustCompile(`crowsnest_self_alerts\{alert="(\w+)"`).FindAllStringSubmatch(text, -1)
	require.Greater(t, len(own), 15)
	for _, m := range own {
		require.Regexp(t, `(?m)^### `+m[1]+`$`, string(doc))
	}
}
