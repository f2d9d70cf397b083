package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/wait"
)

// scene is a daemon with its environment.
type scene struct {
	t         *testing.T
	dir       string
	pods      string
	rules     string
	led       *ledger
	p         *process
	good, bad *fakeam.Server // the second one may fail
	pager     *pager         // nil: none
	writers   []*writer
	restarted map[*writer]time.Time
	churned   int
	heal      func() // ends the failure of bad
	wait      func() // ends the writers and waits for them
	began     time.Time
}

// options of a scene.
type options struct {
	writers int
	active  int // bound of open alerts; 0: enough for the plan
	load    load
	pager   bool
	resend  time.Duration
	shipped bool              // with the shipped rules, as in production
	packs   map[string]string // further packs, by file name
	sources string            // further sources, as lines of the configuration
}

const config = `rules:
  shipped: %v
  paths: [%s]
sources:
  kubelet: {dir: %s}
%ssinks:
  alertmanager: {urls: [%s], resend_delay: %s, min_firing: 2s}
limits: {active_alerts: %d}
`

// newScene starts the receivers and the writers, but not the daemon.
func newScene(t *testing.T, seed uint64, o options) *scene {
	t.Helper()
	dir := folder(t)
	s := &scene{
		t: t, dir: dir, pods: filepath.Join(dir, "pods"), rules: filepath.Join(dir, "rules"), led: newLedger(),
		good: serve(t), bad: serve(t), restarted: map[*writer]time.Time{}, heal: func() {}, began: time.Now(),
	}
	require.NoError(t, os.MkdirAll(s.pods, 0o755))
	s.writeRules(0)
	urls := []string{s.good.URL, s.bad.URL}
	if o.pager {
		if s.pager = newPager(t, dir); s.pager != nil {
			urls = append(urls, s.pager.am.URL)
		}
	}
	paths := []string{s.rules}
	for name, text := range o.packs {
		paths = append(paths, filepath.Join(dir, name))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if o.active == 0 {
		o.active = 10000
	}
	s.p = newProcess(t, dir, fmt.Sprintf(config, o.shipped, strings.Join(paths, ", "), s.pods, o.sources, `"`+strings.Join(urls, `", "`)+`"`, o.resend, o.active))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	s.wait = func() { cancel(); wg.Wait() }
	t.Cleanup(s.wait)
	for i := range o.writers {
		w := newWriter(s.pods, fmt.Sprintf("w%d", i), o.load, s.led, seed*1000+uint64(i))
		s.writers = append(s.writers, w)
		wg.Go(func() { w.run(ctx) })
	}
	return s
}

// writeRules makes a version of the rules current, as the kubelet does with a
// ConfigMap: a new folder and a link that is swapped.
func (s *scene) writeRules(rev int) {
	s.t.Helper()
	text, err := os.ReadFile("testdata/chaos.yaml")
	require.NoError(s.t, err)
	s.swapRules(rev, strings.ReplaceAll(string(text), "REVISION", fmt.Sprint(rev)))
}

func (s *scene) swapRules(rev int, text string) {
	s.t.Helper()
	version := fmt.Sprintf("..2026_%d", rev)
	require.NoError(s.t, os.MkdirAll(filepath.Join(s.rules, version), 0o755))
	require.NoError(s.t, os.WriteFile(filepath.Join(s.rules, version, "chaos.yaml"), []byte(text), 0o600))
	old, _ := os.Readlink(filepath.Join(s.rules, "..data"))
	tmp := filepath.Join(s.rules, "..data_tmp")
	require.NoError(s.t, os.Symlink(version, tmp))
	require.NoError(s.t, os.Rename(tmp, filepath.Join(s.rules, "..data")))
	if old == "" {
		require.NoError(s.t, os.Symlink("..data/chaos.yaml", filepath.Join(s.rules, "chaos.yaml")))
		return
	}
	require.NoError(s.t, os.RemoveAll(filepath.Join(s.rules, old)))
}

// settle brings everything to an end: the planted recoveries are written, peers
// are healed, and all planted alerts have arrived. It returns what both
// receivers got.
func (s *scene) settle(patience time.Duration, except func(string) bool) (good, bad map[string]*heard) {
	s.t.Helper()
	s.heal()
	for _, w := range s.writers {
		w.calm.Store(true)
	}
	for _, w := range s.writers {
		eventually(s.t, time.Minute, "recoveries are written", func() bool { return w.left.Load() == 0 })
	}
	s.wait()
	for _, w := range s.writers {
		require.NoError(s.t, w.c.Err, w.name)
	}
	ok := wait.Until(patience, func() bool {
		if good = hear(s.good.AM); !s.led.complete(good, nil) {
			return false
		}
		bad = hear(s.bad.AM)
		return s.led.complete(bad, except)
	})
	if !ok {
		bad = hear(s.bad.AM)
	}
	return good, bad
}

// judge compares everything with the ledger and reports.
func (s *scene) judge(good, bad map[string]*heard, except func(string) bool) {
	s.t.Helper()
	v := verdict{}
	s.led.verify(v, "good", good, nil)
	s.led.verify(v, "bad", bad, except)
	if s.pager != nil {
		notified := s.pager.hook.States
		wait.Until(15*time.Second, func() bool {
			v := verdict{}
			s.led.notified(v, notified())
			return len(v) == 0
		})
		s.led.notified(v, notified())
	}
	v.fail(s.t)
	if s.t.Failed() {
		s.t.Logf("the end of the daemon's log:\n%s", s.logEnd(25))
	}
}

// logEnd returns the last lines of the daemon's log.
func (s *scene) logEnd(n int) string {
	lines := strings.Split(strings.TrimSpace(s.p.Log()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// report logs the figures.
func (s *scene) report(good, bad map[string]*heard) {
	s.t.Helper()
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	rotated := 0
	for _, w := range s.writers {
		rotated += w.rotated
	}
	s.t.Logf("%d starts in %v; %d lines counted in the ledger, %d planted, %d rotations; VmHWM %.1f MiB",
		s.p.starts, time.Since(s.began).Round(time.Second), s.led.total(), len(s.led.plants), rotated, float64(s.p.hwm)/1024)
	s.t.Logf("latency, healthy: %s", percentiles(s.led.latencies(good, time.Time{}, time.Now())))
	s.t.Logf("latency, failing: %s", percentiles(s.led.latencies(bad, time.Time{}, time.Now())))
	s.t.Logf("read again after SIGKILL: %s; SIGTERM to exit: %s", percentiles(sorted(s.p.repeats)), percentiles(sorted(s.p.exits)))
}
