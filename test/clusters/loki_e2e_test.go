//go:build e2e

package clusters

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/lokilab"
	"crowsnest/test/servers"
	"crowsnest/web"
)

// Five clusters, a stream without the label cluster and one with a tenant, all with the same
// namespaces and pods, read by one daemon from a real Loki, with cut connections and kills:
// nothing is mixed.
func TestClustersInLokiAreNotMixed(t *testing.T) {
	w := newWorld(t)
	rules := filepath.Join(t.TempDir(), "mixing.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(pack), 0o600))
	l := servers.Loki(t, servers.LokiOptions{})
	px, err := lokilab.NewProxy(l.URL)
	require.NoError(t, err)
	defer px.Close()
	d := w.start(fmt.Sprintf(`
sources: {loki: {url: %q, selector: '{container="manager"}'}}
sinks: {alertmanager: {urls: [%q]}}
rules: {shipped: false, paths: [%q]}
`, px.URL, w.url, rules))
	w.warm(d)
	writer := lokilab.Writer{URL: l.URL}
	list := func(t *testing.T) []web.Episode {
		body, err := d.Get(t.Context(), "/api/v1/episodes?state=firing")
		if err != nil {
			return nil // it was killed
		}
		all, err := episodesIn(body)
		require.NoError(t, err)
		return all
	}
	m := &mixing{w: w, seed: 5, steps: stepsOf(30)}
	for _, is := range []map[string]string{
		{"cluster": "c0"}, {"cluster": "c1"}, {"cluster": "c2"}, {"cluster": "c3"}, {"cluster": "c4"}, {}, {"cluster": "c0", "tenant": "t"}, {"tenant": "t"},
	} {
		m.places = append(m.places, place{name: where(is), is: is, list: list, log: func(t *testing.T, pod, text string) {
			labels := map[string]string{"namespace": "kube-system", "pod": pod, "container": "manager"}
			maps.Copy(labels, is)
			s := lokilab.Stream{Labels: labels}
			s.Add(time.Now(), text)
			require.NoError(t, writer.Push(t.Context(), []lokilab.Stream{s}))
		}})
	}
	m.cut = func(step int) {
		if step%3 == 0 {
			px.Cut()
		}
		if step%15 == 7 {
			_, _ = d.End(syscall.SIGKILL)
			require.NoError(t, d.Start())
		}
	}
	m.run()
}

// where formats labels of a place.
func where(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, ",")
}
