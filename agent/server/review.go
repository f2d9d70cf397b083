package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"crowsnest/internal/kube"
)

const defaultAudience = "crowsnest"

const (
	reviewAgain = time.Minute // age at which the verdict on a valid token is renewed
	// reviewGrace is the age up to which the verdict on a valid token counts while the API server is unreachable.
	reviewGrace   = time.Hour
	refusedFor    = 10 * time.Second // age at which the verdict on an invalid token is renewed
	reviewTimeout = 5 * time.Second
	reviewRate    = 20 // largest number of requests to the API server per second
	// minBurst is the smallest number of requests that may be made at once. It grows to twice the number of agents.
	minBurst   = 100
	maxRefused = 1024
	maxToken   = 16 << 10
)

// The permission that an operator needs to make the aggregator forget a node, in the namespace
// of the agents. The API server has no such resource, but RBAC can still grant it.
const (
	operatorGroup    = "crowsnest"
	operatorResource = "agents"
	operatorVerb     = "delete"
)

// TokenReview requires agents to present a service account token that is bound to their pod. The API server reports
// whether the token is valid and on which node the pod runs. A token can therefore not be used for another node.
type TokenReview struct {
	// ServiceAccount is the service account of the agents, as NAMESPACE/NAME.
	ServiceAccount string `yaml:"service_account" bounds:"0,4096" strict:"required"`
	// Audience is the audience of the tokens. Default crowsnest.
	Audience string `yaml:"audience" bounds:"0,4096"`
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod. The account
	// needs the right to create tokenreviews, and, if operators use the API, subjectaccessreviews.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
}

func (c *TokenReview) validate() error {
	ns, name, ok := strings.Cut(c.ServiceAccount, "/")
	if !ok || ns == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("token_review: service_account: %q is not NAMESPACE/NAME, such as crowsnest/crowsnest-agent", c.ServiceAccount)
	}
	return nil
}

// verdict is the API server's decision about a token.
type verdict struct {
	token      [sha256.Size]byte
	node       string
	reviewedAt time.Time // time of the API server's answer
	refusal    *refusal  // reason why the token is invalid; nil if it is valid
}

// reviewer authenticates agents with the help of the API server. It is safe for concurrent use.
type reviewer struct {
	cfg    TokenReview
	client *kube.Client
	now    func() time.Time
	limit  *rate.Limiter

	mu sync.Mutex
	// good and bad are separate caches, so that invalid tokens do not evict valid ones.
	good, bad *simplelru.LRU[[sha256.Size]byte, verdict]
	failedAt  time.Time // time of the last request that the API server did not answer
}

func newReviewer(cfg *TokenReview, agents int, now func() time.Time, transport http.RoundTripper) *reviewer {
	if cfg == nil {
		return nil
	}
	r := &reviewer{cfg: *cfg, now: now, limit: rate.NewLimiter(reviewRate, max(minBurst, 2*agents))}
	r.cfg.Audience = cmp.Or(r.cfg.Audience, defaultAudience)
	r.client = kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: transport})
	// the size is positive, so there is no error
	r.good, _ = simplelru.NewLRU[[sha256.Size]byte, verdict](2*agents, nil)
	r.bad, _ = simplelru.NewLRU[[sha256.Size]byte, verdict](maxRefused, nil)
	return r
}

// addVerdict restores a verdict that an earlier process saved.
func (r *reviewer) addVerdict(v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good.Add(v.token, v)
}

