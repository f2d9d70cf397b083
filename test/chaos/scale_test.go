package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

// footprint is the resource use of the running daemon.
type footprint struct {
	goroutines, descriptors float64
	rss                     float64 // MiB
	series                  int
	state                   int64 // bytes
}

func (f footprint) String() string {
	return fmt.Sprintf("goroutines %v, descriptors %v, RSS %.1f MiB, %d series, state %.2f MiB",
		f.goroutines, f.descriptors, f.rss, f.series, float64(f.state)/(1<<20))
}

func (s *scene) footprint() footprint {
	s.t.Helper()
	m, err := s.p.Metrics(s.t.Context())
	require.NoError(s.t, err)
	return footprint{
		goroutines: m["go_goroutines"], descriptors: m["process_open_fds"],
		rss: m["process_resident_memory_bytes"] / (1 << 20), series: len(m), state: s.stateSize(),
	}
}

func (s *scene) stateSize() int64 {
	fi, err := os.Stat(filepath.Join(s.p.StatePath(), "state"))
	if err != nil {
		return 0
	}
	return fi.Size()
}

// givenBack waits until the daemon uses no more than before, and returns its
// use.
func (s *scene) givenBack(base footprint, rss float64) (now footprint, ok bool) {
	s.t.Helper()
	ok = wait.Until(time.Minute, func() bool {
		now = s.footprint()
		_, deleted := s.p.descriptors()
		return now.goroutines <= base.goroutines+5 && now.descriptors <= base.descriptors+5 && now.rss <= base.rss+rss && deleted == 0
	})
	return now, ok
}

// fewAlerts is the load of a scene whose size should not come from its alerts.
func fewAlerts() load {
	return load{perSecond: 1000, pad: 180, maxSize: 1 << 20, planted: 8000, period: 16000, recovery: 14 * time.Second}
}

const extraRules = `pack: {name: extra, version: "1.0.%d", rules: 1}
rules:
- alert: Extra
  from: '{container="chaos"}'
  match: "a text that no line has, %d"
  severity: info
`

