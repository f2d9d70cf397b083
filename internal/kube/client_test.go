package kube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts an API server over TLS and returns a client with a kubeconfig for
// it, and the file of its token.
func serve(t *testing.T, h http.HandlerFunc) (c *Client, token string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return filepath.Join(dir, name)
	}
	write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	token = write("token", "first")
	c = New(Options{Kubeconfig: write("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "%s/prefix", certificate-authority: ca.crt}}]
users: [{name: u, user: {tokenFile: token}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`, srv.URL))})
	t.Cleanup(c.Close)
	return c, token
}

func TestTokenIsReadAnew(t *testing.T) {
	c, token := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer second" {
			http.Error(w, `{"code":401,"reason":"Unauthorized","message":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"proto":%q,"path":%q,"agent":%q}`, r.Proto, r.URL.Path, r.UserAgent())
	})
	var got struct{ Proto, Path, Agent string }
	ctx := context.Background()
	require.Equal(t, 401, StatusCode(c.Get(ctx, "/x", nil, &got)))
	require.NoError(t, os.WriteFile(token, []byte("second\n"), 0o600))
	require.NoError(t, c.Get(ctx, "/x", nil, &got))
	require.Equal(t, "HTTP/2.0", got.Proto)
	require.Equal(t, "/prefix/x", got.Path)
	require.Equal(t, "crowsnest", got.Agent)
	body, err := c.OpenLog(ctx, "/log", nil)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(body).Decode(&got))
	require.NoError(t, body.Close())
	require.Equal(t, "HTTP/1.1", got.Proto, "one connection per log")
}

func TestErrors(t *testing.T) {
	f := func(code int, header, body, want string, after time.Duration) {
		t.Helper()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				name, value, _ := strings.Cut(header, ": ")
				w.Header().Set(name, value)
			}
			w.WriteHeader(code)
			io.WriteString(w, body)
		})
		err := c.Get(context.Background(), "/x", nil, new(any))
		require.EqualError(t, err, want)
		require.Equal(t, code, StatusCode(err))
		require.Equal(t, after, RetryAfter(err))
		require.Equal(t, code == 410, IsExpired(err))
	}
	f(403, "", `{"code":403,"message":"pods is forbidden"}`, "the API server answers 403: pods is forbidden", 0)
	f(429, "Retry-After: 7", "slow", "the API server answers 429: slow", 7*time.Second)
	f(429, "Retry-After: 7000", "", "the API server answers 429 Too Many Requests", time.Minute)
	f(503, "", `{"details":{"retryAfterSeconds":3}}`, "the API server answers 503 Service Unavailable", 3*time.Second)
	f(410, "", `{"code":410}`, "the API server answers 410 Gone", 0)
	f(302, "Location: https://elsewhere.test/", "", "the API server answers 302 Found", 0)
	f(500, "", strings.Repeat("é\n", 1000), "the API server answers 500: "+strings.Repeat("é ", 100)+"…", 0)
	require.Zero(t, StatusCode(errors.New("x")))
}

func TestNoConfiguration(t *testing.T) {
	c := New(Options{Kubeconfig: "/does/not/exist"})
	require.ErrorContains(t, c.Get(context.Background(), "/x", nil, nil), "read kubeconfig /does/not/exist: ")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	require.ErrorContains(t, New(Options{}).Get(context.Background(), "/x", nil, nil), "this process does not run in a pod; set kubeconfig to a file")
}

func TestList(t *testing.T) {
	f := func(pages []string, want []string, version, fails string) {
		t.Helper()
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n := 0
			fmt.Sscan(r.URL.Query().Get("continue"), &n)
			io.WriteString(w, pages[n])
		})
		var got []string
		v, err := c.List(context.Background(), "/pods", url.Values{"labelSelector": {"a=b"}}, func(raw json.RawMessage) error {
			got = append(got, string(raw))
			return nil
		})
		if fails != "" {
			require.ErrorContains(t, err, fails)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, version, v)
	}
	f([]string{`{"kind":"L","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}],"extra":{"x":[1]}}`}, []string{`{"a":1}`, `{"b":2}`}, "7", "")
	f([]string{`{"items":[1],"metadata":{"continue":"1"}}`, `{"items":null,"metadata":{"resourceVersion":"8"}}`}, []string{"1"}, "8", "")
	f([]string{`{"metadata":{},"items":{}}`}, nil, "", "items is not a list")
	f([]string{`[]`}, nil, "", "the response is not a JSON object")
	f([]string{`{"items":[{"a":`}, nil, "", "list /pods: ")
	f([]string{``}, nil, "", "EOF")
	f([]string{`{"items":["` + strings.Repeat("x", 2*maxObject) + `"]}`}, nil, "", "larger than 8 MiB")
}

func TestWatch(t *testing.T) {
	f := func(body string, events int, fails string) {
		t.Helper()
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "1", r.URL.Query().Get("watch"))
			require.Equal(t, "true", r.URL.Query().Get("allowWatchBookmarks"))
			io.WriteString(w, body)
		})
		n, opened := 0, false
		err := c.Watch(context.Background(), "/pods", url.Values{"resourceVersion": {"7"}}, func() { opened = true }, func(Event) error { n++; return nil })
		require.True(t, opened)
		require.Equal(t, events, n)
		if fails == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, fails)
		}
	}
	f("", 0, "")
	f(`{"type":"ADDED","object":{}}`+"\n"+`{"type":"BOOKMARK","object":{}}`, 2, "")
	f(`{"type":"ADDED","object":{}}{"type":"ERROR","object":{"code":410,"message":"too old"}}`, 1, "the API server answers 410: too old")
	f(`{"type":"ADDED","object":{}}{"type":"MOD`, 1, "watch /pods: unexpected EOF")
	f(`{"type":"`+strings.Repeat("x", maxObject+1), 0, "larger than 8 MiB")
}

