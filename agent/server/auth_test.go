package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
)

// cluster is an API server that reviews tokens.
type cluster struct {
	tokens map[string]string // to the extra of a user, as JSON; or an account
	pods   map[string]string // path to JSON
	rights map[string]string // the user that may, to namespace/verb/resource.group/name
	away   bool
	asked  int
}

const account = "system:serviceaccount:crowsnest:crowsnest-agent"

// on returns the values that the API server adds to a token of a pod on a node.
func on(node string) string { return `{"authentication.kubernetes.io/node-name":["` + node + `"]}` }

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked++
	if c.away {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	if r.Method == http.MethodGet {
		if c.pods[r.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, c.pods[r.URL.Path])
		return w.Result(), nil
	}
	if strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
		return c.review(r)
	}
	var in struct {
		Spec struct{ Token string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusCreated)
	extra, ok := c.tokens[in.Spec.Token]
	switch {
	case !ok:
		_, _ = io.WriteString(w, `{"status":{"error":"token has expired"}}`)
	case strings.HasPrefix(extra, "{"):
		_, _ = io.WriteString(w, `{"status":{"authenticated":true,"audiences":["crowsnest"],"user":{"username":"`+account+`","extra":`+extra+`}}}`)
	default:
		_, _ = io.WriteString(w, `{"status":{"authenticated":true,"audiences":["crowsnest"],"user":{"username":"`+extra+`","groups":["of-`+extra+`"]}}}`)
	}
	return w.Result(), nil
}

