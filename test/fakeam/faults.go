package fakeam

import (
	"net"
	"net/http"
	"sync"
	"time"

	"crowsnest/test/child"
	"crowsnest/test/fault"
)

// Endless answers with a body that never ends.
func Endless(code int) fault.Fault {
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

// Transport connects to a without a network. It is safe for concurrent use.
func (a *AM) Transport() http.RoundTripper { return fault.Transport(a) }

// Server serves an AM on a loopback port that stays the same across Stop and Start.
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
	port, err := child.FreePort() // no connection can take it between Stop and Start
	if err != nil {
		return nil, err
	}
	s := &Server{AM: a, addr: child.Address(port)}
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

// Stop breaks all connections and refuses new ones.
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
