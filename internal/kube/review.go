package kube

import (
	"context"
	"slices"
	"strings"
)

// TokenReview is the answer of the API server to a TokenReview.
type TokenReview struct {
	Authenticated bool     `json:"authenticated"`
	Audiences     []string `json:"audiences"`
	// Error is the reason why the API server does not accept the token. It may be empty.
	Error string `json:"error"`
	User  User   `json:"user"`
}

// User is the owner of a token.
type User struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

// IsFor reports whether the token is valid for an audience.
func (t *TokenReview) IsFor(audience string) bool {
	return t.Authenticated && slices.Contains(t.Audiences, audience)
}

// IsServiceAccount reports whether the user is a service account, named as NAMESPACE/NAME.
func (u *User) IsServiceAccount(account string) bool {
	namespace, name, _ := strings.Cut(account, "/")
	return u.Username == "system:serviceaccount:"+namespace+":"+name
}

// ReviewToken asks the API server who owns a token, and whether the token is valid for an audience. An error means that
// the API server did not answer.
func (c *Client) ReviewToken(ctx context.Context, token, audience string) (*TokenReview, error) {
	var t struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Token     string   `json:"token"`
			Audiences []string `json:"audiences"`
		} `json:"spec"`
		Status TokenReview `json:"status"`
	}
	t.APIVersion, t.Kind = "authentication.k8s.io/v1", "TokenReview"
	t.Spec.Token, t.Spec.Audiences = token, []string{audience}
	if err := c.Create(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", &t, &t); err != nil {
		return nil, err
	}
	return &t.Status, nil
}
