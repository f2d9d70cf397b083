package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// Clients that open connections and send little or nothing lock nobody out.
func TestLimiter(t *testing.T) {
	s := New(emptyView(), Options{Hosts: []string{"example.com"}, Registry: prometheus.NewRegistry(), MaxConns: 8})
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l, nil) }()
	ask := func() {
		t.Helper()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
		resp, err := client.Get("http://" + l.Addr().String() + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "served", string(body))
	}
	for _, sent := range []string{
		"",                                  // nothing
		"GET / HTTP/1.1\r\nHost: a\r\nX-",   // incomplete
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", // complete, and keeps the connection open
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
	} {
		for range 50 {
			conn, err := net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, _ = io.WriteString(conn, sent)
		}
		ask()
	}
	ask()
	cancel()
	require.NoError(t, <-done)
}

// Connections with a recent request are kept, and new ones are refused.
func TestLimiterKeepsServedConnections(t *testing.T) {
	answers, refused := overload(t, time.Hour)
	require.Equal(t, 3, answers)
	require.Equal(t, 5, refused)
}

// Connections whose request takes longer than the patience are replaced.
func TestLimiterEvictsLongRequests(t *testing.T) {
	answers, refused := overload(t, 0)
	require.Equal(t, 0, answers)
	require.Equal(t, 0, refused)
}

// overload opens five connections while three requests are in progress, with a limit
// of three. It returns how many of the three were answered and how many of the five
// were refused.
func overload(t *testing.T, patience time.Duration) (answered, refused int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	limited := newLimiter(l, 3)
	limited.patience = patience
	arrived, leave := make(chan string), make(chan struct{})
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: limited.trackRequests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
		<-leave
		_, _ = io.WriteString(w, "served")
	}))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(limited)
	}()
	answers := make(chan string, 3)
	for i := range 3 {
		go func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				answers <- err.Error()
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET /%d HTTP/1.0\r\n\r\n", i)
			b, _ := io.ReadAll(conn)
			answers <- string(b)
		}()
		<-arrived
	}
	for range 5 {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		fmt.Fprint(conn, "GET /late HTTP/1.0\r\n\r\n")
		if patience == 0 {
			<-arrived
		} else if _, err = conn.Read(make([]byte, 1)); err != nil {
			refused++
		}
		defer conn.Close()
	}
	close(leave)
	for range 3 {
		if strings.HasSuffix(<-answers, "served") {
			answered++
		}
	}
	require.NoError(t, srv.Close())
	<-done
	require.Empty(t, limited.conns)
	return answered, refused
}
