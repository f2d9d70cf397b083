package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/web"
)

func TestLinksOfPages(t *testing.T) {
	f := func(text string) (*Config, string) {
		cfg, problems := Parse("c.yml", []byte("sources: {kubelet: {}}\n"+text))
		return cfg, problems.Error()
	}
	cfg, problems := f("web: {logs_url: 'https://g/explore?panes=%7B{selector_json}%7D&from={from}', alertmanager_url: 'https://am/x'}\nsinks: {alertmanager: [{urls: ['http://a:9093']}]}\n")
	require.Empty(t, problems)
	require.Equal(t, web.Links{Logs: "https://g/explore?panes=%7B{selector_json}%7D&from={from}", Alertmanager: "https://am/x"}, cfg.Links())
	cfg, problems = f("sinks: {alertmanager: [{urls: ['http://a:9093', 'http://b:9093']}]}\n")
	require.Empty(t, problems)
	require.Equal(t, web.Links{Alertmanager: "http://a:9093"}, cfg.Links())
	cfg, problems = f("web: {identity_header: X-User, trusted_proxies: [10.0.3.7, 10.0.4.0/24, '::ffff:10.0.5.1']}\n")
	require.Empty(t, problems)
	require.Equal(t, "[10.0.3.7/32 10.0.4.0/24 10.0.5.1/32]", fmt.Sprint(cfg.Links().TrustedProxies))
	require.Equal(t, "X-User", cfg.Links().IdentityHeader)
	cfg, problems = f("web: {mcp: true}\n")
	require.Empty(t, problems)
	require.True(t, cfg.Links().MCP)
	for text, want := range map[string]string{
		"web: {mcp: true}\nsinks: {upstream: {url: 'http://a:9798'}}":        "turn it on at the aggregator",
		"web: {identity_header: X-User}":                                     "such as trusted_proxies: [10.0.3.0/24]",
		"web: {identity_header: 'X User', trusted_proxies: [10.0.3.7]}":      "write it like X-Auth-Request-User",
		"web: {identity_header: authorization, trusted_proxies: [10.0.3.7]}": "write it like X-Auth-Request-User",
		"web: {trusted_proxies: [10.0.3.7]}":                                 "no effect without identity_header",
		"web: {identity_header: X-User, trusted_proxies: [proxy.example]}":   "write it like 10.0.3.7",
		"web: {identity_header: X-User, trusted_proxies: [0.0.0.0/0]}":       "does not contain all addresses",
		"web: {logs_url: 'https://g/{\"a\"}'}":                               "a brace that is not part of a placeholder",
		"web: {logs_url: 'javascript:alert(1)'}":                             "must be an absolute http or https address",
		"web: {logs_url: '/explore'}":                                        "must be an absolute http or https address",
		"web: {alertmanager_url: 'http://u:p@am'}":                           "must be an absolute http or https address",
		"web: {alertmanager_url: 'ftp://am.example'}":                        "must be an absolute http or https address",
		"web: {alertmanager: 'http://am.example.org'}":                       "alertmanager_url",
	} {
		_, problems = f(text + "\n")
		require.Contains(t, problems, want, text)
	}
}
