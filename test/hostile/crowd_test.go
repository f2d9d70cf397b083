package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

// long enables the full form: CROWSNEST_CHAOS=1 go test -v -run TestCrowd
// ./test/hostile.
var long = os.Getenv("CROWSNEST_CHAOS") != ""

const (
	crowdRules   = 25
	crowdKeys    = 10_000
	crowdVictims = 10
	crowdRate    = 5000      // lines per second, each of which is a hit of every rule
	crowdMemory  = 128 << 10 // KiB
)

// crowdPack returns rules of every kind that match the same line, and one that
// only kube-system matches.
func crowdPack() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pack: {name: crowd, version: 0.1.0, rules: %d}\nrules:\n", crowdRules+1)
	for i := range crowdRules {
		severity := "warning"
		if i%4 == 0 {
			severity = "critical"
		}
		fmt.Fprintf(&b, "- alert: Crowd%02d\n  from: '{container=\"c\"}'\n  severity: %s\n", i, severity)
		match := `{contains: boom, regex: 'step=(?P<step>\d) key=(?P<k>\S+)'}`
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "  match: %s\n  by: [k]\n", match)
		case 1:
			fmt.Fprintf(&b, "  match: %s\n  by: [namespace, k]\n  count: 3\n  within: 1h\n", match)
		case 2:
			fmt.Fprintf(&b, "  sequence:\n")
			for step := 1; step <= 3; step++ {
				fmt.Fprintf(&b, "  - {contains: boom step=%d, regex: 'key=(?P<k>\\S+)'}\n", step)
			}
			fmt.Fprintf(&b, "  within: 1h\n  by: [k]\n")
		case 3:
			fmt.Fprintf(&b, "  match: %s\n  by: [k]\n  count: 3\n  distinct: step\n  within: 1h\n", match)
		case 4:
			fmt.Fprintf(&b, "  match: %s\n  by: [namespace, k]\n  clear: {contains: calm, regex: 'key=(?P<k>\\S+)', same: [k]}\n", match)
			if long {
				fmt.Fprintf(&b, "  for: 15s\n")
			}
		}
	}
	b.WriteString("- alert: Busy\n  from: '{namespace=\"kube-system\"}'\n  severity: critical\n" +
		"  match: {contains: busy, regex: 'key=(?P<k>\\S+)'}\n  by: [k]\n  count: 2\n  within: 1h\n")
	return b.String()
}

// crowd is a hostile namespace among others.
type crowd struct {
	*victim
	evil, system *kubesim.Container
	victims      []*kubesim.Container
	lines        int
	last         map[string]time.Time // when a victim's failure was complete
}

// flood writes lines of the hostile namespace at its rate, or slower on a slow
// machine. One rule is also busy in kube-system.
func (c *crowd) flood(lines int) {
	const batch = crowdRate / 20
	for range lines / batch {
		for range batch {
			c.lines++
			c.evil.Write("stdout", fmt.Sprintf("boom step=%d key=e%d", c.lines/crowdKeys%3+1, c.lines%crowdKeys))
			if c.lines%10 == 0 {
				c.system.Write("stdout", fmt.Sprintf("busy key=b%d", c.lines))
			}
		}
		wait.Pause(c.t.Context(), time.Second/20)
	}
}

// fail writes one of the three lines that cause a failure of each victim.
func (c *crowd) fail(step int) {
	for i, v := range c.victims {
		v.Write("stdout", fmt.Sprintf("boom step=%d key=v%d", step, i))
		c.last[fmt.Sprint("v", i)] = time.Now()
	}
}

// alerts returns the first notification of each victim's alerts, by rule and
// key. None of them may resolve.
func (c *crowd) alerts() map[string]fakeam.Accepted {
	out := map[string]fakeam.Accepted{}
	for name, words := range c.am.All() {
		for _, w := range words {
			k := w.Alert.Labels["k"]
			if !strings.HasPrefix(name, "Crowd") || !strings.HasPrefix(k, "v") {
				continue
			}
			require.False(c.t, w.Resolved, "%s of %s", name, k)
			if _, known := out[name+" "+k]; !known {
				out[name+" "+k] = w
			}
		}
	}
	return out
}

