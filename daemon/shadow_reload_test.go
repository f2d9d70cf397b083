package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/test/rulefolder"
	"crowsnest/web"
)

// shadow waits until the API shows a shadow for which ok is true.
func (s *ship) shadow(what string, ok func(web.Shadow) bool) (out web.Shadow) {
	s.t.Helper()
	s.eventually(func() bool {
		_, body := s.get("/api/v1/status/shadow")
		var answer struct {
			Data struct{ Shadow *web.Shadow }
		}
		require.NoError(s.t, json.Unmarshal([]byte(body), &answer), body)
		if answer.Data.Shadow == nil || !ok(*answer.Data.Shadow) {
			return false
		}
		out = *answer.Data.Shadow
		return true
	}, what)
	return out
}

func (s *ship) version() string {
	cfg := s.d.cfg.Load()
	if a := loader.Installed(cfg, &cfg.Rules.Artifacts[0]); a != nil {
		return a.Version
	}
	return ""
}

// A reload in the middle of a shadow starts its time and its counts again, with the new
// rules around it; a reload that takes the name of one of its rules ends it.
func TestDaemonReloadsDuringShadow(t *testing.T) {
	s := newShip(t)
	p := newPublisher(t)
	s.passes = true
	s.cfg = p.entry(&config.Shadow{For: time.Hour, Budget: 5})
	first := rulefolder.Pack("b", "B", "text of b")
	p.publish("1.0.0", first, p.key.PrivateKey)
	s.start()
	s.inForce("B")
	p.publish("1.1.0", strings.ReplaceAll(first, `match: "text of b"`, `match: "text of"`), p.key.PrivateKey)
	began := s.shadow("it is evaluated", func(sh web.Shadow) bool { return sh.Version == "1.1.0" }).Began
	s.log("team-a/vc-0", "text of d") // neither version in force nor a.yaml matches it
	s.eventually(func() bool {
		s.clock.Set(time.Second)
		_, body := s.get("/api/v1/status/shadow")
		return strings.Contains(body, `"onlyNew":1`)
	}, "a difference is counted once it has lasted")

	// After half of its time, other rules change.
	s.clock.Set(30 * time.Minute)
	s.rules.Write("a.yaml", rulefolder.Pack("a", "A", "new text of a"))
	code, body := s.do(http.MethodPost, "/-/reload")
	require.Equal(t, http.StatusOK, code, body)
	again := s.shadow("it starts again", func(sh web.Shadow) bool { return sh.Began.After(began.Add(29 * time.Minute)) })
	require.Equal(t, "1.1.0", again.Version)
	require.Zero(t, again.Differences)
	require.Equal(t, "1.0.0", s.version())
	s.works("A", "team-b", "new text of a")
	s.works("B", "team-c", "text of b")
	s.clock.Set(45 * time.Minute)
	s.shadow("its time is not over", func(sh web.Shadow) bool { return sh.Began.Equal(again.Began) })
	require.Equal(t, "1.0.0", s.version())
	s.clock.Set(16 * time.Minute)
	s.eventually(func() bool { return s.version() == "1.1.0" }, "it is promoted an hour after the reload")

	// The next version has a rule C, and a pack of the folder takes that name.
	p.publish("1.2.0", rulefolder.Pack("b", "C", "text of c"), p.key.PrivateKey)
	s.shadow("it is evaluated", func(sh web.Shadow) bool { return sh.Version == "1.2.0" })
	s.rules.Write("c.yaml", rulefolder.Pack("c", "C", "other text of c"))
	code, body = s.do(http.MethodPost, "/-/reload")
	require.Equal(t, http.StatusOK, code, body)
	s.refused("does not fit the other rules")
	s.clock.Set(2 * time.Hour)
	s.works("C", "team-d", "other text of c")
	require.Equal(t, "1.1.0", s.version())
	s.rules.Remove("c.yaml")
	code, body = s.do(http.MethodPost, "/-/reload")
	require.Equal(t, http.StatusOK, code, body)
	s.clock.Set(time.Minute)
	s.shadow("it fits again", func(sh web.Shadow) bool { return sh.Version == "1.2.0" })
	s.stop()
}

// A new version with a rule that takes more of a CPU than limits.rule_cpu allows is
// refused, although it fires the same alerts.
func TestDaemonRefusesCostlyShadow(t *testing.T) {
	s := newShip(t)
	p := newPublisher(t)
	s.passes = true
	entry := p.entry(&config.Shadow{For: 24 * time.Hour})
	s.cfg = func(c *config.Config) {
		entry(c)
		c.Limits.RuleCPU = 0.0005
	}
	first := rulefolder.Pack("b", "B", "text of b")
	p.publish("1.0.0", first, p.key.PrivateKey)
	s.start()
	s.inForce("B")
	p.publish("1.1.0", strings.ReplaceAll(first, `match: "text of b"`, `match: {regex: "text of b( ([a-z]+|[0-9]+))*$"}`), p.key.PrivateKey)
	s.shadow("it is evaluated", func(sh web.Shadow) bool { return sh.Version == "1.1.0" })
	line := "text of b" + strings.Repeat(" words and 12345 numbers", 600)
	tries := 0
	s.eventually(func() bool {
		s.log("team-a/vc-0", line)
		// Costs are compared at most every 200 ms, and only over less than 20 s.
		if tries++; tries%2 == 0 {
			s.clock.Set(time.Second)
		}
		_, body := s.get("/api/v1/status/shadow")
		return strings.Contains(body, `"refused":"rule B takes`)
	}, "the rule is too costly")
	s.refused("is not promoted: rule B takes")
	require.Equal(t, "1.0.0", s.version())
	_, metrics := s.get("/metrics")
	require.NotContains(t, metrics, `crowsnest_rule_inactive{reason="given_up",rule="B"}`, "the version in force is not costly")
	s.clock.Set(48 * time.Hour)
	s.works("B", "team-b", "text of b")
	require.Equal(t, "1.0.0", s.version(), "its time is over, and it stays refused")
	s.stop()
}
