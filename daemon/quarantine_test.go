package daemon

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/test/rulefolder"
)

// A quarantined rule raises an alert, is shown in the API and on the pages, keeps
// its open alerts, and stays quarantined until it changes.
func TestDaemonQuarantinesRule(t *testing.T) {
	s := newShip(t)
	s.rules.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	s.start()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
	quarantined := func() bool {
		_, metrics := s.get("/metrics")
		_, api := s.get("/api/v1/rules")
		is := strings.Contains(metrics, `crowsnest_rule_inactive{reason="given_up",rule="A"} 1`)
		require.Equal(t, is, strings.Contains(api, `"health":"given_up"`))
		require.Equal(t, is, strings.Contains(api, `"givenUp":"it took more of a CPU`))
		return is
	}
	require.False(t, quarantined())
	program := s.d.pipe.rules.Load().Program
	program.Quarantine(s.d.pipe.rules.Load().Set.Rule("A"), matcher.ReasonCost)
	require.True(t, quarantined())
	s.eventually(func() bool { return len(s.am.firing("CrowsnestRuleGivenUp")) == 1 }, "it is notified")
	_, body := s.get("/rules/A")
	require.Contains(t, body, "no longer evaluated: it took more of a CPU")
	_, body = s.get("/metrics")
	require.Contains(t, body, `crowsnest_rule_held{rule="A"} 1`, "nothing is concluded from silence")
	require.Contains(t, body, `crowsnest_rule_held{rule="B"} 0`)

	// Its recovery is not seen, other rules are not disturbed.
	s.log("vc-0", "recovered")
	s.log("vc-0", "text of b")
	s.eventually(func() bool { return len(s.am.firing("B")) == 1 }, "other rules go on")
	require.False(t, s.am.resolved("A"))

	// A reload that does not change it.
	s.rules.Write("b.yaml", rulefolder.Pack("b", "B", "another text of b"))
	code, body := s.do(http.MethodPost, "/-/reload")
	require.Equal(t, http.StatusOK, code, body)
	require.NotSame(t, program, s.d.pipe.rules.Load().Program)
	require.True(t, quarantined())
	require.False(t, s.am.resolved("CrowsnestRuleGivenUp"))
	require.False(t, s.am.resolved("A"))

	// One that does.
	s.rules.Write("a.yaml", rulefolder.Pack("a", "A", "new text of a"))
	code, body = s.do(http.MethodPost, "/-/reload")
	require.Equal(t, http.StatusOK, code, body)
	require.False(t, quarantined())
	s.eventually(func() bool { return s.am.resolved("CrowsnestRuleGivenUp") }, "it is tried again")
	s.log("vc-1", "new text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 2 }, "it fires again")
}