// missing lists the alerts of victims that did not fire.
func (c *crowd) missing() (out []string) {
	fired := c.alerts()
	for i := range crowdRules {
		for k := range c.victims {
			key := fmt.Sprintf("Crowd%02d v%d", i, k)
			if _, ok := fired[key]; !ok {
				out = append(out, key)
			}
		}
	}
	return out
}

// A namespace writes 5,000 lines a second, each a hit of 25 rules with one of
// 10,000 keys. It hides no failure of other namespaces, uses no more memory
// than they need, and is named in an alert.
func TestCrowd(t *testing.T) {
	v := newVictim(t, false, map[string]string{"crowd.yaml": crowdPack()})
	file := filepath.Join(v.Dir, "crowsnest.yml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "limits: {active_alerts: 5000, alerts_per_namespace: 5000}\n", "", 1))
	require.NoError(t, os.WriteFile(file, text, 0o600))
	c := &crowd{
		victim: v, evil: v.container("tenant-evil", "evil-0", "c", 0), system: v.container("kube-system", "kcm-0", "c", 0),
		last: map[string]time.Time{},
	}
	for i := range crowdVictims {
		c.victims = append(c.victims, v.container(fmt.Sprintf("tenant-%d", i), "app-0", "c", 0))
	}
	c.victims = append(c.victims, c.system) // with an additional failure of its own
	v.start()

	part := 5000
	if long {
		part = crowdKeys * 6
	}
	c.flood(part)
	for step := 1; step <= 3; step++ {
		c.fail(step)
		c.flood(part)
	}
	if !wait.Until(patience, func() bool { return len(c.missing()) == 0 }) {
		require.Fail(t, "alerts of victims are missing", "%v; the source is %.1f s behind, %.0f of %d lines are read; quarantined rules: %v",
			c.missing(), v.metric(`crowsnest_source_lag_seconds{source="kubelet"}`), v.metric(daemon.LinesRead), c.lines+c.lines/10,
			v.metric(`crowsnest_rule_inactive{reason="given_up",rule="Crowd04"}`) > 0)
	}
	v.eventually("the hostile namespace is named", func() bool { return len(c.am.Accepted("CrowsnestCrowded")) > 0 })
	c.report()
}

// report checks and prints the measurements.
func (c *crowd) report() {
	c.t.Helper()
	var latencies []time.Duration
	for key, w := range c.alerts() {
		name, k, _ := strings.Cut(key, " ")
		var i int
		_, err := fmt.Sscanf(name, "Crowd%d", &i)
		require.NoError(c.t, err)
		if i%5 != 0 && i%5 != 4 { // these fire at the first line, or wait
			latencies = append(latencies, w.Time.Sub(c.last[k]))
		}
	}
	slices.Sort(latencies)
	words := c.am.Accepted("CrowsnestCrowded")
	said := words[len(words)-1].Alert.Annotations
	memory := c.Process().Memory("VmHWM")
	c.t.Logf("%d lines; line to alert p50 %v, p99 %v, max %v (promised: p99 1 s); VmHWM %.1f MiB", c.lines,
		latencies[len(latencies)/2], latencies[len(latencies)*99/100], latencies[len(latencies)-1], float64(memory)/1024)
	c.t.Logf("%s\n%s", said["summary"], said["description"])
	require.LessOrEqual(c.t, memory, int64(crowdMemory))
	require.Contains(c.t, said["summary"], "namespace tenant-evil")
	for i := range crowdVictims {
		require.NotContains(c.t, said["description"], fmt.Sprintf("tenant-%d", i))
	}
}
