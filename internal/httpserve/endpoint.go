// Package httpserve serves the HTTP requests of programs that send to this process, such as agents and collectors.
package httpserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"
)

// Limits of every endpoint.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 16 << 10
	stopTimeout       = 500 * time.Millisecond
)

// Endpoint is an address that serves requests.
type Endpoint struct {
	Section       string // section of the configuration with the settings, such as sources.agents
	Address       string // listen_address of the section
	WebConfigFile string // web_config_file of the section, which configures TLS and authentication; may be empty
	MaxConns      int    // largest number of open connections
	Handler       http.Handler
	Opened        func() // called each time Serve starts to listen
}

// Serve listens until ctx ends, and then completes the requests that are being handled. An error says why the endpoint
// cannot listen or serve. No request is in progress after Serve has returned.
func (e *Endpoint) Serve(ctx context.Context) error {
	l, err := e.Listen()
	if err != nil {
		return err
	}
	e.Opened()
	return e.ServeOn(ctx, l)
}

// Listen opens a listener for ServeOn.
func (e *Endpoint) Listen() (net.Listener, error) {
	if err := toolkit.Validate(e.WebConfigFile); err != nil {
		return nil, fmt.Errorf("read %s.web_config_file: %w", e.Section, err)
	}
	l, err := net.Listen("tcp", e.Address)
	if err != nil {
		return nil, fmt.Errorf("open %s.listen_address: %w", e.Section, err)
	}
	return l, nil
}

// ServeOn is Serve with an open listener, which it closes.
func (e *Endpoint) ServeOn(ctx context.Context, l net.Listener) (err error) {
	d := &closableHandler{next: e.Handler}
	srv := &http.Server{
		Handler:           d,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	broken := make(chan error, 1)
	go func() {
		flags := &toolkit.FlagConfig{WebListenAddresses: &[]string{l.Addr().String()}, WebConfigFile: &e.WebConfigFile}
		broken <- toolkit.Serve(netutil.LimitListener(l, e.MaxConns), srv, flags, slog.New(slog.DiscardHandler))
	}()
	select {
	case <-ctx.Done():
	case err = <-broken:
		broken <- nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close()
	}
	_ = l.Close() // the listener is still open if the server did not start
	if last := <-broken; err == nil {
		err = last
	}
	d.closeAndWait()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// closableHandler admits requests until it is closed.
type closableHandler struct {
	next     http.Handler
	requests sync.RWMutex
	closed   bool
}

func (d *closableHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.requests.RLock()
	defer d.requests.RUnlock()
	if d.closed {
		http.Error(w, "this process stops", http.StatusServiceUnavailable)
		return
	}
	d.next.ServeHTTP(w, r)
}

// closeAndWait refuses all later requests and waits for the requests in progress.
func (d *closableHandler) closeAndWait() {
	d.requests.Lock()
	defer d.requests.Unlock()
	d.closed = true
}
