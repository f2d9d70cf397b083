package hostile

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

const namespacesPack = `pack: {name: namespaces, version: 0.1.0, rules: 3}
rules:
- alert: Everybody
  origin: any
  from: '{container="c"}'
  severity: warning
  match: {contains: boom, regex: 'key=(?P<k>\S+)'}
  by: [namespace, k]
- alert: EverybodyCritical
  origin: any
  from: '{container="c"}'
  severity: critical
  match: {contains: boom, regex: 'key=(?P<k>\S+)'}
  by: [k]
  clear: {contains: calm, regex: 'key=(?P<k>\S+)', same: [k]}
- alert: EverybodyTwice
  origin: any
  from: '{container="c"}'
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
		t.Run(fmt.Sprintf("%d namespaces %d keys churns %v", namespaces, keys, churns), func(t *testing.T) {
			flooded(t, namespaces, keys, churns)
		})
	}
	f(150, 1, false)
	f(150, 30, true)
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
	failures := map[string]bool{} // rules and keys that have to be notified
	var left []string
	told := func() bool {
		missing := maps.Clone(failures)
		for name, words := range v.am.All() {
			for _, w := range words {
				k := w.Alert.Labels["k"]
				if failures[name+" "+k] {
					require.False(t, w.Resolved, "%s of %s is ended", name, k)
					delete(missing, name+" "+k)
				}
			}
		}
		if left = slices.Sorted(maps.Keys(missing)); len(left) > 5 {
			left = append(left[:5], fmt.Sprintf("%d more", len(missing)-5))
		}
		return len(missing) == 0
	}
	for round := range 2 {
		flood(round)
		v.hasRead(lines)
		began := time.Now()
		for i := range 30 {
			key := fmt.Sprintf("system%d-%d", round, i)
			write(system, "boom", key)
			write(system, "boom", key)
			for _, rule := range []string{"Everybody", "EverybodyCritical", "EverybodyTwice"} {
				failures[rule+" "+key] = true
			}
		}
		if !wait.Until(patience, told) {
			require.Fail(t, "failures of kube-system are not notified", "%v", left)
		}
		t.Logf("round %d: notified after %v", round, time.Since(began))
	}
	flood(2)
	v.hasRead(lines)
	require.True(t, told(), "%v", left)
}
