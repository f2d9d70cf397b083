package fakeloki

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/test/fault"
)

// Fault answers a request in place of Loki. Package fault has the faults that all servers
// share.
type Fault = fault.Fault

// Hang never answers.
func Hang(w http.ResponseWriter, r *http.Request) bool { return fault.Hang(w, r) }

// Reset breaks the connection instead of answering.
func Reset(w http.ResponseWriter, r *http.Request) bool { return fault.Reset(w, r) }

// Slow answers normally, after d.
func Slow(d time.Duration) Fault { return fault.Slow(d) }

// Status answers with a code, a text and pairs of header names and values.
func Status(code int, body string, header ...string) Fault { return fault.Say(code, body, header...) }

// Every applies the fault to every n-th request.
func Every(n int64, f Fault) Fault {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		return count.Add(1)%n == 0 && f(w, r)
	}
}

// Half answers normally but breaks the connection after so many bytes.
func (l *Loki) Half(bytes int) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		l.answer(&cut{ResponseWriter: w, left: bytes}, r)
		return true
	}
}

// cut breaks the connection.
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

// Endless answers with a body above every limit.
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

// Bomb answers with a small compressed body that expands to a very large one.
func Bomb(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(bomb())
	return true
}

var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	chunk := make([]byte, 1<<20)
	for range 9 {
		_, _ = z.Write(chunk)
	}
	_ = z.Close()
	return b.Bytes()
})

// Transport connects to l without a network. It is safe for concurrent use.
func (l *Loki) Transport() http.RoundTripper { return fault.Transport(l) }
