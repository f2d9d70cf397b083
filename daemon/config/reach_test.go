package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

func TestBlindRules(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	f := func(config string, want ...string) {
		t.Helper()
		cfg, problems := Parse("c.yml", []byte(config))
		require.Empty(t, problems.Errors())
		require.Equal(t, want, cfg.blindRules(set))
	}
	host := []string{"ControlPlaneProcessOutOfMemory", "KubeletCannotReachAPIServer", "NodeOutOfMemory", "RancherSystemAgentCannotConnect"}
	am := "sinks: {stdout: {}}\n"
	f(am+"sources: {kubelet: {}, machines: {}}\n", host...)
	f(am+"sources: {kubelet: {}, machines: {}, files: {paths: [{path: /var/log/syslog, labels: {job: kernel, unit: kubelet.service}}]}}\n", "RancherSystemAgentCannotConnect")
	f(am + "sources: {kubelet: {}, machines: {}, journal: {}}\n")
	f(am + "sources: {agents: {}, machines: {}}\n")
	f(am + "sources: {loki: {url: 'http://loki:3100', selector: '{namespace=~\".+\"}'}}\n")
}
