package lead

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/wait"
)

// A process that stands by has no checkpoints, and only a standby with the token gets one.
func TestServer(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("right\n"), 0o600))
	cfg := Settings{SharedFolder: t.TempDir(), ListenAddress: "127.0.0.1:0", BearerTokenFile: token}
	require.NoError(t, cfg.Validate())
	srv, err := Listen(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.Run(ctx) }()
	url := srv.URL(func(string) string { return "" })
	client, err := cfg.NewClient()
	require.NoError(t, err)
	stranger := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	post := func(c *http.Client, path string) int {
		t.Helper()
		resp, err := c.Post(url+path, "application/json", strings.NewReader(`{"id":"b","version":1}`))
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	require.Equal(t, http.StatusUnauthorized, post(stranger, Path))
	require.Equal(t, http.StatusNotFound, post(client, "/"))
	require.Equal(t, http.StatusMisdirectedRequest, post(client, Path))

	store, err := cfg.NewStore(nil)
	require.NoError(t, err)
	e := NewElector(store, Candidate{ID: "a", URL: url, State: true, Version: 1}, quick, nil)
	e.renewOrCampaign(t.Context())
	require.True(t, e.IsLeading())
	leader := NewLeader(e, 1, time.Second, func() [][]byte { return nil }, func() {})
	leader.Offer([]byte("state"), nil)
	srv.Lead(leader)
	require.Equal(t, http.StatusOK, post(client, Path))
	require.NoError(t, os.WriteFile(token, []byte("new"), 0o600))
	require.Equal(t, http.StatusOK, post(client, Path), "both read it again")
	client.CloseIdleConnections()
	cancel()
	require.NoError(t, <-done)
	require.True(t, wait.Until(time.Second, func() bool {
		resp, err := stranger.Get(url)
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	}))
}

// The address for the other process is that of the listener, or what the pod is given.
func TestAdvertised(t *testing.T) {
	f := func(cfg Settings, listen, ip, want string) {
		t.Helper()
		cfg.ListenAddress = listen
		srv, err := Listen(cfg)
		require.NoError(t, err)
		defer srv.listener.Close()
		_, port, _ := strings.Cut(srv.listener.Addr().String(), "]:")
		if port == "" {
			_, port, _ = strings.Cut(srv.listener.Addr().String(), ":")
		}
		got := srv.URL(func(key string) string { return map[string]string{"POD_IP": ip}[key] })
		require.Equal(t, strings.ReplaceAll(want, "PORT", port), got)
	}
	f(Settings{}, "127.0.0.1:0", "10.0.0.1", "http://127.0.0.1:PORT")
	f(Settings{}, ":0", "10.0.0.1", "http://10.0.0.1:PORT")
	f(Settings{}, ":0", "fd00::1", "http://[fd00::1]:PORT")
	f(Settings{AdvertiseURL: "https://a.example.org:1/"}, ":0", "10.0.0.1", "https://a.example.org:1")
}

// Times keep their proportions.
func TestTimes(t *testing.T) {
	require.Equal(t, DefaultTimes, Settings{}.ElectionTimes())
	require.Equal(t, Times{Lease: 30 * time.Second, Renew: 20 * time.Second, Retry: 4 * time.Second, Grace: 2 * time.Minute, Empty: 20 * time.Second},
		Settings{LeaseDuration: 30 * time.Second}.ElectionTimes())
}
