//go:build e2e

package loki

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/test/servers"
)

// events returns what Loki has of each alert, in order of time.
func events(l *servers.LokiServer, tenant, selector string) map[string]string {
	out := map[string]string{}
	for _, e := range l.Query(tenant, selector, time.Now().Add(-time.Hour)) {
		name := e.Metadata["alertname"]
		out[name] = strings.TrimSpace(out[name] + " " + e.Metadata["event"])
	}
	return out
}

func over(ep episodes.Episode) episodes.Episode {
	ep.State, ep.Reason = episodes.StateResolved, episodes.ReasonClear
	ep.EndsAt, ep.ConcludedAt = time.Now(), time.Now()
	return ep
}

// The transitions of an alert are lines of one stream, which queries can filter by its
// other properties. Each tenant has its own stream.
func TestRealLoki(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{Auth: true})
	s, stop := run(t, Config{URL: l.URL, Tenant: "ops", UpdateDelay: time.Second, ExternalLabels: cluster, Labels: map[string]string{"team": "x"}})
	a, b := live("A"), live("B")
	s.Notify([]episodes.Episode{a, b})
	eventually(t, "opened", func() bool { return s.Status()[0].Sent == 2 })
	a.Count, a.LastSeen = 9, time.Now()
	s.Notify([]episodes.Episode{a})
	eventually(t, "updated", func() bool { return s.Status()[0].Sent == 3 })
	s.Notify([]episodes.Episode{over(a)})
	eventually(t, "resolved", func() bool { return s.Status()[0].Sent == 4 })
	stop()

	stream := `{service_name="crowsnest", cluster="prod-1", severity="info", team="x"}`
	require.Equal(t, map[string]string{"A": "opened updated resolved", "B": "opened"}, events(l, "ops", stream))
	require.Equal(t, map[string]string{"A": "updated"}, events(l, "ops", stream+` | json | event="updated" | count="9"`))
	require.Equal(t, map[string]string{"B": "opened"}, events(l, "ops", stream+` | alertname="B" | region="eu"`))
	require.Empty(t, events(l, "ops", `{service_name="crowsnest"} |= "leaderelection lost"`), "the log line is not in the line")
	require.Empty(t, events(l, "others", `{service_name="crowsnest"}`))

	s, stop = run(t, Config{URL: l.URL})
	s.Notify([]episodes.Episode{live("A")})
	eventually(t, "refused", func() bool { return s.Status()[0].Failed["auth"] > 0 })
	stop()
}

// An entry that Loki refuses affects no other.
func TestRealLokiRefusesOne(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{Args: []string{"-distributor.max-line-size=1KB"}})
	s, stop := run(t, Config{URL: l.URL})
	bad := live("Bad")
	bad.Annotations = map[string]string{"summary": strings.Repeat("x", 2000)}
	s.Notify([]episodes.Episode{live("A"), bad, live("B"), live("C")})
	eventually(t, "the others delivered", func() bool { return s.Status()[0].Sent >= 3 && s.Status()[0].Failed["refused"] > 0 })
	stop()
	require.Equal(t, map[string]string{"A": "opened", "B": "opened", "C": "opened"}, events(l, "", `{service_name="crowsnest"}`))
	t.Log(s.Status()[0])
}

// While Loki is away, nothing blocks and nothing grows; afterwards it is sent
// the newest messages.
func TestRealLokiAway(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{})
	s, stop := run(t, Config{URL: l.URL})
	s.Notify([]episodes.Episode{live("Before")})
	eventually(t, "delivered", func() bool { return s.Status()[0].Sent == 1 })
	l.Kill()
	eps := make([]episodes.Episode, 500)
	for i := range eps {
		eps[i] = live(fmt.Sprint("A", i))
	}
	var slowest time.Duration
	s.Notify(eps)
	eventually(t, "noticed", func() bool { return !s.Status()[0].Up })
	goroutines, memory := runtime.NumGoroutine(), heap()
	for range 2000 { // a million messages
		at := time.Now()
		s.Notify(eps)
		slowest = max(slowest, time.Since(at))
	}
	t.Logf("a million messages while Loki is away: slowest Notify of 500 %s, heap %+d KiB, goroutines %+d, pending %d",
		slowest, (heap()-memory)>>10, runtime.NumGoroutine()-goroutines, s.Status()[0].Pending)
	require.Equal(t, 500, s.Status()[0].Pending)
	require.Less(t, heap()-memory, int64(4<<20))
	l.Launch()
	l.WaitReady()
	require.Eventually(t, func() bool { return s.Status()[0].Pending == 0 }, time.Minute, 10*time.Millisecond)
	stop()
	got := events(l, "", `{service_name="crowsnest"}`)
	require.Len(t, got, 501)
	for name, words := range got {
		require.Equal(t, "opened", words, name)
	}
	t.Logf("failed: %v", s.Status()[0].Failed)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
