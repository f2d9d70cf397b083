package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/httpserve"
)

// caller is the authenticated sender of a message.
type caller struct {
	nodes    []string // nodes for which it may send; nil means any node
	token    [sha256.Size]byte
	reviewed time.Time // time at which the API server accepted its token; zero if the API server was not asked
}

// checkNode returns the reason why the caller may not send for a node. It returns nil if it may.
func (c *caller) checkNode(node string) *refusal {
	if c.nodes == nil || slices.Contains(c.nodes, node) {
		return nil
	}
	return &refusal{http.StatusForbidden, refusedAuth, fmt.Errorf("the credentials belong to node %s, not to node %s; set sinks.upstream.node to the name of the Node object (NODE_NAME from spec.nodeName)", strings.Join(c.nodes, ", "), node)}
}

// restrictNodes restricts the caller to the given nodes. Every configured method of authentication that names nodes
// calls it. Only the nodes that all of these methods name remain.
func (c *caller) restrictNodes(nodes ...string) {
	if c.nodes != nil {
		nodes = slices.DeleteFunc(nodes, func(n string) bool { return !slices.Contains(c.nodes, n) })
	}
	c.nodes = append([]string{}, nodes...) // not nil, because nil means any node
}

// authenticate authenticates the sender of a request. Every configured method must accept it.
func (s *Source) authenticate(r *http.Request) (*caller, *refusal) {
	who := &caller{}
	if why := s.agentToken.checkToken(httpserve.BearerToken(r)); why != nil {
		return nil, why
	}
	if s.cfg.CertificateName {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return nil, &refusal{http.StatusUnauthorized, refusedAuth, errors.New("not authorized: the agent must present a client certificate; set sinks.upstream.http_config.tls_config")}
		}
		cert := r.TLS.VerifiedChains[0][0]
		who.restrictNodes(append([]string{cert.Subject.CommonName}, cert.DNSNames...)...)
	}
	if s.reviews != nil {
		v, why := s.reviews.checkToken(r.Context(), httpserve.BearerToken(r))
		if why != nil {
			return nil, why
		}
		who.token, who.reviewed = v.token, v.reviewedAt
		who.restrictNodes(v.node)
	}
	return who, nil
}

// checkOperator returns the reason why a request about a node is refused, because it does not
// come from an operator. It returns nil if it does.
func (s *Source) checkOperator(r *http.Request, node string) *refusal {
	switch {
	case s.cfg.AdminTokenFile != "":
		return s.operatorToken.checkToken(httpserve.BearerToken(r))
	case s.reviews != nil:
		return s.reviews.checkOperator(r.Context(), httpserve.BearerToken(r), node)
	}
	return &refusal{http.StatusForbidden, refusedAdmin, errors.New("this request needs authorization, which is not configured: set sources.agents.token_review, or sources.agents.admin_token_file and send the token in that file")}
}

// tokenFile is a token that the sender of a request must present.
type tokenFile struct {
	httpserve.TokenFile
	reason string // reason for refusals, as it appears in metrics
	fix    string // advice for requests without a valid token
}

// checkToken returns the reason why a request with this token is refused. It returns nil if the token is valid.
func (f *tokenFile) checkToken(token string) *refusal {
	switch ok, err := f.Accepts(token); {
	case err != nil:
		return &refusal{http.StatusInternalServerError, f.reason, err}
	case !ok:
		return &refusal{http.StatusUnauthorized, f.reason, errors.New("not authorized: " + f.fix)}
	}
	return nil
}
