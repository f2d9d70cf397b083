package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crowsnest/test/child"
)

// PrometheusOptions configure a Prometheus.
type PrometheusOptions struct {
	Port int // 0: a free one
	// Targets are the scrape targets by job, as host:port.
	Targets map[string]string
	// Rules are paths of rule files.
	Rules []string
	// Alertmanagers receive the alerts, as host:port.
	Alertmanagers []string
	// Interval of scrapes and evaluations is 500 ms if 0.
	Interval time.Duration
	// Config is a complete configuration that replaces the above; "": none.
	Config string
	// Args are additional flags.
	Args []string
}

func (o PrometheusOptions) config() string {
	if o.Config != "" {
		return o.Config
	}
	every := orHalfSecond(o.Interval)
	var b strings.Builder
	fmt.Fprintf(&b, "global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\n", every, every, every)
	if len(o.Rules) > 0 {
		fmt.Fprintf(&b, "rule_files: [%s]\n", quotedList(o.Rules))
	}
	if len(o.Alertmanagers) > 0 {
		fmt.Fprintf(&b, "alerting: {alertmanagers: [{static_configs: [{targets: [%s]}]}]}\n", quotedList(o.Alertmanagers))
	}
	b.WriteString("scrape_configs:\n")
	for _, job := range slices.Sorted(maps.Keys(o.Targets)) {
		fmt.Fprintf(&b, "- {job_name: %q, static_configs: [{targets: [%q]}]}\n", job, o.Targets[job])
	}
	return b.String()
}

func quotedList(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}

// PrometheusServer is a running Prometheus.
type PrometheusServer struct{ *Server }

// Prometheus starts one. Its first scrape is after about 5 s, the duration of its
// discovery.
func Prometheus(t testing.TB, opt PrometheusOptions) *PrometheusServer {
	t.Helper()
	dir, addr := t.TempDir(), child.Address(portOr(t, opt.Port))
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(opt.config()), 0o600); err != nil {
		t.Fatalf("start prometheus: %v", err)
	}
	p := &PrometheusServer{&Server{
		Name: "prometheus", URL: "http://" + addr, Dir: dir, t: t, bin: Program(t, "prometheus"), ready: "/-/ready",
		args: append([]string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "tsdb"), "--web.listen-address=" + addr,
			// Alerts that fire before discovery finds the Alertmanagers are sent again after
			// this time, which is a minute by default.
			"--rules.alert.resend-delay=1s",
		}, opt.Args...),
	}}
	p.start()
	return p
}

// Query returns the values of an instant query by their labels, as
// `{a="b",c="d"}` without __name__.
func (p *PrometheusServer) Query(expr string) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	err := Get(context.Background(), p.URL+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), func(body []byte) error {
		var answer struct {
			Data struct {
				Result []struct {
					Metric map[string]string `json:"metric"`
					Value  [2]any            `json:"value"`
				} `json:"result"`
			} `json:"data"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return err
		}
		for _, r := range answer.Data.Result {
			delete(r.Metric, "__name__")
			out[LabelText(r.Metric)] = fmt.Sprint(r.Value[1])
		}
		return nil
	})
	if err != nil {
		p.t.Fatalf("query prometheus: %v", err)
	}
	return out
}

// LabelText formats labels as in a selector, sorted by name.
func LabelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Promtool runs promtool and returns its output and its error.
func Promtool(t testing.TB, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(Program(t, "promtool"), args...).CombinedOutput()
	return string(out), err
}

func sortedNames(alerts []Alert) []string {
	var out []string
	for _, a := range alerts {
		out = append(out, a.Labels["alertname"])
	}
	slices.Sort(out)
	return out
}
