// Package fault provides failures of HTTP servers, for the fake servers of tests.
package fault

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"time"
)

// Fault answers a request in place of a server. It returns false to let the server
// answer. It is safe for concurrent use.
type Fault func(w http.ResponseWriter, r *http.Request) bool

// Hang never answers.
func Hang(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// Reset breaks the connection instead of answering.
func Reset(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// Slow answers normally, after d.
func Slow(d time.Duration) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return false
		case <-r.Context().Done():
			return true
		}
	}
}

// Status answers with a code, its standard text and pairs of header names and values.
func Status(code int, header ...string) Fault { return Say(code, http.StatusText(code), header...) }

// Say answers with a code, a text and pairs of header names and values.
func Say(code int, body string, header ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// errReset is the error of a reset connection.
var errReset = errors.New("read: connection reset by peer")

// Transport connects to a server without a network, which works inside testing/synctest.
// A handler that aborts resets the connection: at once, or after what it has written. It
// is safe for concurrent use if h is.
func Transport(h http.Handler) http.RoundTripper { return transport{h} }

type transport struct{ h http.Handler }

func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	rec := httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil {
			if p != any(http.ErrAbortHandler) {
				panic(p)
			}
			if resp, err = nil, errReset; rec.Body.Len() > 0 {
				resp, err = rec.Result(), nil
				resp.Request, resp.Body = r, io.NopCloser(io.MultiReader(rec.Body, broken{}))
			}
		}
	}()
	t.h.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp = rec.Result()
	resp.Request = r
	return resp, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errReset }