// checkToken returns the verdict on a token. It asks the API server if there is no recent verdict. While the API server
// is unreachable, a valid token stays valid for an hour, and a token without a verdict is refused for now.
func (r *reviewer) checkToken(ctx context.Context, token string) (verdict, *refusal) {
	if token == "" || len(token) > maxToken {
		return verdict{}, &refusal{http.StatusUnauthorized, refusedAuth, fmt.Errorf("not authorized: the agent must present a token of service account %s for the audience %s; set sinks.upstream.http_config.authorization.credentials_file to a projected token", r.cfg.ServiceAccount, r.cfg.Audience)}
	}
	hash, now := sha256.Sum256([]byte(token)), r.now()
	r.mu.Lock()
	good, known := r.good.Get(hash)
	bad, refused := r.bad.Get(hash)
	waits := now.Sub(r.failedAt) < refusedFor && !now.Before(r.failedAt)
	r.mu.Unlock()
	fresh := func(v verdict, maxAge time.Duration) bool {
		return now.Sub(v.reviewedAt) < maxAge && !now.Before(v.reviewedAt)
	}
	switch {
	case known && fresh(good, reviewAgain):
		return good, nil
	case refused && fresh(bad, refusedFor):
		return bad, bad.refusal
	case known && waits && fresh(good, reviewGrace):
		return good, nil
	}
	v, err := r.reviewToken(ctx, token, now)
	v.token, v.reviewedAt = hash, now
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && known && fresh(good, reviewGrace):
		return good, nil
	case err != nil:
		return verdict{}, &refusal{http.StatusServiceUnavailable, refusedReview, fmt.Errorf("the agent cannot be authenticated: %w", err)}
	case v.refusal != nil:
		r.good.Remove(hash)
		r.bad.Add(hash, v)
	default:
		r.good.Add(hash, v)
	}
	return v, v.refusal
}

// reviewToken reviews a token. An error means that the API server did not answer.
func (r *reviewer) reviewToken(ctx context.Context, token string, now time.Time) (verdict, error) {
	if !r.limit.AllowN(now, 1) {
		return verdict{}, errTooManyReviews
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
	defer cancel()
	v, err := r.verifyNode(ctx, token)
	if err != nil {
		r.mu.Lock()
		r.failedAt = now
		r.mu.Unlock()
		err = addMissingRight(err, "create tokenreviews.authentication.k8s.io, and to get pods of the agents' namespace")
	}
	return v, err
}

// errTooManyReviews is the error of requests beyond the limit. The limit restricts the load
// that unknown clients can put on the API server.
var errTooManyReviews = errors.New("too many tokens to review at a time")

// addMissingRight adds the name of an RBAC permission to an error of the API server if the
// aggregator lacks this permission.
func addMissingRight(err error, right string) error {
	if kube.StatusCode(err) != http.StatusForbidden {
		return err
	}
	return fmt.Errorf("%w; give the service account of the aggregator the right to %s", err, right)
}

// extraValue returns a value that the API server adds to the tokens of pods.
func extraValue(u *kube.User, name string) string {
	if all := u.Extra["authentication.kubernetes.io/"+name]; len(all) == 1 {
		return all[0]
	}
	return ""
}

// requestReview asks the API server for the owner of a token. why is set if the token is not
// accepted. err is set if the API server did not answer.
func (r *reviewer) requestReview(ctx context.Context, token string) (owner *kube.User, why, err error) {
	t, err := r.client.ReviewToken(ctx, token, r.cfg.Audience)
	switch {
	case err != nil:
		return nil, nil, err
	case !t.Authenticated:
		why = fmt.Errorf("not authorized: the API server does not accept the token for the audience %s: %s", r.cfg.Audience, cmp.Or(t.Error, "it gives no reason"))
	case !t.IsFor(r.cfg.Audience):
		why = fmt.Errorf("not authorized: the token is not for the audience %s", r.cfg.Audience)
	}
	return &t.User, why, nil
}

// verifyNode returns the verdict on an agent's token, with the node for which it is valid.
func (r *reviewer) verifyNode(ctx context.Context, token string) (verdict, error) {
	no := func(why error) (verdict, error) {
		return verdict{refusal: &refusal{http.StatusUnauthorized, refusedAuth, why}}, nil
	}
	owner, why, err := r.requestReview(ctx, token)
	switch {
	case err != nil:
		return verdict{}, err
	case why != nil:
		return no(why)
	}
	if !owner.IsServiceAccount(r.cfg.ServiceAccount) {
		return no(fmt.Errorf("not authorized: the token belongs to %s, not to service account %s", owner.Username, r.cfg.ServiceAccount))
	}
	node, err := r.podNode(ctx, owner)
	if err != nil {
		return verdict{}, err
	}
	if node == "" {
		return no(errors.New("not authorized: the token is not bound to a pod that runs on a node; mount a projected token"))
	}
	return verdict{node: node}, nil
}

// podNode returns the node of the pod to which a token is bound, or "" if there is none. The
// node is in the token, or, if the API server is older than 1.30, in the pod.
func (r *reviewer) podNode(ctx context.Context, owner *kube.User) (string, error) {
	pod, uid := extraValue(owner, "pod-name"), extraValue(owner, "pod-uid")
	if node := extraValue(owner, "node-name"); node != "" || pod == "" {
		return node, nil
	}
	ns, _, _ := strings.Cut(r.cfg.ServiceAccount, "/")
	var p struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	}
	err := r.client.Get(ctx, "/api/v1/namespaces/"+ns+"/pods/"+pod, nil, &p)
	switch {
	case kube.StatusCode(err) == http.StatusNotFound:
		return "", nil
	case err != nil:
		return "", err
	case uid != p.Metadata.UID:
		return "", nil
	}
	return p.Spec.NodeName, nil
}

