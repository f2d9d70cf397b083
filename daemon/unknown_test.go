package daemon

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/daemon/config"
	"crowsnest/unknown/sentinel"
	"crowsnest/web"
)

const complaint = `E0302 10:00:00.000000       1 controller.go:316] "Reconciler error" err="failed to create the load balancer: quota of the project is used up" controller="machine" namespace="shop" name="md-0-a" reconcileID="r1"`

// complain writes the complaint every five minutes, for forty minutes of the clocks of
// all.
func (s *ship) complain(all ...*ship) {
	s.t.Helper()
	for range 8 {
		before := s.d.sentinel.Stats().Lines
		s.log("capi-0", complaint)
		s.eventually(func() bool { return s.d.sentinel.Stats().Lines > before }, "the line is read")
		for _, x := range append(all, s) {
			x.clock.Set(5 * time.Minute)
		}
	}
}

func (s *ship) unknown() web.Unknown {
	s.t.Helper()
	_, body := s.get("/api/v1/unknown")
	var got struct{ Data web.Unknown }
	require.NoError(s.t, json.Unmarshal([]byte(body), &got), body)
	return got.Data
}

// A complaint that no rule matches and that persists becomes one alert of level info. A
// process that is killed after it was notified does not notify it again, and it ends when
// the complaint is proved to be absent.
func TestUnknownFailure(t *testing.T) {
	s := newShip(t)
	s.passes = true
	s.start()
	s.log("vc-0", "error: text of a")
	s.complain()
	s.eventually(func() bool { return len(s.am.firing(sentinel.AlertName)) == 1 }, "it is notified")
	began := s.am.firing(sentinel.AlertName)
	got, _ := s.am.first(sentinel.AlertName)
	require.Equal(t, "info", got.Labels["severity"])
	require.Equal(t, "syncer", got.Labels["container"])
	require.Equal(t, "team-a", got.Labels["namespace"])
	require.Contains(t, got.Annotations["description"], "quota of the project is used up")
	require.NotContains(t, got.Annotations["description"], "text of a", "a rule watches that line")

	u := s.unknown()
	require.Len(t, u.Failures, 1)
	require.Equal(t, "alert", u.Failures[0].State)
	require.Equal(t, "persists", u.Failures[0].Reason)
	require.EqualValues(t, "shop/md-0-a", u.Failures[0].Object)
	code, page := s.get("/unknown")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, "quota of the project is used up")
	code, pack := s.get("/unknown/" + u.Failures[0].Fingerprint + "/rule")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, pack, "tests:")
	code, _ = s.get("/unknown/1/rule")
	require.Equal(t, http.StatusNotFound, code)
	s.metric("crowsnest_unknown_alerts 1")
	s.metric("crowsnest_unknown_patterns 1")

	s.eventually(func() bool {
		b, err := os.ReadFile(s.dir + "/state/state")
		return err == nil && contains(b, "quota of the project is used up") && contains(b, `"fired_at"`)
	}, "it is saved")
	require.NoError(t, os.CopyFS(s.dir+"/killed", os.DirFS(s.dir+"/state")))
	s.stop()
	require.NoError(t, os.RemoveAll(s.dir+"/state"))
	require.NoError(t, os.Rename(s.dir+"/killed", s.dir+"/state"))
	s.start()
	s.eventually(func() bool { return len(s.unknown().Failures) == 1 }, "it is still open")
	require.Equal(t, began, s.am.firing(sentinel.AlertName), "nothing new was notified")

	s.clock.Set(40 * time.Minute)
	s.eventually(func() bool { return s.am.resolved(sentinel.AlertName) }, "it ends")
	require.Empty(t, s.unknown().Failures)
}

func contains(b []byte, text string) bool { return strings.Contains(string(b), text) }

// The aggregator concludes from what an agent reports.
func TestUnknownFailureOnAgent(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	aggregator, address := newAggregator(t)
	agent := newAgentOf(t, address.String(), "n1")
	aggregator.passes, agent.passes = true, true
	aggregator.start()
	agent.start()
	agent.complain(aggregator)
	aggregator.eventually(func() bool { return len(aggregator.am.firing(sentinel.AlertName)) == 1 }, "it is notified")
	require.True(t, agent.unknown().Forwarded)
	require.Len(t, aggregator.unknown().Failures, 1)

	agent.stop()
	aggregator.clock.Set(40 * time.Minute)
	require.Never(t, func() bool { return aggregator.am.resolved(sentinel.AlertName) }, 7*time.Second, often, "an agent that is away ends nothing")
	agent.clock.Set(40 * time.Minute)
	agent.start()
	aggregator.eventually(func() bool { return aggregator.am.resolved(sentinel.AlertName) }, "it ends")
}

// With `enabled: false` nothing is watched.
func TestUnknownFailuresOff(t *testing.T) {
	s := newShip(t)
	s.cfg = func(c *config.Config) { c.Sentinel.Enabled = false }
	s.start()
	require.False(t, s.unknown().Enabled)
	code, page := s.get("/unknown")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, "This is off")
}
