package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConfigYAMLHidesOAuth2 keeps the credentials for a token server off the status page
// and out of messages about a broken file.
func TestConfigYAMLHidesOAuth2(t *testing.T) {
	const file = `sinks:
  alertmanager:
    urls: ["http://am:9093"]
    http_config:
      http_headers: {X-Team: {values: [sekret-6]}}
      oauth2:
        client_id: c
        client_secret: sekret-1
        token_url: "https://sso:sekret-2@sso.local/token?key=sekret-3"
        endpoint_params: {audience: sekret-4, password: sekret-5}
`
	cfg, problems := Parse("c.yml", []byte(file))
	text := FormatYAML(*cfg)
	require.Contains(t, text, "token_url")
	require.NotContains(t, text, "sekret")
	for _, p := range problems {
		require.NotContains(t, p.Snippet+p.Message, "sekret")
	}
}
