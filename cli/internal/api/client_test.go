package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func get(t *testing.T, address, file string) ([]byte, error) {
	t.Helper()
	c, err := New(address, file)
	require.NoError(t, err)
	return c.Get(t.Context(), "alerts", url.Values{"filter": {`a="b c"`}})
}

func TestGet(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/base/api/v1/alerts", r.URL.Path)
		require.Equal(t, `a="b c"`, r.URL.Query().Get("filter"))
		_, _ = io.WriteString(w, `{"status":"success","data":{"alerts":[]}}`)
	})
	data, err := get(t, address+"/base/", "")
	require.NoError(t, err)
	require.JSONEq(t, `{"alerts":[]}`, string(data))
}

// Every error says what the reader can do about it.
func TestErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.yml")
	require.NoError(t, os.WriteFile(file, []byte("basic_auth: {username: a, password: wrong}\n"), 0o600))
	answer := func(code int, body string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
	}
	huge := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for range maxAnswer>>20 + 2 {
			_, _ = w.Write(block)
		}
	})
	for _, c := range []struct{ name, address, file, want string }{
		{"refused", "http://127.0.0.1:1", "", "(is it running there?): dial tcp 127.0.0.1:1: connect: connection refused"},
		{"secret in the address", "http://a:hunter2@127.0.0.1:1", "", "query the daemon at http://a:xxxxx@127.0.0.1:1"},
		{"no credentials", answer(401, "Unauthorized\n"), "", "requires authentication (401 Unauthorized): name a file with credentials in --http.config.file"},
		{"wrong credentials", answer(401, "Unauthorized\n"), file, "it refuses the credentials of " + file},
		{"busy", answer(503, "too many\x1b[31m requests"), "", "refused the request (503 Service Unavailable): too many requests"},
		{"another server", answer(200, "<html>"), "", "is not from crowsnest: 200 OK"},
		{"its error", answer(400, `{"status":"error","error":"state \u001b[31mx"}`), "", "the daemon returned an error: state x"},
		{"a huge answer", huge, "", "has more than 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := get(t, c.address, c.file)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := New("localhost:9797", "")
	require.ErrorIs(t, err, ErrAddress)
	_, err = New(DefaultAddress, "missing.yml")
	require.ErrorContains(t, err, "read --http.config.file")
}

// hanging is a daemon that accepts a request and never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestDaemonThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("http://daemon:9797", "")
		require.NoError(t, err)
		c.http = &http.Client{Transport: hanging{}}
		_, err = c.Get(context.Background(), "alerts", nil)
		require.ErrorContains(t, err, "the daemon at http://daemon:9797 did not answer in time (at most 10s): it hangs, it is overloaded")
	})
}