// checkOperator asks the API server who owns a token and whether that user may delete the agent of a node. The answer
// is not cached, because requests are rare and a revoked right must end immediately.
func (r *reviewer) checkOperator(ctx context.Context, token, node string) *refusal {
	ns, _, _ := strings.Cut(r.cfg.ServiceAccount, "/")
	if token == "" || len(token) > maxToken {
		return &refusal{http.StatusUnauthorized, refusedAdmin, fmt.Errorf("not authorized: show a token for the audience %s of a user who may %s %s.%s in namespace %s", r.cfg.Audience, operatorVerb, operatorResource, operatorGroup, ns)}
	}
	unavailable := func(err error) *refusal {
		return &refusal{http.StatusServiceUnavailable, refusedAdmin, fmt.Errorf("the authorization cannot be checked: %w", err)}
	}
	if !r.limit.AllowN(r.now(), 1) {
		return unavailable(errTooManyReviews)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	owner, why, err := r.requestReview(ctx, token)
	switch {
	case err != nil:
		return unavailable(addMissingRight(err, "create tokenreviews.authentication.k8s.io"))
	case why != nil:
		return &refusal{http.StatusUnauthorized, refusedAdmin, why}
	}
	allowed, err := r.isAllowed(ctx, owner, ns, node)
	switch {
	case err != nil:
		return unavailable(addMissingRight(err, "create subjectaccessreviews.authorization.k8s.io"))
	case !allowed:
		return &refusal{http.StatusForbidden, refusedAdmin, fmt.Errorf("%s may not %s %s.%s %q in namespace %s; bind a Role with that right to it", owner.Username, operatorVerb, operatorResource, operatorGroup, node, ns)}
	}
	return nil
}

// accessReview holds the used fields of authorization.k8s.io/v1 SubjectAccessReview.
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

// isAllowed asks the API server whether a user may make the aggregator forget a node.
func (r *reviewer) isAllowed(ctx context.Context, who *kube.User, ns, node string) (bool, error) {
	a := accessReview{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	a.Spec.User, a.Spec.UID, a.Spec.Groups, a.Spec.Extra = who.Username, who.UID, who.Groups, who.Extra
	on := &a.Spec.Resource
	on.Namespace, on.Verb, on.Group, on.Resource, on.Name = ns, operatorVerb, operatorGroup, operatorResource, node
	if err := r.client.Create(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &a, &a); err != nil {
		return false, err
	}
	return a.Status.Allowed && !a.Status.Denied, nil
}
