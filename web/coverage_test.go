package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	selectors "crowsnest/rules/selector"
)

func TestCoverage(t *testing.T) {
	set := &rules.Set{}
	for _, from := range []string{`{container="manager"}`, `{container=~"man.*",namespace!="x"}`, `{container="other"}`, `{container!="manager",container=~".+"}`} {
		sel, err := selectors.Parse(from)
		require.NoError(t, err)
		set.Rules = append(set.Rules, &rules.Rule{Alert: from, From: sel, Steps: []rules.Step{{From: sel}}})
	}
	stream := func(labels ...string) Stream {
		s := Stream{Labels: map[string]string{}}
		for i := 0; i < len(labels); i += 2 {
			s.Labels[labels[i]] = labels[i+1]
		}
		return s
	}
	kubelet := Source{Name: "kubelet", Streams: []Stream{
		stream("container", "manager", "namespace", "a", "pod", "p-0"), stream("container", "manager", "namespace", "a", "pod", "p-1"),
		stream("container", "manager", "namespace", "x", "pod", "p-2"), stream("container", "third"),
	}}
	f := func(sources []Source, seen time.Time, want ...string) {
		t.Helper()
		c := newCoverage(set, sources, now)
		for i, r := range set.Rules {
			require.Equal(t, want[i], fmt.Sprintf("%d %s", c.streams[r.Alert], c.ruleHealth(r, seen)), r.Alert)
		}
	}
	f([]Source{kubelet}, time.Time{}, "3 ok", "2 ok", "0 blind", "1 ok")
	f([]Source{kubelet, kubelet}, time.Time{}, "6 ok", "4 ok", "0 blind", "2 ok")
	f([]Source{kubelet}, now.Add(-time.Minute), "3 ok", "2 ok", "0 ok", "1 ok")
	f([]Source{kubelet}, now.Add(-2*time.Hour), "3 ok", "2 ok", "0 blind", "1 ok")
	f(nil, time.Time{}, "0 blind", "0 blind", "0 blind", "0 blind")
	// Loki and agents do not list their streams.
	f([]Source{{Filtered: true}}, time.Time{}, "0 unseen", "0 unseen", "0 unseen", "0 unseen")
	f([]Source{{Filtered: true}}, now.Add(-48*time.Hour), "0 ok", "0 ok", "0 ok", "0 ok")
}

// Every scrape computes the coverage of all rules.
func BenchmarkCoverage(b *testing.B) {
	set := &rules.Set{}
	for i := range 1000 {
		sel, err := selectors.Parse(fmt.Sprintf(`{container=~"c%d|d%d"}`, i, i))
		require.NoError(b, err)
		set.Rules = append(set.Rules, &rules.Rule{Alert: fmt.Sprint("R", i), From: sel, Steps: []rules.Step{{From: sel}}})
	}
	src := Source{}
	for i := range 1000 {
		src.Streams = append(src.Streams, Stream{Labels: map[string]string{"container": fmt.Sprint("c", i%50), "pod": fmt.Sprint("p", i), "namespace": fmt.Sprint("n", i%20)}})
	}
	for b.Loop() {
		newCoverage(set, []Source{src}, now)
	}
}
