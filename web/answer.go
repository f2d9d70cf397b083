package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/gzip"
)

const minCompressed = 1 << 10

// answer is a recorded response, which can be sent to several clients. Its code is 0 until a handler writes something.
type answer struct {
	code int
	head http.Header
	body bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.head }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// addEntityTag adds an ETag header to an answer of the API, so that an open page transfers the answer again only after
// a change.
func (a *answer) addEntityTag() {
	if a.code == http.StatusOK && strings.HasPrefix(a.head.Get("Content-Type"), "application/json") {
		a.head.Set("ETag", fmt.Sprintf(`W/"%016x"`, xxhash.Sum64(a.body.Bytes())))
	}
}

func (a *answer) compressFor(r *http.Request) {
	a.head.Set("Vary", "Accept-Encoding")
	if a.body.Len() >= minCompressed && acceptsGzip(r) && a.head.Get("Content-Encoding") == "" {
		a.body = *bytes.NewBuffer(compress(a.body.Bytes()))
		a.head.Set("Content-Encoding", "gzip")
	}
}

func compress(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data) // writing to a buffer never fails
	_ = z.Close()
	return b.Bytes()
}

// acceptsGzip reports whether a client accepts compressed responses.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.TrimSpace(quality) != "q=0" {
			return true
		}
	}
	return false
}
