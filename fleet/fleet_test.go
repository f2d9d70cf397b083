package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	source "crowsnest/sources/fleet"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sky is a made-up fleet.
type sky struct {
	t   *testing.T
	f   *Fleet
	now time.Time
	all []source.Cluster
}

func newSky(t *testing.T, clusters int, cfg source.Alert) *sky {
	s := &sky{t: t, f: New(cfg.WithDefaults()), now: t0}
	for i := range clusters {
		s.all = append(s.all, source.Cluster{Name: fmt.Sprintf("c%d", i), State: source.Up, Answered: t0, Link: fmt.Sprintf("https://c%d", i)})
	}
	return s
}

// open makes a rule open in clusters.
func (s *sky) open(rule string, severity, affected, version string, clusters ...int) {
	for _, i := range clusters {
		r := source.Rule{Name: rule, Severity: severity, Open: 2, Since: t0.Add(-time.Duration(i) * time.Minute), Affected: affected}
		if version != "" {
			r.Versions = []string{version}
		}
		s.all[i].Rules = append(slices.Clone(s.all[i].Rules), r)
	}
}

func (s *sky) clear(clusters ...int) {
	for _, i := range clusters {
		s.all[i].Rules = nil
	}
}

func (s *sky) state(st source.State, clusters ...int) {
	for _, i := range clusters {
		s.all[i].State, s.all[i].Since = st, s.now
	}
}

// after evaluates every five seconds for d, and returns all changes.
func (s *sky) after(d time.Duration) (out []episodes.Episode) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(5 * time.Second)
		out = append(out, s.f.Evaluate(s.now, s.all)...)
	}
	return out
}

func TestOneAlertForManyClusters(t *testing.T) {
	s := newSky(t, 40, source.Alert{})
	s.open("Conflict", "warning", "no", "1.31.2", 0, 1)
	require.Empty(t, s.after(5*time.Minute), "two clusters are too few")
	s.open("Conflict", "critical", "yes", "1.32.0", 2, 3, 4, 5, 6, 7, 8, 9, 10)
	s.open("Conflict", "warning", "unknown", "", 11, 12, 13)
	s.state(source.Unknown, 37, 38, 39)
	require.Empty(t, s.after(time.Minute), "it has to last")
	got := s.after(10 * time.Second)
	require.Len(t, got, 1)
	e := got[0]
	require.Equal(t, map[string]string{"alertname": "CrowsnestFleetFailure", "rule": "Conflict", "severity": "critical"}, e.Labels)
	require.Equal(t, episodes.StateFiring, e.State)
	require.Equal(t, episodes.FingerprintOf(e.Labels), e.Fingerprint)
	require.Equal(t, t0.Add(-11*time.Minute), e.StartsAt, "when the third cluster had it")
	require.Equal(t, map[string]string{
		"summary":     "Conflict is open in 14 of 40 clusters; 9 of them run an affected version; 3 clusters do not answer",
		"description": "First seen in c13 at 2025-12-31T23:47:00Z.\nOpen in: c0, c1, c10, c11, c12, c13, c2, c3, c4, c5, 4 more.\nRunning versions: 1.32.0 in 9, 1.31.2 in 2.",
		"remediation": "Look for what these clusters have in common: a version, or a change that was rolled out to all of them. Stop a roll-out that is in progress. Each cluster has an alert of its own with the log lines and the steps to take. The first: https://c13/?filter=Conflict",
	}, e.Annotations)
	require.Empty(t, s.after(time.Hour), "nothing changes")
	s.open("Conflict", "warning", "", "", 20)
	require.Equal(t, "Conflict is open in 15 of 40 clusters; 9 of them run an affected version; 3 clusters do not answer", s.after(5 * time.Second)[0].Annotations["summary"])
	require.Len(t, s.f.Open(s.all), 1)
	require.Equal(t, int64(15), s.f.Open(s.all)[0].Count)
	require.Equal(t, 1, testutil.CollectAndCount(s.f.Metrics(func() []source.Cluster { return s.all }), "crowsnest_fleet_rule_clusters"))
}

// Clusters that stop answering end nothing, and start nothing.
func TestSilenceConcludesNothing(t *testing.T) {
	s := newSky(t, 6, source.Alert{})
	s.open("A", "warning", "", "", 0, 1, 2)
	require.Len(t, s.after(2*time.Minute), 1)
	s.state(source.Unknown, 0, 1, 2, 3, 4)
	s.state(source.Conflict, 5)
	got := s.after(24 * time.Hour)
	require.Len(t, got, 1, "its texts")
	require.Equal(t, "A is open in 3 of 6 clusters; 5 clusters do not answer; the name of 1 cluster is in doubt", got[0].Annotations["summary"])
	require.Contains(t, got[0].Annotations["description"], "As last reported, because they do not answer or their name is in doubt: c0 since")

	s.clear(0, 1, 2) // a restart of this process forgot them
	require.Empty(t, s.after(time.Hour))
	s.state(source.Up, 0)
	got = s.after(9 * time.Minute)
	require.Len(t, got, 1)
	require.Equal(t, episodes.StateFiring, got[0].State)
	below := s.now.Add(-9 * time.Minute).Add(5 * time.Second)
	got = s.after(2 * time.Minute)
	require.Len(t, got, 1)
	require.Equal(t, episodes.StateResolved, got[0].State)
	require.Equal(t, episodes.ReasonClear, got[0].Reason)
	require.Equal(t, below, got[0].EndsAt, "when too few clusters had it")
	require.Empty(t, s.f.Open(s.all))

	// Old alerts of clusters that do not answer do not make one fire.
	s.open("B", "warning", "", "", 1, 2, 3)
	require.Empty(t, s.after(time.Hour))
}

