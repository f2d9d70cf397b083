package hostile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

const (
	promisedRequests = 1000            // at once, in the long form
	floodAlerts      = 2000            // open while the requests arrive
	floodMemory      = 128 << 10       // KiB
	floodPage        = time.Second     // for a normal reader
	floodLate        = 2 * time.Second // from a line to its alert
)

// floodPack has rules with texts as long as those of shipped rules.
func floodPack() string {
	var b strings.Builder
	b.WriteString("pack: {name: flood, version: 0.1.0, rules: 5}\nrules:\n")
	long := strings.Repeat("The controller does not reach the machine {{ $labels.k }}, so nothing that it wants is done. ", 6)
	for i := range 5 {
		fmt.Fprintf(&b, "- alert: Flood%d\n  from: '{container=\"c\"}'\n  severity: critical\n  limit: %d\n", i, floodAlerts)
		fmt.Fprintf(&b, "  match: {contains: boom, regex: 'kind=%d key=(?P<k>\\S+)'}\n  by: [k]\n", i)
		b.WriteString("  keep_firing_for: 1h\n")
		fmt.Fprintf(&b, "  annotations: {summary: %q, description: %q}\n", "Machine {{ $labels.k }} is not reached", long)
		fmt.Fprintf(&b, "  remediation:\n    summary: %q\n    runbook_url: https://runbooks.example.org/flood\n    steps:\n", long[:200])
		for range 4 {
			b.WriteString("    - \"kubectl --namespace capi-system get machines.cluster.x-k8s.io --output wide --show-labels\"\n")
		}
	}
	return b.String()
}

// besieged is a daemon with many open alerts that a normal reader uses while
// hostile requests arrive, and whose logs continue to report failures.
type besieged struct {
	*victim
	logs    *kubesim.Container
	took    []time.Duration      // duration of the normal reader's requests
	refused []string             // unexpected responses
	written map[string]time.Time // when a failure was logged meanwhile
}

// fill opens the alerts and returns their fingerprints.
func (b *besieged) fill() []string {
	b.t.Helper()
	for i := range floodAlerts {
		b.logs.Write("stdout", fmt.Sprintf("boom kind=%d key=machine-%d-of-a-cluster-with-a-long-name", i%5, i))
	}
	require.NoError(b.t, b.logs.Err)
	b.eventually("the alerts arrive", func() bool { return b.arrived() == floodAlerts })
	var list struct {
		Data struct {
			Episodes []struct{ Fingerprint, Alert string }
		}
	}
	require.NoError(b.t, json.Unmarshal([]byte(b.page("/api/v1/episodes")), &list))
	var open []string
	for _, e := range list.Data.Episodes {
		open = append(open, e.Fingerprint)
	}
	require.GreaterOrEqual(b.t, len(open), floodAlerts)
	return open
}

// arrived counts the alerts of the pack at the receiver.
func (b *besieged) arrived() int { return len(b.first()) }

// first returns when each alert was first notified, by its key. None may be
// resolved.
func (b *besieged) first() map[string]time.Time {
	out := map[string]time.Time{}
	for name, words := range b.am.All() {
		for _, w := range words {
			k := w.Alert.Labels["k"]
			if !strings.HasPrefix(name, "Flood") {
				continue
			}
			require.False(b.t, w.Resolved, "%s of %s", name, k)
			if _, known := out[k]; !known {
				out[k] = w.Time
			}
		}
	}
	return out
}

// look requests the page and the metrics like a person and Prometheus, and logs
// one more failure, until the attack is over.
func (b *besieged) look(over <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		for _, path := range []string{"/", "/metrics"} {
			began := time.Now()
			code, _, body, err := b.get(path)
			b.took = append(b.took, time.Since(began))
			if err != nil || code != 200 {
				b.refused = append(b.refused, fmt.Sprintf("%s after %v: %d, %v %.80s", path, time.Since(began), code, err, body))
			}
		}
		key := fmt.Sprint("meanwhile-", i)
		b.logs.Write("stdout", fmt.Sprintf("boom kind=%d key=%s", i%5, key))
		b.written[key] = time.Now()
		select {
		case <-over:
			return
		case <-tick.C:
		}
	}
}

// attack sends the given number of hostile requests at once, of all kinds, and
// returns when all have ended.
func (b *besieged) attack(requests int, open []string, hold time.Duration) {
	kinds := attacks(open)
	names := slices.Sorted(maps.Keys(kinds))
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			<-begin
			kinds[names[i%len(names)]](i).run(b.t.Context(), b.Addr, hold)
		})
	}
	close(begin)
	all.Wait()
	b.t.Logf("%d requests of %d kinds", requests, len(names))
}

// Hostile requests neither block a reader nor delay an alert, and use no more
// memory than allowed. CROWSNEST_CHAOS=1 go test -v -run TestHostileRequests
// ./test/hostile measures the times.
func TestHostileRequests(t *testing.T) {
	v := newVictim(t, false, map[string]string{"flood.yaml": floodPack()})
	v.Flags = append(v.Flags, "--web.enable-pprof=false", "--web.enable-lifecycle")
	b := &besieged{victim: v, logs: v.container("capi-system", "capi-0", "c", 0), written: map[string]time.Time{}}
	b.start()
	open := b.fill()
	before := b.Process().Memory("VmHWM")

	requests, hold := 200, 3*time.Second
	if long {
		requests, hold = promisedRequests, 20*time.Second
	}
	over := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { b.look(over) })
	b.attack(requests, open, hold)
	close(over)
	reader.Wait()

	all := floodAlerts + len(b.written)
	b.eventually("every failure is notified", func() bool { return b.arrived() == all })
	b.eventually("the page is served", func() bool {
		code, _, _, err := b.get("/")
		return err == nil && code == 200
	})
	memory := b.Process().Memory("VmHWM")
	slices.Sort(b.took)
	late := b.late()
	t.Logf("reader: %d answers, p50 %v, p99 %v, max %v, %d refused: %q; alerts: p50 %v, max %v; VmHWM %.1f MiB, %.1f before",
		len(b.took), b.took[len(b.took)/2], b.took[len(b.took)*99/100], b.took[len(b.took)-1], len(b.refused), b.refused,
		late[len(late)/2], late[len(late)-1], float64(memory)/1024, float64(before)/1024)
	require.LessOrEqual(t, memory, int64(floodMemory))
	if long {
		require.Empty(t, b.refused)
		require.LessOrEqual(t, b.took[len(b.took)-1], floodPage)
		require.LessOrEqual(t, late[len(late)-1], floodLate)
	}
}

// late returns the sorted times from the log to the receiver.
func (b *besieged) late() []time.Duration {
	var out []time.Duration
	first := b.first()
	for key, at := range b.written {
		out = append(out, first[key].Sub(at))
	}
	slices.Sort(out)
	return out
}
