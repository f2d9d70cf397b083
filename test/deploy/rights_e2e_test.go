//go:build e2e

package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/agent/wire"
	source "crowsnest/sources/objects"
	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/fakeloki"
	"crowsnest/test/kubelab"
	"crowsnest/test/manifests"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// Every overlay, and the chart with every file of values, runs at a real API server with the rights of its own service
// account: whatever its aggregator asks for is allowed, and it asks for all that its configuration names. With two, one
// leads by the Lease, and the other one has its state.
func TestServerAllowsAggregator(t *testing.T) {
	dir := t.TempDir()
	c := &realCluster{kubectl: servers.Program(t, "kubectl"), binary: filepath.Join(dir, "crowsnest"), audit: filepath.Join(dir, "audit")}
	require.NoError(t, daemon.Build(c.binary))
	policy := filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))
	c.lab = kubelab.Start(t, kubelab.Options{APIServerArgs: []string{"--audit-policy-file", policy, "--audit-log-path", c.audit, "--audit-log-mode", "blocking"}})
	for _, namespace := range []string{"crowsnest", "capi-system"} {
		c.lab.Namespace(namespace)
	}
	c.lab.ClusterAPI()
	c.admin = c.lab.Kubeconfig("", kubelab.Admin)
	out, err := exec.Command(c.kubectl, "--kubeconfig", c.admin, "api-resources", "-o", "name").Output()
	require.NoError(t, err)
	c.served = strings.Fields(string(out))
	for mode, text := range rendered(t) {
		t.Run(mode, func(t *testing.T) { c.play(t, text) })
	}
}

type realCluster struct {
	lab                           *kubelab.Lab
	kubectl, binary, admin, audit string
	served                        []string // kinds, as RESOURCE.GROUP
}

// play runs the aggregator of manifests, or both.
func (c *realCluster) play(t *testing.T, text string) {
	read := c.size(t)
	account, config := aggregatorOf(t, text)
	c.grant(t, text, account)
	names, pair := []string{"a"}, config["high_availability"] != nil
	if pair {
		names = []string{"a", "b"}
	}
	place := podFiles(t, text)
	agents := make([]string, len(names))
	daemons := make([]*daemon.Daemon, len(names))
	for i, name := range names {
		daemons[i], agents[i] = c.aggregator(t, name, account, config, place)
	}
	token := ""
	if of, ok := at(config, "sources", "agents", "token_review", "service_account").(string); ok {
		namespace, name, _ := strings.Cut(of, "/")
		token = c.lab.Token(namespace, name, "crowsnest")
	}
	want, missing := c.wants(config), []string{}
	ok := wait.Until(time.Minute, func() bool {
		for _, addr := range agents {
			present(t, addr, token)
		}
		allowed, denied := c.asked(t, read, account)
		require.Empty(t, denied, "its rights do not allow this")
		missing = slices.DeleteFunc(slices.Clone(want), func(request string) bool { return allowed[request] })
		return len(missing) == 0 && (!pair || slices.ContainsFunc(daemons, func(d *daemon.Daemon) bool {
			return strings.Contains(d.Log(), "the standby has the state of the leader")
		}))
	})
	if !ok {
		for _, d := range daemons {
			t.Log(d.LogEnd())
		}
		require.Empty(t, missing, "what it has not asked for")
		require.Fail(t, "the standby lacks the state of the leader")
	}
}

