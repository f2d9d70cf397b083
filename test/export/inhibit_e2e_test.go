//go:build e2e

package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/servers"
)

// symptoms is how many symptoms the cause has.
const symptoms = 14

// causePack returns a pack with a cause and its symptoms.
func causePack() string {
	var b strings.Builder
	b.WriteString(`pack: {name: p}
rules:
- {alert: StoreSlow, from: '{container="etcd"}', match: too slow, by: [namespace], clear: {contains: fast again, same: [namespace]}, severity: critical}
- {alert: Sentinel, from: '{container="etcd"}', match: {regex: 'sentinel (?P<n>\d+)'}, by: [n], severity: info}
`)
	for i := range symptoms {
		fmt.Fprintf(&b, "- {alert: Symptom%02d, from: '{container=\"etcd\"}', match: symptom %02d, by: [namespace], clear: {contains: recovered %02d, same: [namespace]}, severity: %s, symptom_of: [StoreSlow]}\n",
			i, i, i, []string{"critical", "warning"}[i%2])
	}
	return b.String()
}

// inhibition is a crowsnest with two logs, whose namespaces are a and b, in front of an
// Alertmanager.
type inhibition struct {
	*testing.T
	d    *daemon.Daemon
	am   *servers.AlertmanagerServer
	hook *servers.Hook
	n    int // sentinels
}

