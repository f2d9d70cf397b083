package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
	"crowsnest/test/wait"
)

// An agent finds the leader among all URLs, and again when the lead changes.
func TestFindsTheLeader(t *testing.T) {
	var leader atomic.Int32
	var urls []string
	var got [3]atomic.Int32
	for i := range 3 {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(wire.Header, "1")
			if int(leader.Load()) != i {
				http.Error(w, "this process is not the leader", http.StatusMisdirectedRequest)
				return
			}
			got[i].Add(1)
			_, _ = w.Write([]byte(`{"taken":0,"saved":0}`))
		}))
		t.Cleanup(srv.Close)
		urls = append(urls, srv.URL+"/")
	}
	s, err := New(Config{URLs: urls, Node: "n1"}, Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = s.Run(ctx); close(done) }()
	for _, i := range []int{0, 2, 1, 0} {
		leader.Store(int32(i))
		before := got[i].Load()
		require.True(t, wait.Until(20*time.Second, func() bool { return got[i].Load() > before }), "it reaches the leader")
	}
	require.Zero(t, s.failed[reasonStandby], "a standby is no failure")
	cancel()
	<-done
}

// The names of URLs may have several addresses, which are tried in turn.
func TestTargets(t *testing.T) {
	ts := targets{urls: []string{"http://a:1", "http://b:2/x"}, lookup: func(_ context.Context, host string) ([]string, error) {
		return map[string][]string{"a": {"10.0.0.2", "10.0.0.1"}, "b": {"10.0.0.3"}}[host], nil
	}}
	require.Equal(t, "http://a:1", ts.baseURL())
	var seen []target
	for range 4 {
		require.Equal(t, 3, ts.useNext(t.Context()))
		seen = append(seen, ts.current)
	}
	require.Equal(t, []target{{"http://a:1", "a", "10.0.0.2"}, {"http://b:2/x", "b", ""}, {"http://a:1", "a", "10.0.0.1"}, {"http://a:1", "a", "10.0.0.2"}}, seen)
}
