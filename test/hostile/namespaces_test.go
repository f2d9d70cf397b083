package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

const namespacesPack = `pack: {name: namespaces, version: 0.1.0, rules: 3}
rules:
- alert: Everybody
  origin: any
  severity: warning
  match: {contains: boom, regex: 'key=(?P<k>\S+)'}
  by: [namespace, k]
- alert: EverybodyCritical
  origin: any
  severity: critical
  match: {contains: boom, regex: 'key=(?P<k>\S+)'}
  by: [k]
  clear: {contains: calm, regex: 'key=(?P<k>\S+)', same: [k]}
- alert: EverybodyTwice
  origin: any
  severity: warning
  match: {contains: boom, regex: 'key=(?P<k>\S+)'}
  by: [namespace, k]
  count: 2
  within: 1h
  unless: {contains: quiet, regex: 'key=(?P<k>\S+)', same: [k], within: 1m}
`

// Namespaces of tenants, however many and whatever they write, take no place of
// infrastructure: each of its failures is notified within seconds, and none is ended.
func TestManyNamespaces(t *testing.T) {
	f := func(namespaces, keys int, churns bool) {
		t.Run(fmt.Sprintf("%d namespaces, %d keys, churns %v", namespaces, keys, churns), func(t *testing.T) {
			flooded(t, namespaces, keys, churns)
		})
	}
	f(150, 1, false)
	f(150, 100, true)
	f(2000, 1, true)
}

func flooded(t *testing.T, namespaces, keys int, churns bool) {
	v := newVictim(t, false, map[string]string{"namespaces.yaml": namespacesPack})
	file := filepath.Join(v.Dir, "crowsnest.yml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "limits: {active_alerts: 5000, alerts_per_namespace: 5000}\n", "", 1))
	require.NoError(t, os.WriteFile(file, text, 0o600))
	var tenants []*kubesim.Container
	for i := range namespaces {
		tenants = append(tenants, v.container(fmt.Sprint("tenant-", i), "app-0", "c", 0))
	}
	system := v.container("kube-system", "kcm-0", "c", 0)
	v.start()

	lines := 0
	write := func(c *kubesim.Container, word, key string) {
		lines++
		c.Write("stdout", word+" key="+key)
	}
	flood := func(round int) {
		for i, c := range tenants {
			for k := range keys {
				key := fmt.Sprintf("t%d-%d-%d", i, k, round)
				write(c, "boom", key)
				if churns {
					write(c, "calm", key)
					write(c, "quiet", key)
				}
				write(c, "boom", key)
			}
		}
	}
	told := func(n int) func() bool {
		return func() bool {
			keys := map[string]bool{}
			for name, words := range v.am.All() {
				for _, w := range words {
					k := w.Alert.Labels["k"]
					if !strings.HasPrefix(name, "Everybody") || !strings.HasPrefix(k, "system") {
						continue
					}
					require.False(t, w.Resolved, "%s of %s is ended", name, k)
					keys[name+" "+k] = true
				}
			}
			return len(keys) == 3*n
		}
	}
	const failures = 30
	for round := range 2 {
		flood(round)
		v.hasRead(lines)
		began := time.Now()
		for i := range failures {
			for range 2 {
				write(system, "boom", fmt.Sprintf("system%d-%d", round, i))
			}
		}
		v.eventually("each failure of kube-system is notified", told((round+1)*failures))
		t.Logf("round %d: notified after %v", round, time.Since(began))
	}
	flood(2)
	v.hasRead(lines)
	v.eventually("none is ended", told(2*failures))
}