// swapConfigMap does what the kubelet's AtomicWriter does: it creates a folder
// with the new version, swaps a link, links the files beside it, and removes
// the old version. Every other version has a second file.
func (s *scene) swapConfigMap(rev int) {
	s.t.Helper()
	text, err := os.ReadFile("testdata/chaos.yaml")
	require.NoError(s.t, err)
	version := time.Now().Format("..2006_01_02_15_04_05.") + fmt.Sprintf("%09d", rev)
	dir := filepath.Join(s.rules, version)
	require.NoError(s.t, os.Mkdir(dir, 0o755))
	write := func(name, text string) {
		require.NoError(s.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("chaos.yaml", strings.ReplaceAll(string(text), "REVISION", fmt.Sprint(rev)))
	extra := filepath.Join(s.rules, "extra.yaml")
	if rev%2 == 1 {
		write("extra.yaml", fmt.Sprintf(extraRules, rev, rev))
		_ = os.Symlink("..data/extra.yaml", extra)
	}
	data := filepath.Join(s.rules, "..data")
	old, err := os.Readlink(data)
	require.NoError(s.t, err)
	require.NoError(s.t, os.Symlink(version, data+"_tmp"))
	require.NoError(s.t, os.Rename(data+"_tmp", data))
	if rev%2 == 0 {
		_ = os.Remove(extra)
	}
	require.NoError(s.t, os.RemoveAll(filepath.Join(s.rules, old)))
}

// A thousand versions of a ConfigMap: no line is lost, nothing flaps, no file
// is read twice, nothing grows.
func TestThousandSwaps(t *testing.T) {
	onlyLong(t)
	s := newScene(t, seed(t), options{writers: 4, load: fewAlerts(), pager: true, resend: 10 * time.Second})
	s.p.start()
	s.p.ready()
	rng := rand.New(rand.NewPCG(1, 1))
	var base footprint
	var slowest time.Duration
	for rev := 1; rev <= promisedReloads; rev++ {
		began := time.Now()
		s.swapConfigMap(rev)
		if rev%10 == 5 { // found without an inotify event
			eventually(t, 10*time.Second, "the change is found", func() bool {
				return s.p.newest()["crowsnest_config_last_reload_success_timestamp_seconds"] >= float64(began.UnixNano())/1e9
			})
			slowest = max(slowest, time.Since(began))
		} else {
			err := s.p.Reload(t.Context())
			require.NoError(t, err)
			pause(time.Duration(rng.IntN(200)) * time.Millisecond)
		}
		if rev%50 == 0 {
			m, err := s.p.Metrics(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 5+rev%2, m["crowsnest_rules_loaded"])
			require.EqualValues(t, 1, m["crowsnest_config_last_reload_successful"])
		}
		if rev == 100 {
			base = s.footprint()
		}
	}
	end := s.footprint()
	good, bad := s.settle(40*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	for _, w := range s.writers {
		eventually(t, 15*time.Second, "the newest text is notified", func() bool {
			return hear(s.good.AM)["ChaosLines "+w.name].rev == strconv.Itoa(promisedReloads)
		})
	}
	t.Logf("%d swaps; the slowest of those without an inotify event was found after %v", promisedReloads, slowest.Round(time.Millisecond))
	t.Logf("after 100: %v", base)
	t.Logf("at the end: %v", end)
	require.LessOrEqual(t, end.goroutines, base.goroutines+5)
	require.LessOrEqual(t, end.descriptors, base.descriptors+5)
	require.LessOrEqual(t, end.rss, base.rss+16, "MiB")
}

const churnRules = `pack: {name: churn, version: "1.0.0", rules: 1}
rules:
- alert: ChurnLines
  from: '{namespace="churn"}'
  match: "line of a pod that goes"
  by: [namespace]
  keep_firing_for: 1h
  severity: info
  annotations: {lines: "{{ $value }}"}
`

// Ten thousand containers start and end: each line is read once, and their
// resources are released.
func TestTenThousandContainers(t *testing.T) {
	onlyLong(t)
	const pods, lines, batch = 10_000, 10, 50
	s := newScene(t, seed(t), options{
		writers: 1, load: load{perSecond: 50, pad: 100, maxSize: 1 << 20, planted: 100, period: 1000, recovery: 16 * time.Second},
		resend: 10 * time.Second, packs: map[string]string{"churn.yaml": churnRules},
	})
	s.p.start()
	s.p.ready()
	pause(3 * time.Second)
	base := s.footprint()
	const matched = `crowsnest_rule_matches_total{pack="churn",rule="ChurnLines",severity="info"}`
	first := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "churn", Pod: "first"})
	t.Cleanup(first.Close)
	first.Write("stdout", "line of a pod that goes") // an alert counts only lines after its start
	eventually(t, 10*time.Second, "the alert is there", func() bool { return s.p.newest()[matched] == 1 })
	began, largest := time.Now(), int64(0)
	var live []*kubesim.Container
	for n := 1; n <= pods; n++ {
		c := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "churn", Pod: fmt.Sprintf("p%d", n), UID: fmt.Sprintf("6b1c9b5e-0000-4000-8000-%012d", n)})
		for i := range lines {
			c.Write("stdout", fmt.Sprintf("%d. line of a pod that goes", i))
		}
		c.Close()
		if live = append(live, c); len(live) < batch {
			continue
		}
		eventually(t, 30*time.Second, "pods are read", func() bool { return s.p.newest()[matched] > float64(n*lines) })
		for _, c := range live {
			c.Remove()
			require.NoError(t, c.Err)
		}
		live = nil
		largest = max(largest, s.stateSize())
	}
	took := time.Since(began)
	m, err := s.p.Metrics(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1+pods*lines, m[matched], "each line once")
	good, bad := s.settle(40*time.Second, nil)
	want := fmt.Sprint(1 + pods*lines)
	notified := ""
	wait.Until(30*time.Second, func() bool {
		words := s.good.AM.Accepted("ChurnLines")
		if len(words) > 0 {
			notified = words[len(words)-1].Alert.Annotations["lines"]
		}
		return notified == want
	})
	require.Equal(t, want, notified, "lines notified")
	delete(good, "ChurnLines ")
	delete(bad, "ChurnLines ")
	s.judge(good, bad, nil)
	s.report(good, bad)
	now, ok := s.givenBack(base, 16)
	t.Logf("%d containers in %v; largest state %.2f MiB", pods, took.Round(time.Second), float64(largest)/(1<<20))
	t.Logf("before: %v", base)
	t.Logf("after:  %v", now)
	require.True(t, ok, "what the pods took is given back")
	require.LessOrEqual(t, largest, int64(2<<20), "bytes of state")
}

// A thousand containers that live for promisedLife and are removed 200 ms later.
func TestShortLivedContainers(t *testing.T) {
	onlyLong(t)
	const pods, together = 1000, 20
	s := newScene(t, seed(t), options{writers: 2, load: fewAlerts(), resend: 10 * time.Second})
	s.p.start()
	s.p.ready()
	pause(2 * time.Second)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range together {
		wg.Go(func() {
			for n := next.Add(1); n <= pods; n = next.Add(1) {
				shortLife(t, s.pods, n)
			}
		})
	}
	wg.Wait()
	pause(2 * time.Second)
	good, bad := s.settle(40*time.Second, nil)
	seen := map[string]int{}
	for _, got := range []map[string]*heard{good, bad} {
		for key := range got {
			for _, end := range []string{"first", "last"} {
				if strings.HasPrefix(key, "ChaosPlanted s") && strings.HasSuffix(key, "-"+end) {
					seen[end]++
					delete(got, key)
				}
			}
		}
	}
	delete(good, "CrowsnestLinesLost removed")
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("of %d containers %d were seen, and of %d the last line, by both Alertmanagers on average", pods, seen["first"]/2, seen["last"]/2)
	require.GreaterOrEqual(t, seen["first"]/2, pods*999/1000)
	require.GreaterOrEqual(t, seen["last"]/2, pods*999/1000)
}

