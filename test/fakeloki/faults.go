package fakeloki

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"
)

// errReset stands for a connection that was reset.
var errReset = errors.New("read: connection reset by peer")

// Hang never answers.
func Hang(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// Reset breaks the connection instead of answering.
func Reset(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// Slow answers as usual, after d.
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

// Status answers with a code, a text and pairs of header names and values.
func Status(code int, body string, header ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// Every lets each n-th request have the fault, beginning with the n-th.
func Every(n int64, f Fault) Fault {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		return count.Add(1)%n == 0 && f(w, r)
	}
}

// Half answers as usual and breaks the connection after so many bytes.
func (l *Loki) Half(bytes int) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		l.answer(&cut{ResponseWriter: w, left: bytes}, r)
		return true
	}
}

// cut breaks off.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(b []byte) (int, error) {
	if len(b) < c.left {
		c.left -= len(b)
		return c.ResponseWriter.Write(b)
	}
	_, _ = c.ResponseWriter.Write(b[:c.left])
	panic(http.ErrAbortHandler)
}

// Endless answers with a body that is above every bound.
func Endless(w http.ResponseWriter, r *http.Request) bool {
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = ' '
	}
	for n := 0; n < 9<<20 && r.Context().Err() == nil; n += len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			break
		}
	}
	return true
}

// Bomb answers with a small compressed body that is very large.
func Bomb(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(bomb())
	return true
}

var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	chunk := make([]byte, 1<<20)
	for range 20 {
		_, _ = z.Write(chunk)
	}
	_ = z.Close()
	return b.Bytes()
})

// Transport reaches l without a network. It is safe for concurrent use.
func (l *Loki) Transport() http.RoundTripper { return transport{l} }

type transport struct{ loki *Loki }

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
	t.loki.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp = rec.Result()
	resp.Request = r
	return resp, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errReset }
