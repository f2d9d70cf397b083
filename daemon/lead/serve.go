package lead

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/internal/httpserve"
	"crowsnest/internal/kube"
)

// Limits of the listener.
const (
	maxConns     = 16
	reviewAgain  = time.Minute
	reviewWithin = 5 * time.Second
)

// Server is the listener of one process of the pair. On the standby, it refuses every request.
type Server struct {
	cfg      Settings
	endpoint httpserve.Endpoint
	listener net.Listener
	leader   atomic.Pointer[Leader] // nil while this process is the standby
	token    httpserve.TokenFile
	api      *kube.Client // client for reviews; nil if tokens are not reviewed

	mu         sync.Mutex
	accepted   [sha256.Size]byte // hash of the token that was last accepted in a review
	acceptedAt time.Time
}

// Listen opens the listener.
func Listen(cfg Settings) (*Server, error) {
	cfg = cfg.WithDefaults()
	s := &Server{cfg: cfg, token: httpserve.TokenFile{Path: cfg.BearerTokenFile, Key: "bearer_token_file"}}
	s.endpoint = httpserve.Endpoint{Section: "high_availability", Address: cfg.ListenAddress, WebConfigFile: cfg.WebConfigFile, MaxConns: maxConns, Handler: s}
	var err error
	if s.listener, err = s.endpoint.Listen(); err != nil {
		return nil, err
	}
	if cfg.TokenReview != nil {
		s.api = kube.New(kube.Options{Kubeconfig: cfg.TokenReview.Kubeconfig})
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
func (s *Server) Run(ctx context.Context) error { return s.endpoint.ServeOn(ctx, s.listener) }

// ServeHTTP handles a request of the standby.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path != Path || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	if err := s.checkRequest(r); err != nil {
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

// checkRequest returns nil if a request is allowed, and otherwise the reason why it is refused.
func (s *Server) checkRequest(r *http.Request) error {
	token := httpserve.BearerToken(r)
	if s.api != nil {
		return s.reviewToken(r.Context(), token)
	}
	ok, err := s.token.Accepts(token)
	if err == nil && !ok {
		err = errors.New("not authorized: the standby must present the token of high_availability.bearer_token_file")
	}
	return err
}

// reviewToken asks the API server whether a token is valid, unless the API server has accepted the same token in the
// last minute. While the API server is unreachable, the token that it accepted last stays valid.
func (s *Server) reviewToken(ctx context.Context, token string) error {
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	known, age := s.accepted == sum && !s.acceptedAt.IsZero(), time.Since(s.acceptedAt)
	s.mu.Unlock()
	if known && age < reviewAgain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWithin)
	defer cancel()
	want := s.cfg.TokenReview
	review, err := s.api.ReviewToken(ctx, token, want.Audience)
	if err != nil {
		if known {
			return nil
		}
		return fmt.Errorf("the standby cannot be authenticated: %w", err)
	}
	if !review.IsFor(want.Audience) || !review.User.IsServiceAccount(want.ServiceAccount) {
		return fmt.Errorf("not authorized: the standby must present a token of service account %s for the audience %s", want.ServiceAccount, want.Audience)
	}
	s.mu.Lock()
	s.accepted, s.acceptedAt = sum, time.Now()
	s.mu.Unlock()
	return nil
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
		h.Transport = commonconfig.NewAuthorizationCredentialsRoundTripper("Bearer", commonconfig.NewFileSecret(file), h.Transport)
	}
	return h, nil
}
