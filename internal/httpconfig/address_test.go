package httpconfig

import (
	"testing"

	commonconfig "github.com/prometheus/common/config"
	"github.com/stretchr/testify/require"
)

func TestAddress(t *testing.T) {
	require.Equal(t, "https://bob:xxxxx@h/x?<secret>", DisplayAddress("https://bob:hunter2@h/x?key=hunter2"))
	require.Equal(t, "https://h/x", DisplayAddress("https://h/x"))
	require.Equal(t, "no address?", DisplayAddress("no address?"))
}

// The error of a request for a token has no query.
func TestErrorsHaveNoQuery(t *testing.T) {
	cfg := Config{commonconfig.HTTPClientConfig{OAuth2: &commonconfig.OAuth2{ClientID: "a", ClientSecret: "b", TokenURL: "http://127.0.0.1:1/token?key=hunter2"}}}
	c, err := cfg.NewClient("test")
	require.NoError(t, err)
	_, err = c.Get("http://127.0.0.1:1/") //nolint:bodyclose // there is no response
	require.ErrorContains(t, err, "/token?<secret>")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestBaseURL(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		_, err := BaseURL(raw, "http://x")
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	f("http://a/b", "")
	f("http://a/b?c=d", "remove what follows the path")
	f("https://a:1", "")
	f("a:9093", "no scheme")
	f("http://", "no host")
	f("http://u:secret@a", "no credentials")
	f("http://a#b", "remove")
	f("http://a:%secret", "invalid address")
}
