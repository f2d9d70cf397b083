//go:build e2e

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/lokilab"
	"crowsnest/test/servers"
)

// lokiRun is a daemon that reads from Loki and is killed now and then.
type lokiRun struct {
	t       *testing.T
	bin     string
	dir     string
	address string
	cmd     *exec.Cmd
	kills   int
}

// newLokiRun writes the files of a daemon.
func newLokiRun(t *testing.T, loki, am string) *lokiRun {
	t.Helper()
	r := &lokiRun{t: t, bin: build(t), dir: t.TempDir(), address: fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
	}
	write("rules.yaml", `pack: {name: run}
rules:
- {alert: Bad, from: '{app="a"}', match: " bad line", by: [pod], keep_firing_for: 5h, severity: warning}
`)
	write("c.yml", fmt.Sprintf(`rules: {shipped: true, paths: [rules.yaml]}
sources: {loki: {url: %q, selector: '{app=~".+"}', look_back: 30m}}
sinks: {alertmanager: {urls: [%q]}}
storage: {path: state}
`, loki, am))
	return r
}

func (r *lokiRun) start() {
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(r.t, err)
	defer log.Close()
	r.cmd = exec.Command(r.bin, "run", "--config.file="+filepath.Join(r.dir, "c.yml"), "--web.listen-address="+r.address)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	require.NoError(r.t, r.cmd.Start())
}

func (r *lokiRun) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	r.kills++
}

// counts returns the number of lines of the open alerts, by pod.
func (r *lokiRun) counts() map[string]int64 {
	out := map[string]int64{}
	resp, err := http.Get("http://" + r.address + "/api/v1/episodes")
	if err != nil {
		return out
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	var said struct {
		Data struct {
			Episodes []struct {
				Alert  string            `json:"alert"`
				State  string            `json:"state"`
				Labels map[string]string `json:"labels"`
				Count  int64             `json:"count"`
			} `json:"episodes"`
		} `json:"data"`
	}
	require.NoError(r.t, json.Unmarshal(body, &said), string(body))
	for _, e := range said.Data.Episodes {
		if e.Alert == "Bad" && e.State == "firing" {
			out[e.Labels["pod"]] += e.Count
		}
	}
	return out
}

// Lines at 2,000 a second, 1 % of which a rule wants and 1 % come up to five
// minutes late, while connections drop every 1, 7 and 60 s, Loki is killed
// twice and the daemon every half minute: every alert has counted each of its
// lines once, and each was sent once. CROWSNEST_LOKI_RUN is the duration, by default
// one minute.
func TestE2ELoki(t *testing.T) {
	run := time.Minute
	if text := os.Getenv("CROWSNEST_LOKI_RUN"); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		run = d
	}
	l := servers.Loki(t, servers.LokiOptions{})
	px, err := lokilab.NewProxy(l.URL)
	require.NoError(t, err)
	defer px.Close()
	am, err := fakeam.Serve(fakeam.New())
	require.NoError(t, err)
	defer am.Stop()
	r := newLokiRun(t, px.URL, am.URL)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &lokilab.Writer{URL: l.URL, Rate: 2000, Bad: 1, Late: 5 * time.Minute}
	want := r.oldest(ctx, w)
	r.start()
	defer func() { r.kill() }()
	require.Eventually(t, func() bool { return len(r.counts()) == 20 }, time.Minute, 100*time.Millisecond)

	var bad []lokilab.Line
	done := make(chan error)
	go func() {
		var err error
		bad, err = w.Run(ctx, run)
		done <- err
	}()
	r.disturb(px, l, time.Now(), run)
	require.NoError(t, <-done)
	for _, line := range bad {
		want[line.Pod]++
	}
	pushed := time.Now()
	complete := func() bool {
		have := r.counts()
		for pod, n := range want {
			if have[pod] < n {
				return false
			}
		}
		return true
	}
	ok := waitFor(complete, time.Minute)
	caught := time.Since(pushed)
	waitFor(func() bool { return false }, 20*time.Second) // doubles come with the next slow rounds
	t.Logf("%d lines, %d of them wanted, in %s; %d cuts, 2 kills of Loki, %d of the daemon, %d pushes tried again; complete %t %s after the last push",
		w.Pushed, len(bad), run, px.Cuts(), r.kills, w.Retries, ok, caught.Round(100*time.Millisecond))
	require.Equal(t, want, r.counts())
	for _, word := range am.AM.Accepted("Bad") {
		require.False(t, word.Resolved)
	}
	log, err := os.ReadFile(filepath.Join(r.dir, "log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), "lines were lost")
	t.Logf("alerts were sent %d times; most memory of the last process: %s", len(am.AM.Accepted("Bad")), r.memory())
}

// memory returns the most memory that the process had.
func (r *lokiRun) memory() string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	require.NoError(r.t, err)
	_, peak, _ := strings.Cut(string(b), "VmHWM:")
	peak, _, _ = strings.Cut(peak, "\n")
	return strings.TrimSpace(peak)
}

// oldest pushes one line of each pod that is older than all others, so that none
// is older than its alert. It returns how often each pod is to be counted.
func (r *lokiRun) oldest(ctx context.Context, w *lokilab.Writer) map[string]int64 {
	want := map[string]int64{}
	var first []lokilab.Stream
	for k := range 20 {
		s := lokilab.Stream{Labels: map[string]string{"app": "a", "pod": fmt.Sprint("p", k)}}
		s.Add(time.Now().Add(-6*time.Minute), "the first bad line")
		first = append(first, s)
		want[fmt.Sprint("p", k)] = 1
	}
	require.NoError(r.t, w.Push(ctx, first))
	return want
}

// disturb cuts connections and kills processes until the run is over.
func (r *lokiRun) disturb(px *lokilab.Proxy, l *servers.LokiServer, began time.Time, run time.Duration) {
	lokiKills := []time.Duration{run * 3 / 10, run * 7 / 10}
	nextKill := 15 * time.Second
	for {
		ran := time.Since(began)
		if ran >= run {
			return
		}
		every := []time.Duration{time.Second, 7 * time.Second, time.Minute}[min(2, int(3*ran/run))]
		waitFor(func() bool { return false }, min(every, run-ran))
		px.Cut()
		if ran = time.Since(began); len(lokiKills) > 0 && ran > lokiKills[0] {
			lokiKills = lokiKills[1:]
			l.Kill()
			waitFor(func() bool { return false }, 2*time.Second)
			l.Start()
		}
		if ran > nextKill {
			nextKill = ran + 20*time.Second + rand.N(20*time.Second)
			r.kill()
			r.start()
		}
	}
}

// waitFor waits until f holds, and tells whether it does.
func waitFor(f func() bool, d time.Duration) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-end.C:
			return false
		case <-tick.C:
		}
	}
	return true
}
