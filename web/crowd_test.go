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

// Whoever opens connections and says nothing, or little, on them keeps nobody
// out.
func TestCrowd(t *testing.T) {
	s, err := New(View{}, Options{Hosts: []string{"example.com"}, Registry: prometheus.NewRegistry(), MaxConns: 8})
	require.NoError(t, err)
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
	for _, said := range []string{
		"",                                  // nothing
		"GET / HTTP/1.1\r\nHost: a\r\nX-",   // not all
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", // all, and stays
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
	} {
		for range 50 {
			conn, err := net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, _ = io.WriteString(conn, said)
		}
		ask()
	}
	ask()
	cancel()
	require.NoError(t, <-done)
}

// Those that are being served stay for a while, and then there is no room.
func TestCrowdKeepsWhomItServes(t *testing.T) {
	answers, refused := besiege(t, time.Hour)
	require.Equal(t, 3, answers)
	require.Equal(t, 5, refused)
}

// Those that have been served for long make room.
func TestCrowdEndsWhomItServesForLong(t *testing.T) {
	answers, refused := besiege(t, 0)
	require.Equal(t, 0, answers)
	require.Equal(t, 0, refused)
}

// besiege has three requests served when five more connections come, in a crowd of
// three. It returns how many of the three were answered, and how many of the five
// were refused.
func besiege(t *testing.T, patience time.Duration) (answered, refused int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	guests := newCrowd(l, 3)
	guests.patience = patience
	arrived, leave := make(chan string), make(chan struct{})
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: guests.served(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
		<-leave
		_, _ = io.WriteString(w, "served")
	}))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(guests)
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
	require.Empty(t, guests.conns)
	return answered, refused
}
