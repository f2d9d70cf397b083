package texts

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/alertmanager/template"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/rules"
	"crowsnest/test/servers"
)

const snippets = "../../deploy/alertmanager/"

// markup is what a template of a receiver writes itself and values must not add.
var markup = map[string][]string{"slack": {"<h", "`"}, "teams": {"](", "**"}}

// snippetReceivers returns the receivers of the example configuration with the fields
// that are templates.
func snippetReceivers(t *testing.T) []receiver {
	t.Helper()
	text, err := os.ReadFile(snippets + "alertmanager.yml")
	require.NoError(t, err)
	var file struct {
		Receivers []map[string]any
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	var out []receiver
	for _, r := range file.Receivers {
		found := receiver{name: r["name"].(string)}
		html := receiver{name: found.name, html: true}
		var walk func(key string, v any)
		walk = func(key string, v any) {
			switch v := v.(type) {
			case map[string]any:
				for k, v := range v {
					walk(k, v)
				}
			case []any:
				for _, v := range v {
					walk(key, v)
				}
			case string:
				switch {
				case key == "html":
					html.fields = append(html.fields, v)
				case strings.Contains(v, "{{"):
					found.fields = append(found.fields, v)
				}
			}
		}
		walk("", r)
		slices.Sort(found.fields)
		if len(found.fields) > 0 {
			out = append(out, found)
		}
		if len(html.fields) > 0 {
			out = append(out, html)
		}
	}
	require.Len(t, out, 6, "slack, pagerduty, opsgenie, teams, and email twice")
	return out
}

func snippetTemplates(t *testing.T) *template.Template {
	t.Helper()
	tmpl, err := template.FromGlobs([]string{snippets + "*.tmpl"})
	require.NoError(t, err)
	tmpl.ExternalURL, err = url.Parse("https://alertmanager.example.org")
	require.NoError(t, err)
	return tmpl
}

// Alertmanager accepts the example configuration as it is, and routes by severity and
// team.
func TestSnippetsAreValid(t *testing.T) {
	amtool := servers.Program(t, "amtool")
	out, err := exec.Command(amtool, "check-config", snippets+"alertmanager.yml").CombinedOutput()
	require.NoError(t, err, string(out))
	f := func(want string, labels ...string) {
		t.Helper()
		args := append([]string{"config", "routes", "test", "--config.file", snippets + "alertmanager.yml", "--verify.receivers", want}, labels...)
		out, err := exec.Command(amtool, args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	f("pagerduty,slack", "alertname=X", "severity=critical")
	f("slack", "alertname=X", "severity=warning")
	f("email", "alertname=X", "severity=info")
	f("opsgenie", "alertname=X", "severity=warning", "team=storage")
	f("dead-mans-switch", "alertname=CrowsnestHeartbeat", "severity=none")
}

// Every receiver shows, for an alert of each shipped rule, one line with severity,
// cluster and summary, each step on a line of its own, and links to the runbook, the page
// of the alert and a silence for exactly this alert.
func TestSnippetsShowAlerts(t *testing.T) {
	tmpl, all := snippetTemplates(t), shipped(t)
	found := incidents(t, all, []string{"x-1"})
	for _, r := range all {
		a := found[r.Alert][0]
		a.Labels["cluster"] = "prod-1"
		data := group(tmpl, a)
		title := "[" + strings.ToUpper(string(r.Severity)) + "] prod-1: " + strings.Join(strings.Fields(a.Annotations["summary"]), " ")
		for _, to := range snippetReceivers(t) {
			text := to.render(t, tmpl, data)
			plain := text
			switch {
			case to.html:
				_, texts := to.shape(t, text)
				plain = strings.Join(texts, "\n")
			case to.name == "slack":
				plain = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
			}
			if !to.html {
				require.Contains(t, strings.Split(plain, "\n"), title, "%s for %s", r.Alert, to.name)
			}
			for step := range strings.SplitSeq(a.Annotations["remediation"], "\n") {
				require.Contains(t, strings.Split(plain, "\n"), step, "%s for %s", r.Alert, to.name)
			}
			for _, want := range []string{a.GeneratorURL, a.Annotations["runbook_url"], a.Annotations["origin"], a.Annotations["line"]} {
				require.Contains(t, plain, want, "%s for %s", r.Alert, to.name)
			}
			require.Equal(t, a.Labels, silenced(t, plain), "%s for %s", r.Alert, to.name)
		}
	}
}

var (
	silence = regexp.MustCompile(`https://alertmanager\.example\.org/#/silences/new\?filter=([^\s|)]+)`)
	pairs   = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// silenced returns the labels that the first link to a silence selects.
func silenced(t *testing.T, text string) map[string]string {
	t.Helper()
	m := silence.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	filter, err := url.PathUnescape(m[1])
	require.NoError(t, err)
	require.Regexp(t, `^\{.*\}$`, filter)
	out := map[string]string{}
	for _, m := range pairs.FindAllStringSubmatch(filter, -1) {
		out[m[1]] = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(m[2])
	}
	return out
}

// No value of a log line becomes a link, a line, an element or markup in the output of
// the example templates.
func TestNoForeignLinksOrLinesInSnippets(t *testing.T) {
	tmpl, list := snippetTemplates(t), append(slices.Clone(linking), `a"b\c`, "*a* _b_ ~c~", "{{ .Labels }}")
	byLength := map[int]*rules.Rule{} // the templates treat rules alike except for the number of steps
	for _, r := range shipped(t) {
		byLength[len(r.Remediation.Steps)] = r
	}
	all := slices.Collect(maps.Values(byLength))
	harmless, found := incidents(t, all, []string{"x"}), incidents(t, all, list)
	for _, r := range all {
		plain := harmless[r.Alert][0]
		for _, to := range snippetReceivers(t) {
			own := ownLinks(plain)
			for _, token := range markup[to.name] {
				own["link "+token] = true
			}
			for some := range slices.Chunk(found[r.Alert], 10) { // messages show ten
				wanted := to.render(t, tmpl, group(tmpl, slices.Repeat([]posted{plain}, len(some))...))
				rendered := to.render(t, tmpl, group(tmpl, some...))
				if to.name == "teams" { // its template doubles line breaks
					wanted, rendered = single(wanted), single(rendered)
				}
				want, _ := to.shape(t, wanted)
				got, texts := to.shape(t, rendered)
				require.Equal(t, want, got, "%s for %s", r.Alert, to.name)
				require.Empty(t, foreign(texts, own), "%s for %s", r.Alert, to.name)
				for _, token := range markup[to.name] {
					if token != "**" { // bold text is harmless
						require.Equal(t, strings.Count(wanted, token), strings.Count(rendered, token), "%s for %s: %s", r.Alert, to.name, token)
					}
				}
			}
		}
	}
	t.Logf("%d rules with %d values", len(all), len(list))
}

// single removes empty lines.
func single(text string) string { return regexp.MustCompile(`\n+`).ReplaceAllString(text, "\n") }

// A long group shows ten alerts and the number of all, and resolved alerts one line each.
func TestSnippetsOfManyAlerts(t *testing.T) {
	tmpl := snippetTemplates(t)
	a := incidents(t, shipped(t)[:1], []string{"x"})[shipped(t)[0].Alert][0]
	data := group(tmpl, slices.Repeat([]posted{a}, 30)...)
	for _, to := range snippetReceivers(t) {
		text := to.render(t, tmpl, data)
		require.Contains(t, text, "The first 10 of 30 alerts.", to.name)
		require.Len(t, silence.FindAllString(text, -1), 10, to.name)
	}
}

// Every name in the routes and inhibitions is that of an alert.
func TestSnippetsNameAlerts(t *testing.T) {
	text, err := os.ReadFile(snippets + "alertmanager.yml")
	require.NoError(t, err)
	doc, err := os.ReadFile("../../docs/alerts.md")
	require.NoError(t, err)
	var names []string
	for _, r := range shipped(t) {
		names = append(names, r.Alert)
	}
	for _, m := range regexp.MustCompile(`### (Crowsnest\w+)`).FindAllStringSubmatch(string(doc), -1) {
		names = append(names, m[1])
	}
	var found []string
	for _, m := range regexp.MustCompile(`alertname=~?"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		for _, name := range strings.Split(m[1], "|") {
			found = append(found, name)
			require.Contains(t, names, name)
		}
	}
	// `crowsnest export alertmanager` writes the inhibitions of shipped rules.
	require.Equal(t, []string{"CrowsnestHeartbeat", "CrowsnestAggregatorAbsent", "CrowsnestAgentsBlocked", "CrowsnestAgentMissing"}, found)
}

// Each receiver shows what an alert is a symptom of.
func TestSnippetsNameTheCause(t *testing.T) {
	tmpl := snippetTemplates(t)
	plain := posted{Labels: map[string]string{"alertname": "LeaseLost", "severity": "critical"}, Annotations: map[string]string{"summary": "a lease was lost"}}
	symptom := posted{Labels: plain.Labels, Annotations: map[string]string{"summary": "a lease was lost", "cause_alertname": "StoreSlow", "cause_summary": "the store\nis slow"}}
	for _, r := range snippetReceivers(t) {
		require.NotContains(t, r.render(t, tmpl, group(tmpl, plain)), "Symptom of", r.name)
		require.Regexp(t, `Symptom of:(\*|\*\*|</b>)? StoreSlow: the store is slow`, r.render(t, tmpl, group(tmpl, symptom)), r.name)
	}
}
