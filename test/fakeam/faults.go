package fakeam

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// errReset stands for a connection that was reset.
var errReset = errors.New("read: connection reset by peer")

// Hang never answers.
func Hang(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// Reset breaks the connection instead of answering.
func Reset(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// Slow answers as usual, after d.
func Slow(d time.Duration) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return false
		case <-r.Context().Done():
			return true
		}
	}
}

// Status answers with a code and pairs of header names and values.
func Status(code int, header ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, http.StatusText(code))
		return true
	}
}

// Endless answers with a body that does not end.
func Endless(code int) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(code)
		chunk := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		return true
	}
}

// Transport reaches a without a network. It is safe for concurrent use.
func (a *AM) Transport() http.RoundTripper { return transport{a} }

type transport struct{ am *AM }

func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	defer func() {
		if p := recover(); p != nil {
			if p != any(http.ErrAbortHandler) {
				panic(p)
			}
			resp, err = nil, errReset
		}
	}()
	rec := httptest.NewRecorder()
	t.am.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp = rec.Result()
	resp.Request = r
	return resp, nil
}

// Server serves an AM on a loopback port that stays the same over Stop and
// Start.
type Server struct {
	AM  *AM
	URL string

	mu   sync.Mutex
	addr string
	srv  *http.Server
	done chan struct{}
}

// Serve starts a server for a.
func Serve(a *AM) (*Server, error) {
	s := &Server{AM: a, addr: "127.0.0.1:0"}
	if err := s.Start(); err != nil {
		return nil, err
	}
	s.URL = "http://" + s.addr
	return s, nil
}

// Start listens again after Stop.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	s.srv = &http.Server{Handler: s.AM, ReadHeaderTimeout: time.Minute}
	s.done = make(chan struct{})
	go func(srv *http.Server, done chan struct{}) {
		defer close(done)
		_ = srv.Serve(l)
	}(s.srv, s.done)
	return nil
}

// Stop breaks all connections and refuses further ones.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return
	}
	_ = s.srv.Close()
	<-s.done
	s.srv = nil
}
