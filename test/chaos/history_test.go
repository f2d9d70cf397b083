package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/web"
)

const historyConfig = `global: {external_labels: {cluster: chaos}}
rules: {shipped: false, paths: [%s]}
sources: {kubelet: {dir: %s}}
sinks: {stdout: {}}
limits: {active_alerts: 10000, alerts_per_namespace: 10000}
`

const historyPack = `pack: {name: past, version: 0.1.0, rules: 1}
rules:
- alert: Lost
  from: '{container="app"}'
  match: {regex: 'lost id=(?P<id>\w+)', contains: 'lost id='}
  clear: {regex: 'back id=(?P<id>\w+)', contains: 'back id='}
  by: [id]
  severity: warning
  tests:
  - name: fires
    stream: {namespace: chaos, container: app}
    input: [{at: 0s, line: "lost id=1"}, {at: 5s, line: "back id=1"}]
    expect: [{at: 1s, firing: [{alertname: Lost, id: "1"}]}, {at: 6s, firing: []}]
`

// ended is an alert as it was written to the log.
type ended struct{ from, to time.Time }

// losses writes to the log of a pod what is lost and comes back.
type losses struct {
	t    *testing.T
	rng  *rand.Rand
	log  *os.File
	all  map[string]*ended // by ID
	open []string
}

func newLosses(t *testing.T, pods string, rng *rand.Rand) *losses {
	t.Helper()
	dir := filepath.Join(pods, "chaos_app-0_1b2c", "app")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	f, err := os.OpenFile(filepath.Join(dir, "0.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return &losses{t: t, rng: rng, log: f, all: map[string]*ended{}}
}

func (l *losses) write(what, id string) time.Time {
	at := time.Now().UTC()
	_, err := fmt.Fprintf(l.log, "%s stderr F %s id=%s\n", at.Format(time.RFC3339Nano), what, id)
	require.NoError(l.t, err)
	return at
}

func (l *losses) lose() {
	id := fmt.Sprintf("n%04d", len(l.all))
	l.all[id] = &ended{from: l.write("lost", id)}
	l.open = append(l.open, id)
}

func (l *losses) recover(i int) {
	l.all[l.open[i]].to = l.write("back", l.open[i])
	l.open = append(l.open[:i], l.open[i+1:]...)
}

// step writes a line and waits a moment.
func (l *losses) step() {
	if len(l.open) > 0 && l.rng.IntN(2) == 0 {
		l.recover(l.rng.IntN(len(l.open)))
	} else {
		l.lose()
	}
	pause(time.Duration(l.rng.IntN(60)) * time.Millisecond)
}

// require requires that a history has each alert once, with the times of its lines.
func (l *losses) require(past []web.PastEpisode) {
	l.t.Helper()
	require.Len(l.t, past, len(l.all), "each is in the history once")
	for _, e := range past {
		w := l.all[e.Labels["id"]]
		require.NotNil(l.t, w)
		require.True(l.t, w.from.Equal(e.StartsAt), "%s began at %s, not %s", e.Labels["id"], w.from, e.StartsAt)
		require.True(l.t, w.to.Equal(e.EndsAt), "%s ended at %s, not %s", e.Labels["id"], w.to, e.EndsAt)
		require.Equal(l.t, "chaos", e.Labels["cluster"])
	}
}

// The daemon is killed at any moment while alerts end. Each is in the history exactly
// once, with the times of its lines.
func TestHistoryKilled(t *testing.T) {
	t.Parallel()
	kills := 3
	if long {
		kills = 50
	}
	dir := folder(t)
	pods, pack := filepath.Join(dir, "pods"), filepath.Join(dir, "past.yaml")
	require.NoError(t, os.WriteFile(pack, []byte(historyPack), 0o600))
	l := newLosses(t, pods, rand.New(rand.NewPCG(seed(t), 11)))
	p := newProcess(t, dir, fmt.Sprintf(historyConfig, pack, pods))
	for range kills {
		p.start()
		p.ready()
		for range 40 {
			l.step()
		}
		p.kill()
	}
	for len(l.open) > 0 {
		l.recover(0)
	}
	l.require(pastAfter(t, p, len(l.all)))
	p.kill() // once more, with what was saved
	l.require(pastAfter(t, p, len(l.all)))
	t.Logf("%d alerts ended over %d kills", len(l.all), kills+1)
}

// pastAfter starts the daemon and returns its history once it has n episodes: the end of
// some may have to be concluded again.
func pastAfter(t *testing.T, p *process, n int) (all []web.PastEpisode) {
	t.Helper()
	p.start()
	p.ready()
	eventually(t, 30*time.Second, "the history is complete after a kill", func() bool {
		all = pastOf(t, p)
		return len(all) >= n
	})
	return all
}

// pastOf returns the whole history, page by page.
func pastOf(t *testing.T, p *process) (all []web.PastEpisode) {
	t.Helper()
	next := ""
	for {
		res, err := http.Get("http://" + p.Addr + "/api/v1/history?filter=alertname%3DLost&limit=50&after=" + next)
		require.NoError(t, err)
		var answer struct{ Data web.History }
		err = json.NewDecoder(res.Body).Decode(&answer)
		require.NoError(t, res.Body.Close())
		require.NoError(t, err)
		all = append(all, answer.Data.Episodes...)
		if next = answer.Data.Next; next == "" {
			return all
		}
	}
}
