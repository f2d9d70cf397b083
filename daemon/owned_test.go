package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/daemon/configmaps"
	"crowsnest/daemon/lead"
	"crowsnest/daemon/loader"
	"crowsnest/rules"
	"crowsnest/sources/kubelet"
)

// The rules of a team are bound to the cluster of its ConfigMap, also after a restart with another configuration.
func TestClusterOfOwnedRules(t *testing.T) {
	file := rules.File{Name: "configmap:a/rules/p.yaml", Namespace: "a", Cluster: "old"}
	for _, test := range []struct{ label, key, want string }{{"", "", ""}, {"east", "", "east"}, {"east", "west", "west"}, {"", "west", "west"}} {
		cfg := config.Default()
		cfg.Rules.ConfigMaps = &configmaps.Settings{Cluster: test.key}
		if test.label != "" {
			cfg.Global.ExternalLabels = map[string]string{"cluster": test.label}
		}
		d := &Daemon{opt: Options{Cfg: cfg}}
		d.configMaps = d.newConfigMaps(cfg.Rules.ConfigMaps)
		kept := d.keptFiles([]rules.File{file, {Name: "mine.yaml"}})
		require.Equal(t, []string{test.want, ""}, []string{kept[0].Cluster, kept[1].Cluster}, "%+v", test)
	}
}

// apiServer returns the path of a kubeconfig of an API server with one ConfigMap, which contains a pack.
func apiServer(t *testing.T, namespace, pack string) string {
	item, err := json.Marshal(map[string]any{"metadata": map[string]string{"name": "rules", "namespace": namespace, "uid": "u", "resourceVersion": "1"}, "data": map[string]string{"p.yaml": pack}})
	require.NoError(t, err)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/api/v1/configmaps":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"metadata": {"resourceVersion": "1"}, "items": [%s]}`, item)
		}
	}))
	t.Cleanup(srv.Close)
	return kubeconfig(t, srv.URL)
}

func kubeconfig(t *testing.T, server string) string {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: c\n", server)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A standby that has never read the ConfigMaps keeps the alerts of their rules when it takes over.
func TestStandbyHasTheOwnedRulesOfItsLeader(t *testing.T) {
	leader, standby := newShip(t), oneOfShips(t)
	standby.am, standby.rules = leader.am, leader.rules
	pack := "pack: {name: p}\nrules:\n- alert: T\n  from: '{container=\"syncer\"}'\n  match: text of the team\n  severity: critical\n"
	folder := t.TempDir()
	pair := func(api string) func(*config.Config) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := l.Addr().String()
		require.NoError(t, l.Close())
		return func(c *config.Config) {
			c.Rules.ConfigMaps = &configmaps.Settings{Selector: "a=b", Kubeconfig: api}
			c.Sources = config.Default().Sources
			c.Sources.Add(&kubelet.Config{Dir: leader.dir + "/pods"})
			c.HighAvailability = &lead.Settings{SharedFolder: folder, ListenAddress: address, AdvertiseURL: "http://" + address, LeaseDuration: 3 * time.Second}
		}
	}
	leader.cfg, standby.cfg = pair(apiServer(t, "team-a", pack)), pair(kubeconfig(t, "http://127.0.0.1:1"))
	owned := func(s *ship) int {
		s.d.reloading.Lock()
		defer s.d.reloading.Unlock()
		return len(s.d.loader.OwnedInForce())
	}
	leader.start()
	leader.eventually(func() bool { return owned(leader) == 1 }, "the leader has the rules")
	leader.log("p", "text of the team")
	leader.eventually(func() bool { return len(leader.am.firing("T")) == 1 }, "the rule fires")

	standby.start()
	standby.eventually(func() bool { return owned(standby) == 1 }, "the standby has the rules")
	require.Len(t, loaderFiles(standby), 1, "the rules are on its disk")
	leader.stop()
	standby.eventually(func() bool { return standby.d.pair.isLeading() && standby.d.restored.Load() }, "the standby takes over")
	standby.eventually(func() bool {
		_, open := standby.get("/api/v1/alerts?filter=alertname%3DT")
		var answer struct {
			Data struct{ Alerts []any }
		}
		return json.Unmarshal([]byte(open), &answer) == nil && len(answer.Data.Alerts) == 1
	}, "the alert is open")
	require.False(t, standby.am.resolved("T"))
}

// loaderFiles returns the rule files of namespaces that a daemon would use after a restart.
func loaderFiles(s *ship) (out []rules.File) {
	for _, f := range loader.LastGood(s.d.saver.dir) {
		if f.Namespace != "" {
			out = append(out, f)
		}
	}
	return out
}
