package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"crowsnest/hits"
)

// The right that an operator needs to make the aggregator forget a node, in the
// namespace of the agents. The API server has no such resource, but its RBAC
// grants rights to it as to any other.
const (
	adminGroup    = "crowsnest"
	adminResource = "agents"
	adminVerb     = "delete"
)

// admin serves requests of operators. The right to send for a node does not include
// it.
func (h *handler) admin(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if n := len(r.PathValue("node")); n > hits.MaxName {
			h.s.refuse(w, r, &refusal{http.StatusBadRequest, refusedMalformed, fmt.Errorf("the name of a node has 1 to %d bytes, not %d", hits.MaxName, n)})
			return
		}
		if why := h.s.operator(r); why != nil {
			h.s.refuse(w, r, why)
			return
		}
		serve(w, r)
	}
}

// operator returns why a request does not come from an operator; nil: it does.
func (s *Source) operator(r *http.Request) *refusal {
	switch {
	case s.cfg.AdminTokenFile != "":
		return s.adminToken.check(bearer(r))
	case s.reviews != nil:
		return s.reviews.mayForget(r.Context(), bearer(r), r.PathValue("node"))
	}
	return &refusal{http.StatusForbidden, refusedAdmin, errors.New("nobody is authorized to do this: set sources.agents.token_review, or sources.agents.admin_token_file and show its token")}
}

// mayForget asks the API server for the owner of a token, and whether that user may
// delete the agent of a node. The answer is not cached: requests are rare, and a
// revoked right ends at once.
func (r *reviewer) mayForget(ctx context.Context, token, node string) *refusal {
	ns, _, _ := strings.Cut(r.cfg.ServiceAccount, "/")
	if token == "" || len(token) > maxToken {
		return &refusal{http.StatusUnauthorized, refusedAdmin, fmt.Errorf("not authorized: show a token for the audience %s of a user who may %s %s.%s in namespace %s", r.cfg.Audience, adminVerb, adminResource, adminGroup, ns)}
	}
	unavailable := func(err error) *refusal {
		return &refusal{http.StatusServiceUnavailable, refusedAdmin, fmt.Errorf("the authorization cannot be checked: %w", err)}
	}
	if !r.limit.AllowN(r.now(), 1) {
		return unavailable(errTooManyReviews)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWithin)
	defer cancel()
	t, why, err := r.authenticate(ctx, token)
	switch {
	case err != nil:
		return unavailable(forbidden(err, "create tokenreviews.authentication.k8s.io"))
	case why != nil:
		return &refusal{http.StatusUnauthorized, refusedAdmin, why}
	}
	allowed, err := r.allowed(ctx, &t.Status.User, ns, node)
	switch {
	case err != nil:
		return unavailable(forbidden(err, "create subjectaccessreviews.authorization.k8s.io"))
	case !allowed:
		return &refusal{http.StatusForbidden, refusedAdmin, fmt.Errorf("%s may not %s %s.%s %q in namespace %s; bind a Role with that right to it", t.Status.User.Username, adminVerb, adminResource, adminGroup, node, ns)}
	}
	return nil
}

// accessReview holds the fields of authorization.k8s.io/v1 SubjectAccessReview that
// are used here.
type accessReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Resource struct {
			Namespace string `json:"namespace"`
			Verb      string `json:"verb"`
			Group     string `json:"group"`
			Resource  string `json:"resource"`
			Name      string `json:"name"`
		} `json:"resourceAttributes"`
		User   string              `json:"user"`
		UID    string              `json:"uid"`
		Groups []string            `json:"groups"`
		Extra  map[string][]string `json:"extra"`
	} `json:"spec"`
	Status struct {
		Allowed bool `json:"allowed"`
		Denied  bool `json:"denied"`
	} `json:"status"`
}

// allowed asks the API server whether a user may forget a node.
func (r *reviewer) allowed(ctx context.Context, who *user, ns, node string) (bool, error) {
	a := accessReview{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	a.Spec.User, a.Spec.UID, a.Spec.Groups, a.Spec.Extra = who.Username, who.UID, who.Groups, who.Extra
	on := &a.Spec.Resource
	on.Namespace, on.Verb, on.Group, on.Resource, on.Name = ns, adminVerb, adminGroup, adminResource, node
	if err := r.client.Create(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &a, &a); err != nil {
		return false, err
	}
	return a.Status.Allowed && !a.Status.Denied, nil
}
