package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const copyConfig = `rules:
  shipped: false
  paths: [testdata/chaos.yaml]
sources:
  files: {paths: [{path: %s, labels: {namespace: chaos, pod: plain, container: chaos}}], from_start: true}
sinks:
  alertmanager: {urls: ["%s"], resend_delay: 5s, min_firing: 2s}
limits: {active_alerts: 10000, alerts_per_namespace: 10000}
`

// A log is copied and truncated at any moment, while the daemon runs or is
// down, and grows again to a smaller, equal or larger size. Every line in the
// log or its copy arrives; without a copy, only unread lines may be missing,
// and they are counted.
func TestCopyTruncate(t *testing.T) {
	t.Parallel()
	rounds := 6
	if long {
		rounds = 60
	}
	dir := folder(t)
	rng := rand.New(rand.NewPCG(seed(t), 5))
	am := serve(t)
	logs := filepath.Join(dir, "logs")
	require.NoError(t, os.Mkdir(logs, 0o755))
	rules, err := filepath.Abs("testdata/chaos.yaml")
	require.NoError(t, err)
	path := filepath.Join(logs, "app.log")
	text := strings.Replace(fmt.Sprintf(copyConfig, path, am.URL), "testdata/chaos.yaml", rules, 1)
	p := newProcess(t, dir, text)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	require.NoError(t, err)
	defer f.Close()
	ids, surely := 0, map[string]bool{} // ids that must arrive
	write := func(n int) (written []string) {
		for range n {
			ids++
			id := fmt.Sprintf("c%05d", ids)
			_, err := fmt.Fprintf(f, "planted detection id=%s; %s\n", id, strings.Repeat("x", 60))
			require.NoError(t, err)
			written = append(written, id)
		}
		return written
	}
	expect := func(written []string) {
		for _, id := range written {
			surely[id] = true
		}
	}
	arrived := func() map[string]*heard { return hear(am.AM) }
	missing := func() (out []string) {
		got := arrived()
		for id := range surely {
			if got["ChaosPlanted "+id] == nil {
				out = append(out, id)
			}
		}
		return out
	}
	defer func() {
		if t.Failed() {
			fi, _ := f.Stat()
			t.Logf("missing %v; the log has %d bytes; sources: %v", missing(), fi.Size(), p.status())
		}
	}()
	p.start()
	p.ready()
	pending := write(20)
	gaps := 0
	for round := range rounds {
		copied, down := round%3 != 2, rng.IntN(2) == 0
		expect(pending)
		if copied {
			since := time.Now().Add(-10 * time.Second)
			eventually(t, 20*time.Second, "it is saved", func() bool {
				at, ok := p.savedAt()
				return ok && at.After(since)
			})
		} else { // only lines already read are certain, and only a saved position behind them shows their loss
			eventually(t, 15*time.Second, "what is there is read", func() bool { return len(missing()) == 0 })
			fi, err := f.Stat()
			require.NoError(t, err)
			eventually(t, 20*time.Second, "its end is saved", func() bool { return p.savedOffset(fi.Size()) })
		}
		if down {
			p.kill()
		}
		if copied {
			expect(write(rng.IntN(30))) // in the file only once it is copied
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			if _, err := os.Stat(path + ".1"); err == nil {
				require.NoError(t, os.Rename(path+".1", path+".2"))
			}
			require.NoError(t, os.WriteFile(path+".1", b, 0o644))
		}
		fi, err := f.Stat()
		require.NoError(t, err)
		require.NoError(t, f.Truncate(0))
		if !copied {
			gaps++
		}
		line := int64(len("planted detection id=c00000; \n") + 60)
		size := int(fi.Size() / line)
		pending = write([]int{max(1, size/2), size, size + 1 + rng.IntN(50)}[round%3*2%3])
		if down {
			p.start()
			p.ready()
		}
		pause(time.Duration(rng.IntN(1500)) * time.Millisecond)
		t.Logf("round %d: copied %v, down %v, %d lines before, %d after", round, copied, down, size, len(pending))
		expect(pending)
		eventually(t, 20*time.Second, "all of it arrives", func() bool { return len(missing()) == 0 })
		pending = write(5)
	}
	expect(pending)
	eventually(t, 20*time.Second, "the last lines arrive", func() bool { return len(missing()) == 0 })
	got := arrived()
	eventually(t, 20*time.Second, "what may be lost is said", func() bool {
		got = arrived()
		return got[gapAlert+"truncated"] != nil || got[gapAlert+"gap"] != nil
	})
	for key, h := range got {
		require.Equal(t, "firing", h.states, key)
	}
	for key := range got {
		id, planted := strings.CutPrefix(key, "ChaosPlanted ")
		require.True(t, planted && surely[id] || key == own[0] || strings.HasPrefix(key, gapAlert), key)
	}
	t.Logf("%d lines in %d rounds, %d of them without a copy", ids, rounds, gaps)
}

// status returns what the daemon reports about its sources.
func (p *process) status() string {
	body, err := p.Get(p.t.Context(), "/api/v1/sources")
	if err != nil {
		return err.Error()
	}
	return body
}