// grant creates the accounts and the rights of manifests until the test ends.
func (c *realCluster) grant(t *testing.T, text string, account serviceAccount) {
	var rights bytes.Buffer
	for _, o := range manifests.Objects(t, text) {
		if kind := o["kind"].(string); kind == "ServiceAccount" || strings.Contains(kind, "Role") {
			doc, err := yaml.Marshal(o)
			require.NoError(t, err)
			fmt.Fprintf(&rights, "---\n%s", doc)
		}
	}
	run := func(args ...string) {
		cmd := exec.Command(c.kubectl, append([]string{"--kubeconfig", c.admin}, args...)...)
		cmd.Stdin = bytes.NewReader(rights.Bytes())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	run("apply", "-f", "-")
	t.Cleanup(func() {
		run("delete", "--wait=false", "-f", "-")
		run("delete", "leases", "--all", "-n", account.namespace)
	})
}

type serviceAccount struct{ namespace, name string }

// aggregatorOf returns the service account and the configuration of the aggregator.
func aggregatorOf(t *testing.T, text string) (account serviceAccount, config map[string]any) {
	all := manifests.Objects(t, text)
	for _, o := range all {
		spec, ok := at(o, "spec", "template", "spec").(map[string]any)
		if !ok || o["kind"] == "DaemonSet" || o["kind"] == "Job" {
			continue
		}
		for _, v := range spec["volumes"].([]any) {
			for _, m := range all {
				if m["kind"] == "ConfigMap" && at(v, "name") == "config" && at(m, "metadata", "name") == at(v, "configMap", "name") {
					require.Empty(t, config, "there is one aggregator")
					account = serviceAccount{at(o, "metadata", "namespace").(string), spec["serviceAccountName"].(string)}
					require.NoError(t, yaml.Unmarshal([]byte(at(m, "data", "crowsnest.yml").(string)), &config))
				}
			}
		}
	}
	require.NotEmpty(t, config)
	return account, config
}

// aggregator starts an aggregator with the files of its pod, and returns the address for its agents, "" without any.
func (c *realCluster) aggregator(t *testing.T, name string, account serviceAccount, shipped map[string]any, place *strings.Replacer) (d *daemon.Daemon, agents string) {
	free := func() string {
		addr, err := daemon.FreeAddr()
		require.NoError(t, err)
		return addr
	}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	d = &daemon.Daemon{Binary: c.binary, Dir: t.TempDir(), Addr: free(), Prepare: func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "POD_NAMESPACE="+account.namespace, "POD_NAME="+account.name+"-"+name, "POD_IP=127.0.0.1")
	}}
	text, err := yaml.Marshal(shipped)
	require.NoError(t, err)
	token := filepath.Join(d.Dir, "token")
	require.NoError(t, os.WriteFile(token, []byte(c.lab.Token(account.namespace, account.name, "crowsnest-standby")), 0o600))
	var config map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(place.Replace(strings.ReplaceAll(string(text), "/var/run/secrets/crowsnest-standby/token", token))), &config))
	kubeconfig := c.lab.Kubeconfig("", c.lab.Token(account.namespace, account.name))
	for _, path := range readers {
		set(config, path, "kubeconfig", kubeconfig)
	}
	if set(config, []string{"sources", "agents"}, "listen_address", free()) {
		agents = at(config, "sources", "agents", "listen_address").(string)
	}
	set(config, []string{"high_availability"}, "listen_address", free())
	set(config, []string{"sources", "loki"}, "url", serve(fakeloki.New()))
	set(config, []string{"sinks", "alertmanager"}, "urls", []string{serve(fakeam.New())})
	delete(config, "storage") // a flag names it
	text, err = yaml.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, d.Configure(string(text)))
	require.NoError(t, d.Start())
	t.Cleanup(func() { _, _ = d.End(syscall.SIGTERM) })
	return d, agents
}

// readers are the parts of a configuration that use the API.
var readers = [][]string{
	{"sources", "agents", "token_review"},
	{"sources", "agents", "nodes"},
	{"sources", "kubernetes"},
	{"sources", "objects"},
	{"sources", "events"},
	{"high_availability", "lease"},
	{"high_availability", "token_review"},
}

// set sets a key of a section, and reports whether there is that section.
func set(config map[string]any, path []string, key string, value any) bool {
	for _, name := range path {
		next, there := config[name]
		if !there {
			return false
		}
		section, ok := next.(map[string]any)
		if !ok {
			section = map[string]any{}
			config[name] = section
		}
		config = section
	}
	config[key] = value
	return true
}

// wants returns the requests that follow from a configuration, of kinds that the API server has.
func (c *realCluster) wants(config map[string]any) (out []string) {
	requests := [][]string{
		{"create tokenreviews"},
		{"list nodes", "watch nodes"},
		{"list pods", "watch pods"},
		nil,
		{"list events", "watch events"},
		{"create leases", "get leases", "update leases"},
		{"create tokenreviews"},
	}
	for i, path := range readers {
		section := at(config, path...)
		if section == nil {
			continue
		}
		out = append(out, requests[i]...)
		if path[1] == "objects" {
			kinds := source.DefaultKinds()
			if named, ok := at(section, "kinds").([]any); ok {
				kinds = nil
				for _, kind := range named {
					kinds = append(kinds, kind.(string))
				}
			}
			for _, kind := range kinds {
				if resource, _, _ := strings.Cut(kind, "."); slices.Contains(c.served, kind) {
					out = append(out, "list "+resource)
				}
			}
		}
	}
	return out
}

// present shows an aggregator the token of an agent, which it has reviewed.
func present(t *testing.T, addr, token string) {
	if addr == "" || token == "" {
		return
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+wire.Path, strings.NewReader("none"))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	if res, err := client.Do(req); err == nil { // it may not listen yet, or stand by
		res.Body.Close()
	}
}

func (c *realCluster) size(t *testing.T) int64 {
	info, err := os.Stat(c.audit)
	require.NoError(t, err)
	return info.Size()
}

// asked returns the requests of an account that the API server answered since the audit log had a size.
func (c *realCluster) asked(t *testing.T, since int64, account serviceAccount) (allowed map[string]bool, denied []string) {
	f, err := os.Open(c.audit)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Seek(since, 0)
	require.NoError(t, err)
	allowed = map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct {
			Verb       string
			RequestURI string
			User       struct{ Username string }
			ObjectRef  struct{ Resource, Subresource string }
			Response   struct{ Code int } `json:"responseStatus"`
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.User.Username != "system:serviceaccount:"+account.namespace+":"+account.name {
			continue // it is being written, or of another one
		}
		switch e.Response.Code {
		case http.StatusForbidden:
			denied = append(denied, e.Verb+" "+e.RequestURI)
		default:
			allowed[e.Verb+" "+e.ObjectRef.Resource] = true
		}
	}
	return allowed, denied
}