func FuzzList(f *testing.F) {
	f.Add([]byte(`{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":1}]}`))
	f.Add([]byte(`{"items":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_, err := readList(strings.NewReader(string(b)), func(raw json.RawMessage) error {
			n++
			require.True(t, json.Valid(raw))
			return nil
		})
		if err == nil && n > 0 {
			require.Contains(t, string(b), "[")
		}
	})
}

// A person's kubeconfig is merged from files of which some may not exist, and the context
// decides who asks where.
func TestKubeconfigOfPerson(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	names := write("names", `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[
{"name":"a","context":{"cluster":"a","user":"u","namespace":"team"}},{"name":"b","context":{"cluster":"b","user":"u"}}]}`)
	rest := write("rest", `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://a.test"}},
{"name":"b","cluster":{"server":"https://b.test"}}],"users":[{"name":"u","user":{"token":"t"}}]}`)
	f := func(context string, want ContextNamespace, server, fails string, files ...string) {
		t.Helper()
		c := New(Options{Files: files, Context: context})
		defer c.Close()
		got, err := c.CurrentContext()
		if err == nil {
			var conn *conn
			conn, err = c.connection()
			if err == nil {
				require.Equal(t, server, conn.base.String())
			}
		}
		if fails != "" {
			require.ErrorContains(t, err, fails)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	absent := filepath.Join(dir, "absent")
	f("", ContextNamespace{"a", "team"}, "https://a.test", "", absent, names, rest)
	f("b", ContextNamespace{"b", "default"}, "https://b.test", "", names, rest)
	f("c", ContextNamespace{}, "", "there is no context c; use one of a, b", names, rest)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	f("", ContextNamespace{}, "", "there is no kubeconfig in "+absent, absent)
	f("", ContextNamespace{}, "", "read kubeconfig "+write("broken", "{"), filepath.Join(dir, "broken"))
}

// A program that a kubeconfig names provides the credentials, as on managed clusters.
func TestCredentialProgram(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"token":%q}`, r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	path := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
"users":[{"name":"u","user":{"exec":{"apiVersion":"client.authentication.k8s.io/v1","interactiveMode":"Never","command":"sh","args":["-c",
"echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"made\"}}'"]}}}]}`, srv.URL), 0o600))
	c := New(Options{Files: []string{path}})
	defer c.Close()
	var got struct{ Token string }
	require.NoError(t, c.Get(context.Background(), "/x", nil, &got))
	require.Equal(t, "Bearer made", got.Token)
}