func newInhibition(t *testing.T) *inhibition {
	dir := t.TempDir()
	x := &inhibition{T: t, hook: servers.NewHook(t, func(l map[string]string) string {
		return strings.TrimSuffix(l["alertname"]+" "+l["namespace"]+l["n"], " ")
	})}
	for name, text := range map[string]string{"pack.yaml": causePack(), "a.log": "", "b.log": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	port := servers.FreePort(t)
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	x.d = &daemon.Daemon{Binary: filepath.Join(dir, "crowsnest"), Dir: dir, Addr: addr}
	require.NoError(t, daemon.Build(x.d.Binary))
	require.NoError(t, x.d.Configure(fmt.Sprintf(`
global: {external_labels: {env: test}}
rules: {shipped: false, paths: [pack.yaml]}
sources: {files: {paths: [{path: %[1]s/a.log, labels: {container: etcd, namespace: a}}, {path: %[1]s/b.log, labels: {container: etcd, namespace: b}}]}}
sinks: {alertmanager: {urls: ["http://127.0.0.1:%[2]d"], inhibit: true, resend_delay: 1s, min_firing: 0s}}
`, dir, port)))
	var inhibit, stderr bytes.Buffer
	export := exec.Command(x.d.Binary, "export", "alertmanager", "--config.file", filepath.Join(dir, "crowsnest.yml"))
	export.Stdout, export.Stderr = &inhibit, &stderr
	require.NoError(t, export.Run(), "%s", &stderr)
	amConfig := fmt.Sprintf("route: {receiver: test, group_by: ['...'], group_wait: 2s, group_interval: 2s, repeat_interval: 1h}\nreceivers:\n- name: test\n  webhook_configs: [{url: %q, send_resolved: true}]\n%s",
		x.hook.URL, &inhibit)
	file := filepath.Join(dir, "alertmanager.yml")
	require.NoError(t, os.WriteFile(file, []byte(amConfig), 0o600))
	out, err := exec.Command(servers.Program(t, "amtool"), "check-config", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	x.am = servers.Alertmanager(t, servers.AlertmanagerOptions{Port: port, Config: amConfig})
	x.start()
	t.Cleanup(func() {
		_, _ = x.d.End(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("notified: %v\n%s", x.hook.States(), x.d.LogEnd())
		}
	})
	return x
}

func (x *inhibition) start() {
	x.Helper()
	require.NoError(x, x.d.Start())
	require.NoError(x, x.d.Ready(context.Background(), 30*time.Second))
}

// log writes a line of a namespace.
func (x *inhibition) log(namespace, format string, args ...any) {
	x.Helper()
	f, err := os.OpenFile(filepath.Join(x.d.Dir, namespace+".log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(x, err)
	_, err = fmt.Fprintf(f, format+"\n", args...)
	require.NoError(x, err)
	require.NoError(x, f.Close())
}

func (x *inhibition) eventually(what string, ok func() bool) {
	x.Helper()
	require.Eventually(x, ok, 90*time.Second, 50*time.Millisecond, what)
}

// settle waits until Alertmanager has decided about everything that it has: a later alert of
// another rule was notified.
func (x *inhibition) settle() {
	x.Helper()
	x.n++
	x.log("a", "sentinel %d", x.n)
	name := fmt.Sprintf("Sentinel %d", x.n)
	x.eventually(name, func() bool { return x.hook.States()[name] == "firing" })
}

// held returns how many active alerts of a name prefix Alertmanager has in a namespace.
func (x *inhibition) held(prefix, namespace string) int {
	alerts, _ := x.am.TryAlerts(fmt.Sprintf(`alertname=~"%s.*"`, prefix), fmt.Sprintf("namespace=%q", namespace))
	return len(alerts)
}

// notified returns the alerts that people were notified of, sorted, without sentinels and the
// heartbeat.
func (x *inhibition) notified() (out []string) {
	for name, states := range x.hook.States() {
		if !strings.HasPrefix(name, "Sentinel") && !strings.HasPrefix(name, "CrowsnestHeartbeat") {
			out = append(out, name+": "+states)
		}
	}
	slices.Sort(out)
	return out
}

// episode returns an open episode of the API.
func (x *inhibition) episodes() map[string]struct{ Alert, State, Cause string } {
	body, err := x.d.Get(context.Background(), "/api/v1/episodes")
	require.NoError(x, err)
	var in struct {
		Data struct {
			Episodes []struct {
				Alert, State string
				Labels       map[string]string
				Cause        *struct{ Alert string }
			}
		}
	}
	require.NoError(x, json.Unmarshal([]byte(body), &in))
	out := map[string]struct{ Alert, State, Cause string }{}
	for _, e := range in.Data.Episodes {
		y := struct{ Alert, State, Cause string }{e.Alert, e.State, ""}
		if e.Cause != nil {
			y.Cause = e.Cause.Alert
		}
		out[e.Alert+" "+e.Labels["namespace"]] = y
	}
	return out
}

// A cause with 14 symptoms is one page, and 15 alerts in crowsnest. What is no symptom of it
// is notified.
func TestInhibition(t *testing.T) {
	x := newInhibition(t)
	// In namespace b, a symptom is older than the cause.
	x.log("b", "symptom 01")
	x.eventually("the older symptom", func() bool { return x.hook.States()["Symptom01 b"] == "firing" })
	x.log("b", "too slow")
	x.eventually("the younger cause", func() bool { return x.hook.States()["StoreSlow b"] == "firing" })

	x.log("a", "too slow")
	x.eventually("the cause", func() bool { return x.held("StoreSlow", "a") == 1 })
	for i := range symptoms {
		x.log("a", "symptom %02d", i)
	}
	x.eventually("all symptoms are known to Alertmanager", func() bool {
		return x.held("Symptom", "a") == symptoms && x.held("CrowsnestCauseKnown", "a") == symptoms
	})
	require.Zero(t, x.held("CrowsnestCauseKnown", "b"), "the cause began later")
	x.settle()
	want := []string{"StoreSlow a: firing", "StoreSlow b: firing", "Symptom01 b: firing"}
	require.Equal(t, want, x.notified())

	all := x.episodes()
	require.Empty(t, all["Symptom01 b"].Cause)
	for i := range symptoms {
		e := all[fmt.Sprintf("Symptom%02d a", i)]
		require.Equal(t, "firing", e.State)
		require.Equal(t, "StoreSlow", e.Cause)
	}
	page, err := x.d.Get(context.Background(), "/")
	require.NoError(t, err)
	require.Contains(t, page, "14 symptoms below")
	page, err = x.d.Get(context.Background(), "/?filter="+url.QueryEscape(`namespace="a"`)) // the first page omits some of a large group
	require.NoError(t, err)
	require.Equal(t, symptoms, strings.Count(page, "below-1"))

	// A restart changes nothing.
	_, err = x.d.End(syscall.SIGTERM)
	require.NoError(t, err)
	x.start()
	x.settle()
	x.settle()
	require.Equal(t, want, x.notified())

	// Another symptom of the same rule, in the namespace whose cause is older by now.
	x.log("b", "symptom 02")
	x.eventually("the mark", func() bool { return x.held("CrowsnestCauseKnown", "b") == 1 })
	x.settle()
	require.Equal(t, want, x.notified())

	// Symptoms that end with their cause are never notified; one that stays is.
	for i := 1; i < symptoms; i++ {
		x.log("a", "recovered %02d", i)
	}
	x.eventually("the symptoms end", func() bool { return x.held("Symptom", "a") == 1 && x.held("CrowsnestCauseKnown", "a") == 1 })
	x.log("a", "fast again")
	x.eventually("the symptom that stays", func() bool { return x.hook.States()["Symptom00 a"] == "firing" })
	x.settle()
	require.Equal(t, []string{"StoreSlow a: firing resolved", "StoreSlow b: firing", "Symptom00 a: firing", "Symptom01 b: firing"}, x.notified())

	// It is not inhibited again by a cause that begins now.
	x.log("a", "too slow again")
	x.eventually("the cause again", func() bool { return strings.HasSuffix(x.hook.States()["StoreSlow a"], "resolved firing") })
	x.settle()
	require.Zero(t, x.held("CrowsnestCauseKnown", "a"))
	x.log("a", "recovered 00")
	x.eventually("its end is notified", func() bool { return x.hook.States()["Symptom00 a"] == "firing resolved" })
}