// An alert neither fires nor ends because of a moment.
func TestHold(t *testing.T) {
	s := newSky(t, 10, source.Alert{MinClusters: 3})
	for range 20 { // too short to fire
		s.open("A", "warning", "", "", 0, 1, 2)
		require.Empty(t, s.after(50*time.Second))
		s.clear(2)
		require.Empty(t, s.after(10*time.Second))
		s.clear(0, 1)
	}
	s.open("A", "warning", "", "", 0, 1, 2)
	require.Len(t, s.after(2*time.Minute), 1)
	for range 20 { // too short to end
		s.clear(2)
		for _, e := range s.after(9 * time.Minute) {
			require.Equal(t, episodes.StateFiring, e.State)
		}
		s.open("A", "warning", "", "", 2)
		for _, e := range s.after(time.Minute) {
			require.Equal(t, episodes.StateFiring, e.State)
		}
	}
	require.Equal(t, int64(1), s.f.fired)
}

func TestShare(t *testing.T) {
	f := New(source.Alert{MinShare: .1}.WithDefaults())
	for clusters, want := range map[int]int{0: 2, 3: 2, 20: 2, 21: 3, 30: 3, 40: 4, 500: 50} {
		require.Equal(t, want, f.Needed(clusters), clusters)
	}
	require.Equal(t, 3, New(source.Alert{}.WithDefaults()).Needed(40))
}

// A cluster that is removed from the fleet leaves its alerts.
func TestForgottenCluster(t *testing.T) {
	s := newSky(t, 4, source.Alert{})
	s.open("A", "warning", "", "", 0, 1, 2)
	require.Len(t, s.after(2*time.Minute), 1)
	s.all = s.all[1:]
	got := s.after(11 * time.Minute)
	require.Equal(t, "A is open in 2 of 3 clusters", got[0].Annotations["summary"])
	require.Equal(t, episodes.StateResolved, got[len(got)-1].State)
}

// A restart at any time changes nothing: the alerts of a fleet that is restarted at random
// are those of one that is not.
func TestRestarts(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a, b := newSky(t, 8, source.Alert{}), newSky(t, 8, source.Alert{})
		var wantAll, gotAll []string
		for range 60 {
			i, rule := rnd.IntN(8), string(rune('A'+rnd.IntN(2)))
			switch rnd.IntN(4) {
			case 0:
				a.clear(i)
				b.clear(i)
			case 1:
				st := source.States()[rnd.IntN(3)]
				a.state(st, i)
				b.state(st, i)
			default:
				a.open(rule, "warning", "", "", i)
				b.open(rule, "warning", "", "", i)
			}
			d := time.Duration(rnd.IntN(120)) * 5 * time.Second
			wantAll, gotAll = append(wantAll, turns(a.after(d))...), append(gotAll, turns(b.after(d))...)
			saved, err := b.f.Export()
			require.NoError(t, err)
			require.False(t, b.f.Changed())
			b.f = New(b.f.cfg)
			require.NoError(t, b.f.Import(saved))
			require.Equal(t, turns(a.f.Open(a.all)), turns(b.f.Open(b.all)))
		}
		require.Equal(t, wantAll, gotAll, "seed %d", seed)
	}
	require.Error(t, New(source.Alert{}).Import([]byte("[")))
}

func turns(all []episodes.Episode) (out []string) {
	for _, e := range all {
		out = append(out, fmt.Sprint(e.Labels["rule"], e.State, e.StartsAt, e.EndsAt, e.Annotations["summary"]))
	}
	return out
}

func TestRules(t *testing.T) {
	s := newSky(t, 5, source.Alert{MinClusters: 2})
	s.open("A", "warning", "yes", "1", 0, 1)
	s.open("B", "critical", "", "", 2)
	s.open("C", "info", "", "", 3)
	s.after(2 * time.Minute)
	s.state(source.Unknown, 1)
	s.state(source.Unknown, 3)
	got := s.f.Rules(s.all)
	require.Len(t, got, 2)
	require.Equal(t, "A", got[0].Name)
	require.NotZero(t, got[0].Alert)
	require.Len(t, got[0].In, 2, "the alert has the cluster that does not answer")
	require.Equal(t, t0.Add(-time.Minute), got[0].Since())
	require.Equal(t, "B", got[1].Name)
	require.Zero(t, got[1].Alert)
	require.Equal(t, []Version{{"1", 2}}, Versions(got[0].In))
}
