package lead

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"

	"crowsnest/internal/kube"
)

// Limits of the listener.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 40 * time.Second
	idleTimeout       = 2 * time.Minute
	maxConns          = 16
	stopWithin        = 300 * time.Millisecond
	reviewAgain       = time.Minute
	reviewWithin      = 5 * time.Second
)

// Server is the listener of one process of the pair. On the standby, it refuses every request.
type Server struct {
	cfg      Settings
	listener net.Listener
	leader   atomic.Pointer[Leader] // nil while this process is the standby
	guard    guard
}

// Listen opens the listener.
func Listen(cfg Settings) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := toolkit.Validate(cfg.WebConfigFile); err != nil {
		return nil, fmt.Errorf("read high_availability.web_config_file: %w", err)
	}
	l, err := net.Listen("tcp", cfg.ListenAddress)
	if err != nil {
		return nil, fmt.Errorf("open high_availability.listen_address: %w", err)
	}
	s := &Server{cfg: cfg, listener: l, guard: guard{cfg: cfg}}
	if cfg.TokenReview != nil {
		s.guard.api = kube.New(kube.Options{Kubeconfig: cfg.TokenReview.Kubeconfig})
	}
	return s, nil
}

// URL returns the address of the listener for the other process.
func (s *Server) URL(getenv func(string) string) string {
	return s.cfg.advertisedAddress(s.listener.Addr(), getenv)
}

// Lead makes the server serve the checkpoints of a leader from now on.
func (s *Server) Lead(l *Leader) { s.leader.Store(l) }

// Run serves until ctx ends, and then closes the listener. Its error means that serving failed.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	broke := make(chan error, 1)
	go func() {
		flags := &toolkit.FlagConfig{WebListenAddresses: &[]string{s.listener.Addr().String()}, WebConfigFile: &s.cfg.WebConfigFile}
		broke <- toolkit.Serve(netutil.LimitListener(s.listener, maxConns), srv, flags, slog.New(slog.DiscardHandler))
	}()
	var err error
	select {
	case <-ctx.Done():
	case err = <-broke:
		broke <- nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close()
	}
	_ = s.listener.Close() // closes the listener if the server did not start
	if last := <-broke; err == nil {
		err = last
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.listener.Addr(), err)
	}
	return nil
}

// ServeHTTP handles a request of the standby.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path != Path || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	if err := s.guard.checkRequest(r); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	leader := s.leader.Load()
	if leader == nil {
		http.Error(w, "this process is not the leader", http.StatusMisdirectedRequest)
		return
	}
	leader.ServeHTTP(w, r)
}

type guard struct {
	cfg Settings
	api *kube.Client // client for reviews; nil if tokens are not reviewed

	mu   sync.Mutex
	good [sha256.Size]byte // hash of the token that was last accepted in a review
	at   time.Time
}

// checkRequest returns nil if a request is allowed, and otherwise the reason why it is refused.
func (g *guard) checkRequest(r *http.Request) error {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case g.cfg.BearerTokenFile != "":
		want, err := readToken(g.cfg.BearerTokenFile)
		if err != nil {
			return fmt.Errorf("read bearer_token_file: %w", err)
		}
		a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want))
		if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
			return errors.New("not authorized: the standby must present the token of high_availability.bearer_token_file")
		}
	case g.api != nil:
		return g.reviewToken(r.Context(), token)
	}
	return nil
}

// reviewToken asks the API server whether a token is valid, unless the API server has accepted the same token in the
// last minute. While the API server is unreachable, the token that it accepted last stays valid.
func (g *guard) reviewToken(ctx context.Context, token string) error {
	sum := sha256.Sum256([]byte(token))
	g.mu.Lock()
	known, age := g.good == sum && !g.at.IsZero(), time.Since(g.at)
	g.mu.Unlock()
	if known && age < reviewAgain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWithin)
	defer cancel()
	want := g.cfg.TokenReview
	t, err := g.api.ReviewToken(ctx, token, want.Audience)
	if err != nil {
		if known {
			return nil
		}
		return fmt.Errorf("the standby cannot be authenticated: %w", err)
	}
	if !t.IsFor(want.Audience) || !t.User.IsServiceAccount(want.ServiceAccount) {
		return fmt.Errorf("not authorized: the standby must present a token of service account %s for the audience %s", want.ServiceAccount, want.Audience)
	}
	g.mu.Lock()
	g.good, g.at = sum, time.Now()
	g.mu.Unlock()
	return nil
}

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	token := strings.TrimSpace(string(b))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty; write the token into it", path)
	}
	return token, err
}

// NewClient returns the HTTP client of a standby. It reads the files that are named in http_config.
func (c Settings) NewClient() (*http.Client, error) {
	h, err := c.HTTP.NewClient("standby")
	if err != nil {
		return nil, err
	}
	file := c.BearerTokenFile
	if c.TokenReview != nil {
		file = c.TokenReview.TokenFile
	}
	if file != "" {
		h.Transport = &bearer{file: file, next: h.Transport}
	}
	return h, nil
}

// bearer adds a bearer token to each request, which it reads from a file.
type bearer struct {
	file string
	next http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := readToken(b.file)
	if err != nil {
		return nil, fmt.Errorf("read the token of the standby: %w", err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (b *bearer) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
