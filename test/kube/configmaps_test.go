//go:build e2e

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
)

const (
	tenants       = 40
	tenantObjects = 200
	firesWithin   = 30 * time.Second
)

const tenantConfig = `global: {external_url: "https://crowsnest.example.org/"}
rules: {config_maps: {selector: "crowsnest.io/rules=true", kubeconfig: %q}}
sources: {agents: {listen_address: %q}}
sinks: {alertmanager: {urls: [%q], min_firing: 1s}}
`

// hostilePacks returns the packs that are refused, by name, and a text of each reason. namespace is the namespace of
// the ConfigMap and other a namespace in which rule Team00R0 is active.
func hostilePacks(namespace, other string) map[string][2]string {
	rule := func(alert, keys string) string {
		return "pack: {name: p}\nrules:\n- alert: " + alert + "\n  severity: critical\n" + keys
	}
	const match, from = "  match: failure 0 of team\n", "  from: '{container=\"app\"}'\n"
	var many, costly, tests, bomb strings.Builder
	many.WriteString("pack: {name: p}\nrules:\n")
	for i := range 1000 {
		fmt.Fprintf(&many, "- {alert: Many%d, from: '{app=\"x\"}', match: text number %d, severity: info}\n", i, i)
	}
	for i := range 40 {
		fmt.Fprintf(&costly, "    - {regex: 'text (a|b){%d}(c|d){900}'}\n", 900-i)
	}
	for i := range 30 {
		fmt.Fprintf(&tests, "  - name: t%d\n    stream: {container: app}\n    input: [{at: 0s, line: %q, repeat: 90000, every: 1ms}]\n    expect: [{at: 1h, firing: none}]\n", i, strings.Repeat("x", 500))
	}
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
	}
	return map[string][2]string{
		"foreign":    {rule("H1", "  from: '{namespace=\""+other+"\"}'\n"+match), "reads only streams of this namespace"},
		"all":        {rule("H2", "  from: '{namespace=~\".+\"}'\n"+match), "reads only streams of this namespace"},
		"not":        {rule("H3", "  from: '{container=\"app\", namespace!=\"x\"}'\n"+match), "reads only streams of this namespace"},
		"step":       {rule("H4", from+"  within: 5m\n  sequence: [{contains: failure 0}, {contains: failure 1, from: '{namespace=\"kube-system\"}'}]\n"), "reads only streams of this namespace"},
		"clear":      {rule("H5", from+match+"  clear: {contains: it is back, from: '{namespace=\"kube-system\"}'}\n"), "reads only streams of this namespace"},
		"unless":     {rule("H6", from+match+"  unless: {contains: planned, within: 5m, from: '{namespace=\"kube-system\"}'}\n"), "reads only streams of this namespace"},
		"overrides":  {"overrides:\n- {rule: \"*\", disable: because}\n", "cannot have overrides"},
		"shipped":    {rule("EtcdOutOfSpace", from+match), "already the name of the rule"},
		"case":       {rule("ETCDOUTOFSPACE", from+match), "differs only in case"},
		"collision":  {rule("Team00R0", from+match), "already the name of the rule at a place in another namespace"},
		"own-name":   {rule("CrowsnestBlind", from+match), "reserved"},
		"label":      {rule("H7", from+match+"  labels: {namespace: kube-system}\n"), "cannot set the label `namespace`"},
		"cluster":    {rule("H8", from+match+"  labels: {cluster: prod}\n"), "cannot set the label `cluster`"},
		"defaults":   {"pack: {name: p}\ndefaults: {labels: {namespace: kube-system}}\nrules:\n- alert: H9\n  severity: info\n" + from + match, "cannot set the label `namespace`"},
		"capture":    {rule("H10", from+"  match: {regex: 'failure 0 of (?P<namespace>\\w+)'}\n  by: [namespace]\n"), "captures `namespace`"},
		"field":      {rule("H11", from+"  match: {contains: failure 0, field: {team: '~(?P<namespace>.+)'}}\n  by: [namespace]\n"), "captures `namespace`"},
		"origin":     {rule("H12", from+match+"  origin: infrastructure\n"), "`origin: infrastructure`"},
		"verified":   {rule("H13", from+match+"  verified: [{component: etcd, versions: \">=3.5.0\"}]\n"), "cannot have `verified`"},
		"link":       {rule("H14", from+match+"  remediation: {runbook_url: \"javascript:alert(1)\"}\n"), "not a URL"},
		"template":   {rule("H15", from+match+"  annotations: {summary: \"{{ range $i, $e := .x }}{{ end }}\"}\n"), "annotation"},
		"costly":     {rule("H16", from+"  match:\n    any:\n"+costly.String()), "the regular expressions of the rules up to this one have more than"},
		"many":       {many.String(), "more than 100 rules"},
		"large":      {rule("H17", from+match) + "# " + strings.Repeat("x", 1_000_000), "more than 256 KiB"},
		"bomb":       {bomb.String(), ""},
		"deep":       {strings.Repeat("[", 20_000), ""},
		"test-fails": {rule("H18", from+match+"  tests:\n  - name: t\n    stream: {container: app}\n    input: [{at: 0s, line: other}]\n    expect: [{at: 1s, firing: [{}]}]\n"), "H18"},
		"test-bomb":  {rule("H19", from+match+"  tests:\n"+tests.String()), "all packs of namespace " + namespace + " are allowed"},
		"prometheus": {"groups: []\n", "Prometheus rule file"},
		"truncated":  {"pack: {name: p, rules: 3}\nrules:\n- alert: H20\n", ""},
		"binary":     {"\x01\x02pack", ""},
	}
}

