package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const webhookConfig = `rules:
  shipped: false
  paths: [%s]
sources:
  files: {paths: [{path: %s, labels: {namespace: chaos, pod: plain, container: chaos}}], from_start: true}
sinks:
  webhook: {url: "%s"}
limits: {active_alerts: 10000, alerts_per_namespace: 10000}
`

// The webhook sink is killed at any moment while alerts open. Every opening
// arrives. One may arrive twice only if the kill came before the receiver's
// answer was on disk: at most one request per kill, and with the same startsAt, although
// the lines have no times.
func TestWebhookKilled(t *testing.T) {
	t.Parallel()
	kills := 2
	if long {
		kills = 25
	}
	var mu sync.Mutex
	opened := map[string]int{}
	starts := map[string]map[string]bool{}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var p struct {
			Alerts []struct {
				Event    string
				Labels   map[string]string
				StartsAt string
			}
		}
		if json.NewDecoder(r.Body).Decode(&p) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range p.Alerts {
			if a.Event == "opened" && a.Labels["alertname"] == "ChaosPlanted" {
				id := a.Labels["id"]
				if starts[id] == nil {
					starts[id] = map[string]bool{}
				}
				opened[id]++
				starts[id][a.StartsAt] = true
			}
		}
	}))
	t.Cleanup(hook.Close)
	dir := folder(t)
	rng := rand.New(rand.NewPCG(seed(t), 6))
	rules, err := filepath.Abs("testdata/chaos.yaml")
	require.NoError(t, err)
	path := filepath.Join(dir, "app.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	require.NoError(t, err)
	defer f.Close()
	p := newProcess(t, dir, fmt.Sprintf(webhookConfig, rules, path, hook.URL))
	written := 0
	write := func(n int) {
		for range n {
			written++
			_, err := fmt.Fprintf(f, "planted detection id=w%05d;\n", written)
			require.NoError(t, err)
			pause(time.Duration(rng.IntN(400)) * time.Millisecond)
		}
	}
	for range kills {
		p.start()
		p.ready()
		write(9)
		p.kill()
	}
	p.start()
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(opened) == written
	}
	eventually(t, 30*time.Second, "every opening arrives once or more", all)
	p.term()
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for _, n := range opened {
		twice += n - 1
	}
	t.Logf("%d openings over %d kills, %d of them twice", written, kills, twice)
	require.LessOrEqual(t, twice, kills)
	for id, of := range starts {
		require.Len(t, of, 1, "startsAt of %s identifies the message over kills", id)
	}
}
