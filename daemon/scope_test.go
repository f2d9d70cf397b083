package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/test/rulefolder"
)

func TestScopeInTheDaemon(t *testing.T) {
	s := newShip(t)
	s.rules.Write("a.yaml", strings.Replace(rulefolder.Pack("a", "A", "text of a"), "by: [", "by: [pod, ", 1))
	s.rules.Write("b.yaml", strings.Replace(rulefolder.Pack("b", "B", "text of b"), "by: [namespace, pod]", "by: [namespace]", 1))
	s.cfg = func(c *config.Config) { c.Rules.Scope = rules.ScopeNode }
	s.start()
	_, body := s.get("/metrics")
	require.Contains(t, body, `crowsnest_rule_inactive{reason="scope",rule="B"} 1`)
	require.NotContains(t, body, `crowsnest_rule_inactive{reason="scope",rule="A"}`)
	_, body = s.get("/rules/B")
	require.Contains(t, body, "This rule is off: it needs logs from several nodes")
	_, body = s.get("/rules/A")
	require.NotContains(t, body, "This rule is off")
}
