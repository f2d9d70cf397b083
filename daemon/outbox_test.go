package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/episodes"
	"crowsnest/sinks/webhook"
	"crowsnest/sources/files"
)

// Conclusions leave in order, when the standby has them or after a while.
func TestOutbox(t *testing.T) {
	var sent []string
	urgent := 0
	o := &outbox{saveSoon: func() { urgent++ }, send: func(eps []episodes.Episode) { sent = append(sent, eps[0].Alert) }}
	now := time.Now()
	fire := func(name string, age time.Duration) {
		o.add([]episodes.Episode{{Alert: name, State: episodes.StateFiring, FiredAt: now.Add(-age)}}, now)
	}
	fire("A", 0)
	require.Equal(t, 1, urgent)
	fire("B", time.Minute)
	require.Equal(t, 1, urgent, "a changed text is not urgent")
	upTo := o.newestSeq()
	o.add([]episodes.Episode{{Alert: "C", State: episodes.StateResolved}}, now)
	require.Equal(t, 2, urgent)
	o.sendOverdue(now.Add(-time.Second)) // the tick began before
	require.Empty(t, sent)
	o.sendUpTo(upTo)
	require.Equal(t, []string{"A", "B"}, sent)
	o.sendOverdue(now.Add(heldAtMost - time.Millisecond))
	require.Len(t, sent, 2)
	o.sendOverdue(now.Add(heldAtMost))
	require.Equal(t, []string{"A", "B", "C"}, sent)
	var none *outbox
	none.sendUpTo(none.newestSeq())
	none.sendOverdue(now)
}

// A webhook gets an alert once it is on disk: lines without times that are read again after a
// kill would begin it at another time, and its deduplication key would change.
func TestAWebhookGetsWhatASnapshotHas(t *testing.T) {
	s := newShip(t)
	var mu sync.Mutex
	var starts []time.Time
	killed := t.TempDir()
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got struct {
			Alerts []struct {
				Labels   map[string]string
				StartsAt time.Time
				Event    string
			}
		}
		if json.NewDecoder(r.Body).Decode(&got) != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range got.Alerts {
			if a.Labels["alertname"] == "A" && a.Event == "opened" {
				if len(starts) == 0 { // the state that a killed process leaves
					_ = os.CopyFS(killed+"/state", os.DirFS(s.dir+"/state"))
				}
				starts = append(starts, a.StartsAt)
			}
		}
	}))
	t.Cleanup(hook.Close)
	dir := s.dir
	s.cfg = func(c *config.Config) {
		c.Sources.All, c.Sinks.All = nil, nil
		c.Sources.Add(&files.Config{Paths: []files.Path{{Path: dir + "/app.log", Labels: map[string]string{"container": "syncer", "namespace": "a"}}}, FromStart: true})
		c.Sinks.Add(&webhook.Config{URL: commonconfig.Secret(hook.URL)})
	}
	require.NoError(t, os.WriteFile(dir+"/app.log", []byte("well\n"), 0o644))
	s.start()
	s.eventually(func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(body, `source_lines_total{source="files"} 1`)
	}, "it reads")
	require.NoError(t, os.WriteFile(dir+"/app.log", []byte("well\ntext of a\n"), 0o644))
	opened := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(starts) >= n
		}
	}
	s.eventually(opened(1), "opened")
	s.stop()
	s.dir = killed
	s.start()
	s.eventually(opened(2), "sent again: the answer was not on disk")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, starts[0], starts[1])
}
