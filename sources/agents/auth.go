package agents

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

type caller struct {
	nodes []string // for which it may send; nil: any
	token [sha256.Size]byte
	at    time.Time // when the token was reviewed; zero: none was
}

// mayBe returns why the caller may not send for a node; nil: it may.
func (c *caller) mayBe(node string) *refusal {
	if c.nodes == nil || slices.Contains(c.nodes, node) {
		return nil
	}
	return &refusal{http.StatusForbidden, refusedAuth, fmt.Errorf("the credentials are those of node %s, not of %s; set sinks.upstream.node to the name of the Node object (NODE_NAME from spec.nodeName)", strings.Join(c.nodes, ", "), node)}
}

// restrict keeps only the nodes that every configured authentication names.
func (c *caller) restrict(nodes ...string) {
	if c.nodes != nil {
		nodes = slices.DeleteFunc(nodes, func(n string) bool { return !slices.Contains(c.nodes, n) })
	}
	c.nodes = append([]string{}, nodes...) // not nil
}

// identify authenticates the sender of a request. Every configured method must
// agree.
func (s *Source) identify(ctx context.Context, r *http.Request) (*caller, *refusal) {
	who := &caller{}
	if why := s.token.check(bearer(r)); why != nil {
		return nil, why
	}
	if s.cfg.CertificateName {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return nil, &refusal{http.StatusUnauthorized, refusedAuth, errors.New("not authorized: the agent must present a client certificate; set sinks.upstream.http_config.tls_config")}
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

// bearer returns the token of a request; "" if it has none.
func bearer(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// agent serves messages of at most maxBytes from authenticated agents. serve returns
// the answer.
func (h *handler) agent(maxBytes int64, serve func(ctx context.Context, body []byte, who *caller) (any, *refusal)) http.HandlerFunc {
	answer := func(w http.ResponseWriter, r *http.Request) (any, *refusal) {
		who, why := h.s.identify(r.Context(), r)
		if why != nil {
			return nil, why
		}
		body, done, why := h.s.read(w, r, maxBytes)
		if why != nil {
			return nil, why
		}
		defer done()
		return serve(r.Context(), body, who)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		a, why := answer(w, r)
		if why != nil {
			h.s.refuse(w, r, why)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a) // the agent may have disconnected
	}
}
