package clusters

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/wait"
	"crowsnest/web"
)

// pack has a rule that fails and recovers per pod, and one that counts lines of one pod.
const pack = `pack: {name: mixing, version: 0.1.0}
rules:
- {alert: Fails, from: '{container="manager"}', match: it fails now, clear: it is well now, by: [namespace, pod], severity: critical, annotations: {summary: It fails.}}
- {alert: Often, from: '{container="manager"}', match: it repeats now, count: 3, within: 10m, by: [namespace, pod], severity: warning, annotations: {summary: It repeats.}}
`

// place is where pods of equal names are: a cluster, or what has no label cluster.
type place struct {
	name string
	is   map[string]string // labels of its alerts that tell it from others
	log  func(t *testing.T, pod, text string)
	list func(t *testing.T) []web.Episode // open alerts of its daemon
}

// has reports whether an alert is of the place.
func (p place) has(labels map[string]string) bool {
	for _, name := range []string{"cluster", "tenant"} {
		if labels[name] != p.is[name] {
			return false
		}
	}
	return true
}

var pods = []string{"a-0", "b-0"}

// mixing is a plan of lines in several places, and what has to be open.
type mixing struct {
	w      *world
	places []place
	seed   uint64
	steps  int
	cut    func(step int) // disturbs something

	open     map[[2]string]bool // place, pod
	failures map[[2]string]int  // how often it began
	lines    map[[2]string]int  // of the rule that counts
}

// stepsOf is shorter than the long form, which CROWSNEST_CHAOS=1 runs.
func stepsOf(short int) int {
	if os.Getenv("CROWSNEST_CHAOS") != "" {
		return 60
	}
	return short
}

// run writes lines and requires after each of them that exactly the right alerts are open
// in every place.
func (m *mixing) run() {
	m.w.Helper()
	rnd := rand.New(rand.NewPCG(m.seed, 7))
	m.open, m.failures, m.lines = map[[2]string]bool{}, map[[2]string]int{}, map[[2]string]int{}
	for step := range m.steps {
		p, pod := m.places[rnd.IntN(len(m.places))], pods[rnd.IntN(len(pods))]
		key := [2]string{p.name, pod}
		switch kind := rnd.IntN(8); {
		case kind < 4:
			if !m.open[key] {
				m.failures[key]++
			}
			m.open[key] = true
			p.log(m.w.T, pod, "it fails now")
		case kind < 7:
			m.open[key] = false
			p.log(m.w.T, pod, "it is well now")
		default:
			m.lines[key]++
			p.log(m.w.T, pod, "it repeats now")
		}
		m.cut(step)
		m.settle(fmt.Sprintf("step %d, seed %d", step, m.seed))
	}
	m.check()
}

// wanted returns the alerts that have to be open in a place.
func (m *mixing) wanted(p place) []string {
	var out []string
	for _, pod := range pods {
		if m.open[[2]string{p.name, pod}] {
			out = append(out, "Fails "+pod)
		}
		if m.lines[[2]string{p.name, pod}] >= 3 {
			out = append(out, "Often "+pod)
		}
	}
	slices.Sort(out)
	return out
}

func (m *mixing) settle(what string) {
	m.w.Helper()
	var diff string
	ok := wait.Until(patience, func() bool {
		diff = ""
		for _, p := range m.places {
			var got []string
			for _, e := range p.list(m.w.T) {
				if e.State == "firing" && e.Pack == "mixing" && p.has(e.Labels) {
					got = append(got, e.Alert+" "+e.Labels["pod"])
				}
			}
			slices.Sort(got)
			want := m.wanted(p)
			if !slices.Equal(want, got) {
				diff = fmt.Sprintf("%s: %s: want %v, got %v", what, p.name, want, got)
			}
			if notified := m.notified(p); !slices.Equal(want, notified) {
				diff = fmt.Sprintf("%s: %s: want %v, Alertmanager has %v", what, p.name, want, notified)
			}
		}
		return diff == ""
	})
	require.True(m.w, ok, "%s", diff)
}

// notified returns the alerts of a place that fire according to Alertmanager.
func (m *mixing) notified(p place) []string {
	fires := map[string]bool{}
	for _, rule := range []string{"Fails", "Often"} {
		for _, a := range m.w.am.Accepted(rule) {
			if p.has(a.Alert.Labels) {
				fires[rule+" "+a.Alert.Labels["pod"]] = !a.Resolved
			}
		}
	}
	maps.DeleteFunc(fires, func(_ string, yes bool) bool { return !yes })
	return slices.Sorted(maps.Keys(fires))
}

// warm waits until a daemon without a saved state notifies of everything.
func (w *world) warm(d *daemon.Daemon) {
	w.Helper()
	w.eventually("the start is complete", func() bool {
		return strings.Contains(d.Log(), "the start is complete: crowsnest now decides from the absence of lines")
	})
}

// check compares what Alertmanager was notified of: as many failures per place and pod as
// there were, and no alert of another key.
func (m *mixing) check() {
	m.w.Helper()
	type key struct{ place, pod string }
	began := map[key]map[time.Time]bool{}
	for _, a := range m.w.am.Accepted("Fails") {
		i := slices.IndexFunc(m.places, func(p place) bool { return p.has(a.Alert.Labels) })
		require.GreaterOrEqual(m.w, i, 0, "an alert of no place: %v", a.Alert.Labels)
		k := key{m.places[i].name, a.Alert.Labels["pod"]}
		if began[k] == nil {
			began[k] = map[time.Time]bool{}
		}
		began[k][a.Alert.StartsAt] = true
	}
	total := 0
	for k, n := range m.failures {
		total += n
		require.Len(m.w, began[key{k[0], k[1]}], n, "failures of %v", k)
	}
	require.Len(m.w, began, len(m.failures), "keys: %v", slices.Collect(maps.Keys(began)))
	m.w.Logf("%d steps in %d places with equal namespaces and pods: %d failures of %d keys, 0 ended by another place, 0 keys merged", m.steps, len(m.places), total, len(m.failures))
}

// episodesOf returns the open alerts of a daemon, by its API.
func episodesIn(body string) ([]web.Episode, error) {
	var in struct{ Data web.Episodes }
	err := unmarshal(body, &in)
	return in.Data.Episodes, err
}