func shortLife(t *testing.T, root string, n int64) {
	c := kubesim.New(kubesim.Options{
		Root: root, Namespace: "short", Pod: fmt.Sprintf("s%d", n), Container: "chaos", UID: fmt.Sprintf("6b1c9b5e-0000-4000-8000-%012d", n),
	})
	c.Write("stdout", fmt.Sprintf("planted detection id=s%d-first;", n))
	for range 10 {
		pause(promisedLife / 10)
		c.Write("stderr", "text")
	}
	c.Write("stdout", fmt.Sprintf("planted detection id=s%d-last;", n))
	c.Close()
	pause(200 * time.Millisecond)
	c.Remove()
	if c.Err != nil {
		t.Errorf("container %d: %v", n, c.Err)
	}
}

// Ten million keys: memory and the number of series stay bounded.
func TestTenMillionKeys(t *testing.T) {
	onlyLong(t)
	const keys = 10_000_000
	s := newScene(t, seed(t), options{
		// Recoveries are late enough that a delay caused by the flood does not
		// hide them.
		writers: 1, load: load{perSecond: 50, pad: 100, maxSize: 1 << 20, planted: 100, period: 1000, recovery: 50 * time.Second},
		resend: 10 * time.Second, active: 1000, packs: map[string]string{"flood.yaml": floodRules},
	})
	s.p.Prepare = func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "GOMEMLIMIT=115MiB") } // as in deploy/kustomize
	s.p.start()
	s.p.ready()
	pause(3 * time.Second)
	base := s.footprint()
	c := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "flood", Pod: "flood", Container: "flood"})
	t.Cleanup(c.Close)
	began, size := time.Now(), 0
	var b strings.Builder
	for i := range keys {
		fmt.Fprintf(&b, "%s stdout F flood of key=%016x%08x of some length to be kept, and not small\n", c.Stamp(), rand.Uint64(), i)
		if b.Len() < 256<<10 && i < keys-1 {
			continue
		}
		c.Raw(b.String())
		size += b.Len()
		b.Reset()
		if size > 10<<20 {
			size = 0
			eventually(t, time.Minute, "the flood is read", func() bool { return s.lag() < 2 })
			c.Rotate()
		}
	}
	require.NoError(t, c.Err)
	eventually(t, time.Minute, "the flood is read", func() bool { return s.lag() < 2 })
	took, end := time.Since(began), s.footprint()
	good, bad := s.settle(2*time.Minute, nil)
	for _, got := range []map[string]*heard{good, bad} {
		for key := range got {
			if strings.HasPrefix(key, "Flood ") {
				delete(got, key)
			}
		}
	}
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("%d keys in %v, VmHWM %.1f MiB", keys, took.Round(time.Second), s.hwm())
	t.Logf("before: %v", base)
	t.Logf("after:  %v", end)
	require.LessOrEqual(t, s.hwm(), promisedMiB, "MiB")
	require.Equal(t, base.series+1, end.series, "one more counts the evictions of the namespace")
}

// A start with many files and many rules: ready within promisedStart.
func TestStartup(t *testing.T) {
	onlyLong(t)
	s := newScene(t, seed(t), options{resend: 10 * time.Second, packs: manyRules(promisedRules), shipped: true})
	for n := range promisedFiles {
		c := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "many", Pod: fmt.Sprintf("p%d", n), Container: "chaos"})
		some(c, 200)
		c.Close()
		require.NoError(t, c.Err)
	}
	up := func() time.Duration {
		began := time.Now()
		s.p.start()
		s.p.ready()
		return time.Since(began).Round(time.Millisecond)
	}
	var slowest time.Duration
	for range 3 {
		require.NoError(t, os.RemoveAll(s.p.StatePath()))
		cold := up()
		eventually(t, 20*time.Second, "all is read and saved", func() bool {
			b, _ := os.ReadFile(filepath.Join(s.p.StatePath(), "state"))
			return s.p.newest()[daemon.LinesRead] >= promisedFiles*200 && strings.Count(string(b), "many_p") >= promisedFiles
		})
		s.p.term()
		afterTerm := up()
		pause(1500 * time.Millisecond)
		s.p.kill()
		afterKill := up()
		s.p.term()
		t.Logf("ready after %v without state, %v after SIGTERM, %v after SIGKILL", cold, afterTerm, afterKill)
		slowest = max(slowest, cold, afterTerm, afterKill)
	}
	require.LessOrEqual(t, slowest, promisedStart)
}

// mib formats bytes.
func mib(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 0, 64) + " MiB" }
