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

	"crowsnest/test/fault"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

const nodeFiles = 200

// nodeLoad is that of a busy node: nodeFiles files, promisedRate lines/s in total, almost
// none of which match.
func nodeLoad() load {
	return load{perSecond: promisedRate / nodeFiles, pad: 120, maxSize: 1 << 20, planted: 2500, period: 5000, quiet: true}
}

// manyRules is a pack of n rules that read every line.
func manyRules(n int) map[string]string {
	var b strings.Builder
	fmt.Fprintf(&b, "pack: {name: many, version: \"1.0.0\", rules: %d}\nrules:\n", n)
	for i := range n {
		fmt.Fprintf(&b, "- alert: Many%d\n  from: '{container=\"chaos\"}'\n  match: {regex: 'failure number %d of (?P<what>[a-z]+)'}\n  by: [what]\n  severity: warning\n", i, i)
	}
	return map[string]string{"many.yaml": b.String()}
}

// Latency from the written line to the accepted alert, and resource use: with
// both Alertmanagers healthy, and with one of them hung.
func TestNodeLatency(t *testing.T) {
	onlyLong(t)
	s := newScene(t, seed(t), options{writers: nodeFiles, load: nodeLoad(), resend: time.Minute, packs: manyRules(500), shipped: true})
	s.p.start()
	s.p.ready()
	pause(5 * time.Second)
	from := time.Now()
	pause(30 * time.Second)
	s.bad.AM.Set(fault.Hang)
	hung := time.Now()
	pause(30 * time.Second)
	to := time.Now()
	s.bad.AM.Set(nil)
	s.p.mu.Lock()
	hwm := float64(s.p.hwm) / 1024
	s.p.mu.Unlock()
	good, bad := s.settle(30*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	before, during := s.led.latencies(good, from, hung), s.led.latencies(good, hung, to)
	t.Logf("both healthy: %s", percentiles(before))
	t.Logf("one hung:     %s", percentiles(during))
	t.Logf("VmHWM %.1f MiB before anything was caught up with", hwm)
	require.LessOrEqual(t, at(before, 0.5), promisedP50, "p50")
	require.LessOrEqual(t, at(before, 0.99), promisedP99, "p99")
	require.LessOrEqual(t, at(before, 1), 2*time.Second, "greatest")
	require.LessOrEqual(t, at(during, 0.99), promisedP99, "p99 with one hung")
	require.LessOrEqual(t, hwm, 64.0, "MiB")
}

// An Alertmanager is down for a minute and the daemon is killed meanwhile:
// every event is notified within promisedReturn of the recovery.
func TestOutage(t *testing.T) {
	onlyLong(t)
	l := kubeletLoad(20 * time.Second)
	l.once = true // of alerts that ended and began again meanwhile, only the newest is notified
	s := newScene(t, seed(t), options{writers: 4, load: l, pager: true, resend: 10 * time.Second, shipped: true})
	s.p.start()
	s.p.ready()
	pause(5 * time.Second)
	s.bad.Stop()
	away := time.Now()
	pause(30 * time.Second)
	s.p.kill()
	s.p.start()
	pause(30 * time.Second)
	require.NoError(t, s.bad.Start())
	back := time.Now()
	good, bad := s.settle(30*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	var last time.Duration
	missed := 0
	for key, p := range s.led.plants {
		if h := bad[key]; h != nil && h.firing.After(back) && p.first.After(away) && p.first.Before(back.Add(-15*time.Second)) {
			last = max(last, h.firing.Sub(back))
			missed++
		}
	}
	t.Logf("%d alerts were missed meanwhile; the last was accepted %v after it was back", missed, last.Round(time.Millisecond))
	require.LessOrEqual(t, last, promisedReturn)
}

// Rules change continuously: no line is lost, nothing flaps, nothing leaks, and
// a broken version changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	reloads := 10
	if long {
		reloads = 220
	}
	s := newScene(t, seed(t), options{writers: 4, load: kubeletLoad(14 * time.Second), pager: long, resend: 5 * time.Second})
	s.p.start()
	s.p.ready()
	rng := rand.New(rand.NewPCG(1, 1))
	var base map[string]float64
	for rev := 1; rev <= reloads; rev++ {
		if rev%5 == 0 {
			s.swapRules(100000+rev, "pack: {name: chaos, version: \"1.0.0\", rules: 5}\nrules:\n- alert: ChaosLines\n")
			err := s.p.Reload(t.Context())
			require.Error(t, err, "a broken version is refused")
		}
		s.writeRules(rev)
		if rev%6 == 1 { // the watcher has to detect it
			began := time.Now()
			eventually(t, 10*time.Second, "the change is found", func() bool {
				return s.p.newest()["crowsnest_config_last_reload_success_timestamp_seconds"] >= float64(began.UnixNano())/1e9
			})
		} else {
			pause(time.Duration(rng.IntN(300)) * time.Millisecond)
			err := s.p.Reload(t.Context())
			require.NoError(t, err)
		}
		if rev == 3 {
			base = s.p.newest()
		}
	}
	good, bad := s.settle(40*time.Second, nil)
	const broken = "CrowsnestPackBroken " // notified if the broken version existed long enough
	delete(good, broken)
	delete(bad, broken)
	if s.pager != nil {
		s.pager.hook.Forget(broken)
	}
	s.judge(good, bad, nil)
	s.report(good, bad)
	log, err := os.ReadFile(filepath.Join(s.dir, "daemon.log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), "the configuration changed in more than its rules", "nothing but rules changed")
	end := s.p.newest()
	t.Logf("%d reloads; goroutines %v then, %v now; descriptors %v then, %v now", reloads,
		base["go_goroutines"], end["go_goroutines"], base["process_open_fds"], end["process_open_fds"])
	require.LessOrEqual(t, end["go_goroutines"], base["go_goroutines"]+10)
	require.LessOrEqual(t, end["process_open_fds"], base["process_open_fds"]+20)
	for _, w := range s.writers {
		eventually(t, 15*time.Second, "the newest text is notified", func() bool {
			return hear(s.good.AM)["ChaosLines "+w.name].rev == fmt.Sprint(reloads)
		})
	}
}

// Memory does not depend on the content of the logs.
func TestMemory(t *testing.T) {
	t.Parallel()
	keys, huge := 100_000, 64<<20
	if long {
		keys, huge = 3_000_000, promisedLine
	}
	s := newScene(t, seed(t), options{
		writers: 1, load: load{perSecond: 50, pad: 100, maxSize: 1 << 20, planted: 100, period: 1000, recovery: 16 * time.Second},
		resend: 5 * time.Second, active: 1000, packs: map[string]string{"flood.yaml": floodRules},
	})
	s.p.start()
	s.p.ready()
	c := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "flood", Pod: "flood", Container: "flood"})
	t.Cleanup(c.Close)
	for i, n := 0, 0; i < keys; i++ {
		line := fmt.Sprintf("%s stdout F flood of key=%016x%08x of some length to be kept, and not small\n", c.Stamp(), rand.Uint64(), i)
		c.Raw(line)
		if n += len(line); n > 10<<20 {
			n = 0
			eventually(t, time.Minute, "the flood is read", func() bool { return s.lag() < 2 })
			c.Rotate()
		}
	}
	eventually(t, time.Minute, "the flood is read", func() bool { return s.lag() < 2 })
	flood := s.hwm()
	c.Raw(c.Stamp() + " stdout F flood of key=one-that-has-no-end ")
	chunk := strings.Repeat("text without an end, ", 50_000)
	for n := 0; n < huge; n += len(chunk) {
		c.Raw(chunk)
	}
	c.Raw("\n" + strings.Repeat("\x00", 1<<20))
	for range 2000 { // partial lines that never end
		c.Part("stderr", chunk[:16<<10])
	}
	require.NoError(t, c.Err)
	pause(3 * time.Second) // detection continues
	good, bad := s.settle(2*time.Minute, nil)
	t.Logf("VmHWM after %d keys %.1f MiB, after a line of %d MiB %.1f MiB", keys, flood, huge>>20, s.hwm())
	for _, got := range []map[string]*heard{good, bad} {
		flooded := 0
		for key := range got {
			if strings.HasPrefix(key, "Flood ") {
				flooded++
				delete(got, key)
			}
			if strings.HasPrefix(key, "CrowsnestCrowded") { // expected
				delete(got, key)
			}
		}
		t.Logf("%d alerts of the flood", flooded)
		require.LessOrEqual(t, flooded, 1001)
	}
	s.judge(good, bad, nil)
	s.report(good, bad)
	require.LessOrEqual(t, s.hwm(), promisedMiB, "MiB")
}

const floodRules = `pack: {name: flood, version: "1.0.0", rules: 2}
rules:
- alert: Flood
  from: '{container="flood"}'
  match: {regex: 'flood of key=(?P<id>[a-z0-9-]+)'}
  by: [id]
  severity: warning
  limit: 500
  annotations: {text: "{{ $line }}"}
- alert: FloodCount
  from: '{container="flood"}'
  match: {regex: 'flood of key=(?P<id>[a-z0-9-]+)'}
  count: 3
  within: 1h
  by: [id]
  severity: warning
  limit: 1000
`

func (s *scene) hwm() float64 {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return float64(s.p.hwm) / 1024
}

func (s *scene) lag() float64 {
	return s.p.newest()[`crowsnest_source_lag_seconds{source="kubelet"}`]
}

// Containers start and end: their resources are released.
func TestChurn(t *testing.T) {
	t.Parallel()
	pods := 150
	if long {
		pods = 1900 // with two alerts each, within the bound of a sink
	}
	n := seed(t)
	s := newScene(t, n, options{writers: 1, load: load{perSecond: 50, pad: 100, maxSize: 1 << 20, planted: 100, period: 1000, recovery: 16 * time.Second}, resend: 5 * time.Second})
	s.p.start()
	s.p.ready()
	pause(2 * time.Second)
	base := s.p.newest()
	var live []*writer
	for i := range pods {
		w := newWriter(s.pods, fmt.Sprintf("x%d", i), load{perSecond: 1, pad: 20, planted: 20, period: 1000, quiet: true}, s.led, n+uint64(i))
		w.lines(40)
		w.c.Close()
		live = append(live, w)
		if len(live) == 50 {
			eventually(t, 30*time.Second, "pods are read", func() bool { return s.heardOf(live) })
			for _, w := range live {
				w.c.Remove()
				require.NoError(t, w.c.Err)
			}
			live = nil
		}
	}
	good, bad := s.settle(40*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("the newest of %d pods: %s", pods, percentiles(s.led.latencies(good, time.Time{}, time.Now())))
	back := wait.Until(30*time.Second, func() bool {
		now := s.p.newest()
		_, deleted := s.p.descriptors()
		return now["go_goroutines"] <= base["go_goroutines"]+5 && now["process_open_fds"] <= base["process_open_fds"]+5 && deleted == 0
	})
	all, deleted := s.p.descriptors()
	now := s.p.newest()
	t.Logf("goroutines %v then, %v now; descriptors %v then, %v now (%d, deleted %d); streams %v", base["go_goroutines"], now["go_goroutines"],
		base["process_open_fds"], now["process_open_fds"], all, deleted, now[`crowsnest_source_streams{source="kubelet"}`])
	require.True(t, back, "what the pods took is given back")
}

// heardOf reports whether the alert of each pod arrived.
func (s *scene) heardOf(writers []*writer) bool {
	got := hear(s.good.AM)
	for _, w := range writers {
		if got["ChaosPlanted "+w.name+"-p1"] == nil {
			return false
		}
	}
	return true
}
