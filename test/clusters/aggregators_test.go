package clusters

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/lokilab"
	"crowsnest/web"
)

func unmarshal(body string, into any) error { return json.Unmarshal([]byte(body), into) }

// site is a cluster with an aggregator and an agent.
type site struct {
	name              string
	pods              string // folder of logs
	aggregator, agent *daemon.Daemon
	between           *lokilab.Proxy // from the agent to the aggregator
}

func (w *world) site(name, rules string) *site {
	w.Helper()
	s := &site{name: name, pods: filepath.Join(w.TempDir(), "pods")}
	for _, pod := range pods {
		require.NoError(w, os.MkdirAll(filepath.Join(s.pods, "kube-system_"+pod+"_1", "manager"), 0o755))
	}
	listen, err := daemon.FreeAddr()
	require.NoError(w, err)
	s.aggregator = w.start(fmt.Sprintf(`
global: {external_labels: {cluster: %q}}
sources: {agents: {listen_address: %q}}
sinks: {alertmanager: {urls: [%q]}}
rules: {shipped: false, paths: [%q]}
`, name, listen, w.url, rules))
	s.between, err = lokilab.NewProxy("http://" + listen)
	require.NoError(w, err)
	w.Cleanup(s.between.Close)
	s.agent = w.start(fmt.Sprintf("sources: {kubelet: {dir: %q}}\nsinks: {upstream: {url: %q, node: node-1}}\nrules: {shipped: false, paths: [%q]}\n", s.pods, s.between.URL, rules))
	return s
}

func (s *site) log(t *testing.T, pod, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(s.pods, "kube-system_"+pod+"_1", "manager", "0.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s stderr F %s\n", time.Now().UTC().Format(time.RFC3339Nano), text)
	require.NoError(t, err)
}

// Five clusters with the same nodes, namespaces and pods and an aggregator each, with cut
// connections and kills: nothing is mixed.
func TestClustersWithAggregatorsAreNotMixed(t *testing.T) {
	w := newWorld(t)
	rules := filepath.Join(t.TempDir(), "mixing.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(pack), 0o600))
	var sites []*site
	m := &mixing{w: w, seed: 3, steps: stepsOf(18)}
	for i := range 5 {
		s := w.site(fmt.Sprintf("c%d", i), rules)
		sites = append(sites, s)
		m.places = append(m.places, place{
			name: s.name, is: map[string]string{"cluster": s.name}, log: s.log,
			list: func(t *testing.T) []web.Episode {
				body, err := s.aggregator.Get(t.Context(), "/api/v1/episodes?state=firing")
				if err != nil {
					return nil // it was killed
				}
				all, err := episodesIn(body)
				require.NoError(t, err)
				return all
			},
		})
	}
	for _, s := range sites {
		w.warm(s.aggregator)
	}
	m.cut = func(step int) {
		s := sites[step%len(sites)]
		if step%4 == 0 {
			s.between.Cut()
		}
		if step%15 == 7 {
			_, _ = s.aggregator.End(syscall.SIGKILL)
			require.NoError(t, s.aggregator.Start())
		}
		if step%15 == 14 {
			_, _ = s.agent.End(syscall.SIGKILL)
			require.NoError(t, s.agent.Start())
		}
	}
	m.run()
}