// review answers whether a user may do something, by name and group.
func (c *cluster) review(r *http.Request) (*http.Response, error) {
	var in accessReview
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	w, on := httptest.NewRecorder(), in.Spec.Resource
	want := on.Namespace + "/" + on.Verb + "/" + on.Resource + "." + on.Group + "/" + on.Name
	if c.rights == nil {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"message":"subjectaccessreviews is forbidden"}`)
		return w.Result(), nil
	}
	w.WriteHeader(http.StatusCreated)
	allowed := c.rights[in.Spec.User] == want
	for _, group := range in.Spec.Groups {
		allowed = allowed || c.rights[group] == want
	}
	_, _ = fmt.Fprintf(w, `{"status":{"allowed":%t}}`, allowed)
	return w.Result(), nil
}

// reviewed returns a bench whose agents are reviewed, and a function that sends a
// message for a node with a token.
func reviewed(t *testing.T, c *cluster) (*bench, func(token, node string) *httptest.ResponseRecorder) {
	b := newBench(t, Config{TokenReview: &TokenReview{ServiceAccount: "crowsnest/crowsnest-agent"}, Transport: c, MaxAgents: 2})
	return b, func(token, node string) *httptest.ResponseRecorder {
		return b.post((&wire.Message{Node: node, Instance: "i1", OldestSequence: 1}).Append(nil), func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	}
}

// A token allows messages for the node of its pod only, and fake nodes use no memory.
func TestATokenSpeaksForItsNode(t *testing.T) {
	pod := "/api/v1/namespaces/crowsnest/pods/p"
	c := &cluster{
		tokens: map[string]string{
			"a": on("na"), "b": on("nb"), "other": "system:serviceaccount:tenant:crowsnest-agent", "admin": "admin", "unbound": `{}`,
			"old":   `{"authentication.kubernetes.io/pod-name":["p"],"authentication.kubernetes.io/pod-uid":["1"]}`,
			"older": `{"authentication.kubernetes.io/pod-name":["p"],"authentication.kubernetes.io/pod-uid":["2"]}`,
			"gone":  `{"authentication.kubernetes.io/pod-name":["q"],"authentication.kubernetes.io/pod-uid":["2"]}`,
		},
		pods: map[string]string{pod: `{"metadata":{"uid":"1"},"spec":{"nodeName":"nb"}}`},
	}
	b, try := reviewed(t, c)
	f := func(token, node string, code int, want string) {
		t.Helper()
		w := try(token, node)
		require.Equal(t, code, w.Code, w.Body)
		require.Contains(t, w.Body.String(), want)
		if token != "" {
			require.NotContains(t, w.Body.String(), `"`+token+`"`)
		}
	}
	for _, fake := range []string{"x1", "x2", "x3", "nb"} {
		f("a", fake, http.StatusForbidden, "the credentials belong to node na")
	}
	f("", "na", http.StatusUnauthorized, "a token of service account crowsnest/crowsnest-agent")
	f("made-up", "na", http.StatusUnauthorized, "token has expired")
	f("other", "na", http.StatusUnauthorized, "the token belongs to system:serviceaccount:tenant:crowsnest-agent")
	f("admin", "na", http.StatusUnauthorized, "the token belongs to admin")
	f("unbound", "na", http.StatusUnauthorized, "not bound to a pod")
	f("older", "nb", http.StatusUnauthorized, "not bound to a pod")
	f("gone", "nb", http.StatusUnauthorized, "not bound to a pod")
	require.Empty(t, b.s.Status().Members)
	f("a", "na", http.StatusOK, "taken")
	f("old", "nb", http.StatusOK, "taken")
	require.Len(t, b.s.Status().Members, 2)
	require.Contains(t, b.s.Stats().NewestRefused[refusedAuth].Reason, "not bound to a pod")

	w := httptest.NewRecorder()
	body, _ := (&wire.Report{Node: "nb", Instance: "i1"}).Seal()
	r := httptest.NewRequest(http.MethodPost, wire.ReportPath, strings.NewReader(string(body)))
	r.Header.Set("Authorization", "Bearer a")
	b.s.Handler(b.p).ServeHTTP(w, r)
	require.Equal(t, http.StatusForbidden, w.Code, "nor does it report for another")
}

// An answer of the API server is valid for a minute, and for an hour while it is away,
// also over a restart; unknown agents have to wait.
func TestTheAPIServerIsAway(t *testing.T) {
	c := &cluster{tokens: map[string]string{"a": on("na"), "b": on("nb")}}
	b, try := reviewed(t, c)
	require.Equal(t, http.StatusOK, try("a", "na").Code)
	require.Equal(t, http.StatusOK, try("a", "na").Code)
	require.Equal(t, http.StatusUnauthorized, try("x", "na").Code)
	require.Equal(t, http.StatusUnauthorized, try("x", "na").Code)
	require.Equal(t, 2, c.asked)
	pos := b.save()

	c.away = true
	b.now = at(reviewAgain)
	require.Equal(t, http.StatusOK, try("a", "na").Code)
	w := try("b", "nb")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "cannot be authenticated")
	require.Equal(t, "1", w.Header().Get("Retry-After"))

	before := b.s
	b.s = New(b.s.cfg)
	require.Equal(t, http.StatusServiceUnavailable, try("a", "na").Code)
	b.s = New(b.s.cfg)
	require.NoError(t, b.s.Restore(pos))
	require.Equal(t, http.StatusOK, try("a", "na").Code, "it was known when the state was saved")
	b.s = before
	b.now = at(reviewGrace)
	require.Equal(t, http.StatusServiceUnavailable, try("a", "na").Code)

	c.away = false
	b.now = at(reviewGrace + refusedFor)
	require.Equal(t, http.StatusOK, try("b", "nb").Code)
	require.Equal(t, http.StatusOK, try("a", "na").Code)
	delete(c.tokens, "a") // its pod is gone
	b.now = b.now.Add(reviewAgain)
	require.Equal(t, http.StatusUnauthorized, try("a", "na").Code)
}

// Invalid tokens neither cause unbounded requests to the API server nor evict known
// agents.
func TestAFloodOfTokens(t *testing.T) {
	c := &cluster{tokens: map[string]string{"a": on("na")}}
	_, try := reviewed(t, c)
	require.Equal(t, http.StatusOK, try("a", "na").Code)
	for i := range 2 * maxRefused {
		try(strings.Repeat("x", 1+i), "na")
	}
	require.LessOrEqual(t, c.asked, minBurst)
	require.Equal(t, http.StatusOK, try("a", "na").Code)
}

// forgets returns a function that asks the aggregator to forget a node.
func forgets(t *testing.T, b *bench) func(token, node string, code int, want string) {
	return func(token, node string, code int, want string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodDelete, wire.NodePath+node, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		b.s.Handler(b.p).ServeHTTP(w, r)
		require.Equal(t, code, w.Code, w.Body)
		require.Contains(t, w.Body.String(), want)
	}
}

// An agent may not make the aggregator forget a node, its own included: that is a
// separate right, which the API server grants.
func TestForgettingIsForOperators(t *testing.T) {
	c := &cluster{tokens: map[string]string{"a": on("na"), "op": "op", "member": "member", "other": "other", "one": "one"}}
	b, try := reviewed(t, c)
	require.Equal(t, http.StatusOK, try("a", "na").Code)
	f := forgets(t, b)
	f("op", "na", http.StatusServiceUnavailable, "the right to create subjectaccessreviews.authorization.k8s.io")
	right := "crowsnest/delete/agents.crowsnest/"
	c.rights = map[string]string{"op": right + "na", "of-member": right + "na", "one": right + "nb", "other": "tenant/delete/agents.crowsnest/na"}
	f("a", "na", http.StatusForbidden, account+` may not delete agents.crowsnest "na" in namespace crowsnest`)
	f("other", "na", http.StatusForbidden, "other may not delete")
	f("one", "na", http.StatusForbidden, "one may not delete")
	f("one", "%20nb", http.StatusForbidden, "one may not delete")
	f("", "na", http.StatusUnauthorized, "show a token for the audience crowsnest")
	f("made-up", "na", http.StatusUnauthorized, "token has expired")
	c.away = true
	f("op", "na", http.StatusServiceUnavailable, "cannot be checked")
	c.away = false
	require.Len(t, b.s.Status().Members, 1)
	require.Equal(t, int64(8), b.s.Stats().RefusedMessages[refusedAdmin])
	f("op", "na", http.StatusNoContent, "")
	require.Empty(t, b.s.Status().Members)
	f("member", "na", http.StatusNotFound, "no node")
}

// Without an API server, operators need a token of their own; without one nobody is authorized.
func TestForgettingByToken(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, http.StatusOK, b.post((&wire.Message{Node: "na", Instance: "i1", OldestSequence: 1}).Append(nil)).Code)
	f := forgets(t, b)
	f("a", "na", http.StatusForbidden, "this request needs authorization")
	f("", "na", http.StatusForbidden, "this request needs authorization")
	file := filepath.Join(t.TempDir(), "admin")
	require.NoError(t, os.WriteFile(file, []byte("root\n"), 0o600))
	b.s.cfg.AdminTokenFile, b.s.operatorToken.Path = file, file
	f("a", "na", http.StatusUnauthorized, "admin_token_file")
	f("root", "na", http.StatusNoContent, "")
}

func TestValidateAuthentication(t *testing.T) {
	f := func(c Config, want string) {
		t.Helper()
		err := c.Validate()
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
	}
	f(Config{TokenReview: &TokenReview{ServiceAccount: "ns/name"}}, "")
	f(Config{TokenReview: &TokenReview{ServiceAccount: "name"}}, `service_account: "name" is not NAMESPACE/NAME`)
	f(Config{TokenReview: &TokenReview{ServiceAccount: "a/b"}, BearerTokenFile: "t"}, "an agent sends only one token")
	f(Config{CertificateName: true}, "certificate_name needs a web_config_file")
}
