package agents

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// caller is who sent a request.
type caller struct {
	nodes []string // it may speak for; nil: for any
	token [sha256.Size]byte
	at    time.Time // when the token was reviewed; zero: none was
}

// mayBe reports why the caller may not speak for a node; nil: it may.
func (c *caller) mayBe(node string) *refusal {
	if c.nodes == nil || slices.Contains(c.nodes, node) {
		return nil
	}
	return &refusal{http.StatusForbidden, refusedAuth, fmt.Errorf("the credentials are those of node %s, not of %s; set sinks.upstream.node to the name of the Node object (NODE_NAME from spec.nodeName)", strings.Join(c.nodes, ", "), node)}
}

// restrict leaves only the nodes that both ways of authentication name.
func (c *caller) restrict(nodes ...string) {
	if c.nodes != nil {
		nodes = slices.DeleteFunc(nodes, func(n string) bool { return !slices.Contains(c.nodes, n) })
	}
	c.nodes = append([]string{}, nodes...) // not nil
}

// identify finds out who sent a request. Every way that is configured has to
// agree.
func (s *Source) identify(ctx context.Context, r *http.Request) (*caller, *refusal) {
	who := &caller{}
	if err := s.token.check(r.Header.Get("Authorization")); err != nil {
		return nil, tokenRefusal(err)
	}
	if s.cfg.CertificateName {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return nil, &refusal{http.StatusUnauthorized, refusedAuth, errors.New("not authorized: the agent has to show a client certificate; set sinks.upstream.http_config.tls_config")}
		}
		cert := r.TLS.VerifiedChains[0][0]
		who.restrict(append([]string{cert.Subject.CommonName}, cert.DNSNames...)...)
	}
	if s.reviews != nil {
		v, why := s.reviews.check(ctx, bearer(r))
		if why != nil {
			return nil, why
		}
		who.token, who.at = v.token, v.at
		who.restrict(v.node)
	}
	return who, nil
}

func tokenRefusal(err error) *refusal {
	code := http.StatusUnauthorized
	if !errors.Is(err, errNoToken) {
		code = http.StatusInternalServerError
	}
	return &refusal{code, refusedAuth, err}
}

// bearer is the token of a request, "" if it has none.
func bearer(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// agent serves requests of agents that are who they say.
func (h *handler) agent(serve func(http.ResponseWriter, *http.Request, *caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, why := h.s.identify(r.Context(), r)
		if why != nil {
			h.s.refuse(w, r, why)
			return
		}
		serve(w, r, who)
	}
}
