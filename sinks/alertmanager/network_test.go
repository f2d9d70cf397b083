package alertmanager

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks/internal/delivery"
	"crowsnest/test/fakeam"
	"crowsnest/test/fault"
)

// serve runs a fake Alertmanager on a loopback port.
func serve(t *testing.T) *fakeam.Server {
	t.Helper()
	srv, err := fakeam.Serve(fakeam.New())
	require.NoError(t, err)
	t.Cleanup(srv.Stop)
	return srv
}

// running runs a sink until the test ends.
func running(t *testing.T, cfg Config) *Sink {
	t.Helper()
	s, err := New(cfg, Options{Log: zerolog.Nop()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

// until waits, request by request, for something to be true.
func until(t *testing.T, am *fakeam.AM, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		changed := am.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			require.Fail(t, "never: "+what)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var followed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer elsewhere.Close()
	srv := serve(t)
	srv.AM.Set(fault.Status(307, "Location", elsewhere.URL+"/api/v2/alerts"))
	cfg := Config{URLs: []string{srv.URL}}
	cfg.HTTP.BasicAuth = &commonconfig.BasicAuth{Username: "u", Password: "secret"}
	cfg.HTTP.FollowRedirects = true // the default of http_config
	s := running(t, cfg)
	s.Notify([]episodes.Episode{fire("A")})
	until(t, srv.AM, "two tries", func() bool { return len(srv.AM.Posts()) >= 2 })
	require.Zero(t, followed.Load())
	user, password, _ := (&http.Request{Header: srv.AM.Posts()[0].Header}).BasicAuth()
	require.Equal(t, "u secret", user+" "+password)
	st := s.Status()[0]
	require.Contains(t, st.Error, "redirected to "+elsewhere.URL+", which is not followed")
	require.NotContains(t, st.Error, "secret")
	require.NotZero(t, st.Failed[delivery.ReasonRedirect])
}

func TestRefusedConnection(t *testing.T) {
	srv := serve(t)
	srv.Stop()
	s := running(t, Config{URLs: []string{srv.URL + "/prefix/"}})
	ep := fire("A")
	s.Notify([]episodes.Episode{ep})
	require.NoError(t, srv.Start())
	until(t, srv.AM, "told", func() bool { return srv.AM.States("A") == "firing" })
}

// A peer cannot make the sink read endlessly.
func TestEndlessAnswer(t *testing.T) {
	for _, code := range []int{200, 400, 500} {
		srv := serve(t)
		srv.AM.Set(fakeam.Endless(code))
		s := running(t, Config{URLs: []string{srv.URL}})
		ep := fire("A")
		s.Notify([]episodes.Episode{ep})
		until(t, srv.AM, "an answer", func() bool { return len(srv.AM.Posts()) > 0 })
		for _, d := range s.Answers(ep.Fingerprint) {
			require.LessOrEqual(t, len(d.Error), 2*delivery.MaxExcerpt)
		}
	}
}

// Delivery starts when a certificate is mounted late. A certificate that does not
// fit is reported.
func TestTLS(t *testing.T) {
	am := fakeam.New()
	srv := httptest.NewUnstartedServer(am)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	cfg := Config{URLs: []string{srv.URL}}
	cfg.HTTP.TLSConfig.CAFile = ca
	s := running(t, cfg)
	s.Notify([]episodes.Episode{fire("A")})
	failed := func(s *Sink, reason string) func() bool {
		return func() bool { return s.Status()[0].Failed[reason] > 0 }
	}
	require.Eventually(t, failed(s, delivery.ReasonConfig), 30*time.Second, 5*time.Millisecond)
	require.Contains(t, s.Status()[0].Error, ca)

	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, cert, 0o600))
	until(t, am, "accepted", func() bool { return am.States("A") == "firing" })

	plain := running(t, Config{URLs: []string{srv.URL}})
	plain.Notify([]episodes.Episode{fire("A")})
	require.Eventually(t, failed(plain, delivery.ReasonConnection), 30*time.Second, 5*time.Millisecond)
	require.Contains(t, plain.Status()[0].Error, "certificate")
}