// tenantLab is an aggregator with an agent that reads a file for each namespace.
type tenantLab struct {
	*lab
	api    *kubelab.Lab
	logs   []*os.File
	closed chan struct{}
}

func tenantName(i int) string { return fmt.Sprintf("team-%02d", i) }

// writeLines writes a line for each rule of each namespace once a second until the test ends.
func (l *tenantLab) writeLines() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		for _, f := range l.logs {
			var b bytes.Buffer
			for i := range 6 {
				fmt.Fprintf(&b, "%s E failure %d of team\n", time.Now().UTC().Format(time.RFC3339Nano), i)
			}
			_, _ = f.Write(b.Bytes())
		}
		select {
		case <-l.closed:
			return
		case <-tick.C:
		}
	}
}

func (l *tenantLab) put(method, namespace, name string, labels map[string]string, data map[string]string) {
	l.t.Helper()
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	if method == http.MethodPut {
		path += "/" + name
	}
	l.api.Do(method, path, kubelab.Object{"metadata": kubelab.Object{"name": name, "labels": labels}, "data": data})
}

// events returns the Events about ConfigMaps, by namespace and name of the ConfigMap, the newest last.
func (l *tenantLab) events(reason string) map[string][]string {
	var list struct {
		Items []struct {
			Reason, Message string
			InvolvedObject  struct{ Namespace, Name, UID string }
		}
	}
	_, answer := l.api.Try(http.MethodGet, "/api/v1/events?fieldSelector=reason%3D"+reason, nil)
	require.NoError(l.t, json.Unmarshal(answer, &list))
	out := map[string][]string{}
	for _, e := range list.Items {
		key := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
		out[key] = append(out[key], e.Message)
	}
	return out
}

// ruleGroups returns the rule groups of the API, and a text about the shipped rules that must not change.
func (l *tenantLab) ruleGroups() (groups map[string]string, shipped string) {
	body, err := l.Get(l.t.Context(), "/api/v1/rules")
	require.NoError(l.t, err)
	var answer struct {
		Data struct {
			Groups []struct {
				Name, File, Broken string
				Rules              []struct{ Name, From, Severity, Mode string }
			}
		}
	}
	require.NoError(l.t, json.Unmarshal([]byte(body), &answer))
	groups = map[string]string{}
	var text strings.Builder
	for _, g := range answer.Data.Groups {
		groups[g.Name] = g.Broken
		if strings.HasPrefix(g.File, "shipped:") {
			fmt.Fprintf(&text, "%+v\n", g)
		}
	}
	return groups, text.String()
}

