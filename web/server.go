package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/rs/zerolog"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Limits of a listener.
const (
	maxConns          = 256
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute // long enough for a CPU profile
	idleTimeout       = time.Minute
	maxHeader         = 64 << 10
	drain             = 500 * time.Millisecond
)

// Options configure a server.
type Options struct {
	// ConfigFile is exporter-toolkit's web configuration file with TLS and authentication, or empty.
	ConfigFile string
	// Reload loads rules and configuration for POST /-/reload. Nil disables the path.
	Reload func(context.Context) error
	// Case returns a case file, an HTML page about the episode with a fingerprint. It reads data of API endpoints, such
	// as "sources", by calling get. A nil function disables case files.
	Case func(fingerprint string, get func(path string) ([]byte, error)) ([]byte, error)
	// RunTests runs the inline tests of rules that a person tries on the page Scan. A nil function runs no tests.
	RunTests func([]*rules.Rule) ([]TestOutcome, error)
	// Scan scans a log with the rules of set, and redacts secrets in the result. A nil function means that no log can
	// be scanned.
	Scan func(log string, labels matcher.Labels, set *rules.Set) (Scanned, error)
	// Silence creates a silence in each cluster of Alertmanagers if Links.Silences is set. A nil function means that
	// the pages create no silences.
	Silence func(context.Context, Silence) []Silenced
	// MCP returns a handler that serves the Model Context Protocol with these tools. A nil function disables /mcp.
	MCP func(Tools) http.Handler
	// Pprof enables /debug/pprof.
	Pprof bool
	// Registry is served at /metrics.
	Registry *prometheus.Registry
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// MaxConns is the maximum number of open connections of a listener. Zero means 256.
	MaxConns int
	// Hosts are further names of the server, such as the host name of an ingress. "*" allows every name. IP
	// addresses and names within the cluster are always allowed.
	Hosts []string
	// LeaderAddress returns the base address of the process whose pages are shown instead of the
	// pages of this process. If it is nil or returns "", the pages of this process are shown.
	LeaderAddress func() string
	// Log receives errors of handlers and of libraries. The zero value discards them.
	Log zerolog.Logger
}

// Server serves the pages, the API, the metrics and the probes of one daemon.
// It is safe for concurrent use.
type Server struct {
	own     View // the state of the daemon without changes, which is cheaper to read than view
	view    View // the state with texts that are safe to show; see shownView
	opt     Options
	gate    *gate
	pages   pages
	assets  func() assets
	feed    *feed
	samples *samples
	scanner scanner
	results testResults
	silence chan struct{}  // semaphore, so that the server creates one silence at a time
	tools   chan struct{}  // semaphore of the requests to /mcp that are read or answered
	inner   *http.ServeMux // API without the limits of the gate, for requests by the server itself
	handler http.Handler
	probes  http.Handler
	routes  []string // patterns of the paths that handler serves
}

// router is a ServeMux that records its patterns. A test compares the patterns with openapi.json.
type router struct {
	*http.ServeMux
	patterns []string
}

func newRouter() *router { return &router{ServeMux: http.NewServeMux()} }

// Handle registers a handler.
func (r *router) Handle(pattern string, h http.Handler) {
	r.patterns = append(r.patterns, pattern)
	r.ServeMux.Handle(pattern, h)
}

// HandleFunc registers a function.
func (r *router) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.Handle(pattern, http.HandlerFunc(h))
}

// New returns a server. It serves nothing until Run is called.
func New(view View, opt Options) *Server {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.MaxConns <= 0 {
		opt.MaxConns = maxConns
	}
	s := &Server{
		own: view, view: shownView(view), opt: opt, gate: newGate(opt.Log), assets: sync.OnceValue(readAssets),
		feed: newFeed(view.Episodes), samples: newSamples(), silence: make(chan struct{}, 1), inner: http.NewServeMux(),
		tools:   make(chan struct{}, maxToolCalls),
		scanner: scanner{admit: make(chan struct{}, maxScans), turn: make(chan struct{}, 1), tests: opt.RunTests},
	}
	if opt.Scan != nil {
		s.scanner.logs = func(log string, labels matcher.Labels) (Scanned, error) {
			return opt.Scan(log, labels, view.Rules().Set)
		}
	}
	s.pages = newPages(s.assets)
	probes := newRouter()
	s.routeProbes(probes)
	s.probes = addSecurityHeaders(probes)

	mux := newRouter()
	s.routeProbes(mux)
	s.routeMetrics(mux)
	s.routeAPI(mux)
	s.routePages(mux)
	if opt.Reload != nil {
		mux.Handle("POST /-/reload", newReloads(opt.Reload))
	} else {
		mux.HandleFunc("POST /-/reload", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "reload over HTTP is off: start with --web.enable-lifecycle, or send SIGHUP", http.StatusForbidden)
		})
	}
	if opt.MCP != nil {
		mux.HandleFunc("/mcp", s.limitReading(s.tools, s.serveMCP(mux)))
	}
	if opt.Pprof {
		routePprof(mux)
	}
	s.routes, s.handler = mux.patterns, addSecurityHeaders(s.guardRequests(s.forwardToLeader(mux)))
	return s
}

// Handler returns the handler of the main listener.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves everything on main, and only the probes on probe, which may be nil. It returns half a second after ctx
// ends, or when a listener or the web configuration fails. It always closes both listeners.
func (s *Server) Run(ctx context.Context, main, probe net.Listener) error {
	var servers []*http.Server
	errs := make(chan error, 2)
	log := slog.New(zerolog.NewSlogHandler(s.opt.Log))
	serve := func(h http.Handler, l net.Listener, configFile string) {
		limited := newLimiter(l, s.opt.MaxConns)
		srv := newServer(limited.trackRequests(h), log)
		servers = append(servers, srv)
		go func() {
			flags := &toolkit.FlagConfig{WebListenAddresses: &[]string{l.Addr().String()}, WebConfigFile: &configFile}
			err := toolkit.Serve(limited, srv, flags, log)
			if errors.Is(err, http.ErrServerClosed) {
				errs <- nil
				return
			}
			l.Close() //nolint:errcheck // the error that matters is err
			errs <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}()
	}
	serve(s.handler, main, s.opt.ConfigFile)
	if probe != nil {
		serve(s.probes, probe, "")
	}
	background, end := context.WithCancel(ctx)
	var ending sync.WaitGroup
	ending.Go(func() { s.feed.run(background, s.opt.Now) })
	ending.Go(func() { s.takeSamples(background) })
	defer ending.Wait()
	var err error
	running := len(servers)
	select {
	case <-ctx.Done():
	case err = <-errs:
		running--
	}
	end()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	for _, srv := range servers {
		if srv.Shutdown(stop) != nil {
			srv.Close() //nolint:errcheck // there is nothing else to try
		}
	}
	for range running {
		err = errors.Join(err, <-errs)
	}
	return err
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// addSecurityHeaders adds headers that prevent a browser from executing text from a log.
func addSecurityHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "no-referrer")
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		h.ServeHTTP(w, r)
	})
}

func routePprof(mux *router) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the client may have disconnected
}