// pause waits in real time.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// TestE2EConfigMaps: of 200 ConfigMaps in 40 namespaces, 30 of them hostile, the valid ones fire soon with their own
// namespace, and the others are refused with an Event.
func TestE2EConfigMaps(t *testing.T) {
	api := kubelab.Start(t)
	api.Namespace("crowsnest")
	api.ServiceAccount("crowsnest", "crowsnest")
	api.Grant("crowsnest", "crowsnest", "",
		kubelab.Rule{Groups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
		kubelab.Rule{Groups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}})
	dir := t.TempDir()
	l := &tenantLab{api: api, closed: make(chan struct{}), lab: &lab{t: t, am: fakeam.New()}}
	var paths []string
	for i := range tenants {
		api.Do(http.MethodPost, "/api/v1/namespaces", kubelab.Object{"metadata": kubelab.Object{"name": tenantName(i)}})
		file := filepath.Join(dir, tenantName(i)+".log")
		f, err := os.Create(file)
		require.NoError(t, err)
		l.logs = append(l.logs, f)
		paths = append(paths, fmt.Sprintf("{path: %q, labels: {namespace: %s, container: app, pod: p}}", file, tenantName(i)))
	}
	binary := filepath.Join(dir, "crowsnest")
	require.NoError(t, daemon.Build(binary))
	server, err := fakeam.Serve(l.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	address := func() string {
		a, err := daemon.FreeAddr()
		require.NoError(t, err)
		return a
	}
	agents := address()
	start := func(name, config string) *daemon.Daemon {
		d := &daemon.Daemon{Binary: binary, Dir: filepath.Join(dir, name), Addr: address()}
		require.NoError(t, os.Mkdir(d.Dir, 0o700))
		require.NoError(t, d.Configure(config))
		require.NoError(t, d.Start())
		t.Cleanup(func() { _, _ = d.End(syscall.SIGKILL) })
		return d
	}
	l.Daemon = start("aggregator", fmt.Sprintf(tenantConfig, api.Kubeconfig("", api.Token("crowsnest", "crowsnest")), agents, server.URL))
	agent := start("agent", fmt.Sprintf("sources: {files: {paths: [%s]}}\nsinks: {upstream: {url: 'http://%s', node: n1}}\n", strings.Join(paths, ", "), agents))
	require.Eventually(t, func() bool { _, err := l.Get(t.Context(), "/api/v1/rules"); return err == nil }, patience, often)
	_, shipped := l.ruleGroups()
	require.NotEmpty(t, shipped)
	writing := sync.WaitGroup{}
	writing.Go(l.writeLines)
	t.Cleanup(func() { close(l.closed); writing.Wait() })

	label := map[string]string{"crowsnest.io/rules": "true"}
	created, owner := map[string]time.Time{}, map[string]string{}
	hostile := hostilePacks(tenantName(0), tenantName(0))
	require.Len(t, hostile, 30)
	for n := range tenantObjects - len(hostile) {
		i, k := n%tenants, n/tenants
		alert := fmt.Sprintf("Team%02dR%d", i, k)
		from := []string{`{container="app"}`, fmt.Sprintf(`{namespace=%q}`, tenantName(i)), `{pod=~"p.*", container!="x"}`}[k%3]
		by := []string{"", "  by: [namespace]\n", "  by: [pod]\n"}[n%3]
		text := fmt.Sprintf("pack: {name: rules}\nrules:\n- alert: %s\n  from: '%s'\n  match: failure %d of team\n  severity: critical\n%s", alert, from, k, by)
		l.put(http.MethodPost, tenantName(i), fmt.Sprint("rules-", k), label, map[string]string{"rules.yaml": text})
		created[alert], owner[alert] = time.Now(), tenantName(i)
	}
	names := make([]string, 0, len(hostile))
	for name := range hostile {
		names = append(names, name)
	}
	slices.Sort(names)
	where, madeAt := map[string]string{}, map[string]time.Time{}
	for i, name := range names {
		namespace := tenantName(i)
		if name == "test-bomb" {
			namespace = tenantName(0)
		}
		l.put(http.MethodPost, namespace, name, label, map[string]string{"rules.yaml": hostile[name][0]})
		where[name], madeAt[name] = namespace+"/"+name, time.Now()
	}

	// Every valid rule fires, and every other ConfigMap has an Event.
	var fired, reported []time.Duration
	for len(fired) < len(created) || len(reported) < len(hostile) {
		fired, reported = fired[:0], reported[:0]
		all, events := l.am.All(), l.events("RulesRefused")
		for alert, at := range created {
			if len(all[alert]) > 0 {
				fired = append(fired, all[alert][0].Time.Sub(at))
			} else {
				require.Less(t, time.Since(at), firesWithin, "%s of %s has not fired; %d of %d have\n%s\n%s", alert, owner[alert], len(fired), len(created), l.LogEnd(), agent.LogEnd())
			}
		}
		for name, at := range madeAt {
			if len(events[where[name]]) > 0 {
				reported = append(reported, time.Since(at))
			} else {
				require.Less(t, time.Since(at), firesWithin, "ConfigMap %s has no Event\n%s", where[name], l.LogEnd())
			}
		}
		pause(200 * time.Millisecond)
	}
	slices.Sort(fired)
	t.Logf("%d valid rules fired, at most %s and in the median %s after their ConfigMap was created; %d ConfigMaps were refused, all Events after %s",
		len(fired), fired[len(fired)-1], fired[len(fired)/2], len(reported), slices.Max(reported))
	for name, messages := range l.events("RulesRefused") {
		i := strings.IndexByte(name, '/') + 1
		require.Contains(t, hostile, name[i:], "only hostile ConfigMaps are refused: %s", messages)
		require.Len(t, messages, 1, "%s has one Event", name)
		require.Contains(t, messages[0], hostile[name[i:]][1], "%s", name)
	}
	groups, now := l.ruleGroups()
	require.Equal(t, shipped, now, "the shipped rules are unchanged")
	require.Contains(t, groups, tenantName(0)+"/rules")
	refused := 0
	for _, broken := range groups {
		if broken != "" {
			refused++
		}
	}
	require.GreaterOrEqual(t, refused, len(hostile))

	// The namespace of an alert is always its own.
	for alert, accepted := range l.am.All() {
		for _, a := range accepted {
			if owner[alert] != "" {
				require.Equal(t, owner[alert], a.Alert.Labels["namespace"], "%s", alert)
			}
		}
		require.False(t, strings.HasPrefix(alert, "H") || strings.HasPrefix(alert, "Many"), alert)
	}
	require.NotEmpty(t, l.am.Accepted("CrowsnestPackBroken"))
	require.Empty(t, l.am.Accepted("CrowsnestReloadFailed"))

	// A corrected ConfigMap is accepted.
	text := "pack: {name: late}\nrules:\n- {alert: Late, from: '{container=\"app\"}', match: failure 5 of team, severity: info}\n"
	namespace, _, _ := strings.Cut(where["foreign"], "/")
	l.put(http.MethodPut, namespace, "foreign", label, map[string]string{"rules.yaml": text})
	l.alert("Late", "namespace", namespace, false)
	require.Eventually(t, func() bool { return len(l.events("RulesAccepted")[where["foreign"]]) == 1 }, firesWithin, often)

	// Without the API server the rules stay, also over a restart of both processes.
	api.StopAPI()
	for _, d := range []*daemon.Daemon{l.Daemon, agent} {
		_, err := d.End(syscall.SIGTERM)
		require.NoError(t, err)
		require.NoError(t, d.Start())
	}
	require.Eventually(t, func() bool { _, err := l.Get(t.Context(), "/api/v1/rules"); return err == nil }, patience, often)
	groups, _ = l.ruleGroups()
	require.Contains(t, groups, tenantName(5)+"/rules")
	pause(10 * time.Second)
	for alert := range owner {
		for _, a := range l.am.Accepted(alert) {
			require.False(t, a.Resolved, "%s does not end", alert)
		}
	}
	api.StartAPI()

	// Without its label or its ConfigMap a rule ends.
	api.Do(http.MethodDelete, "/api/v1/namespaces/team-01/configmaps/rules-0", nil)
	l.alert("Team01R0", "namespace", "team-01", true)
	l.put(http.MethodPut, "team-02", "rules-0", nil, map[string]string{"rules.yaml": "x"})
	l.alert("Team02R0", "namespace", "team-02", true)
	require.Empty(t, slices.DeleteFunc(l.am.Accepted("Team03R0"), func(a fakeam.Accepted) bool { return !a.Resolved }))
}
