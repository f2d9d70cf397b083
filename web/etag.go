package web

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// addEntityTag adds an entity tag to an answer of the API, so that a client that asks again and
// again, such as an open page, gets only answers that changed.
func addEntityTag(a *answer) {
	if a.code == http.StatusOK && strings.HasPrefix(a.head.Get("Content-Type"), "application/json") {
		a.head.Set("ETag", fmt.Sprintf(`W/"%016x"`, xxhash.Sum64(a.body.Bytes())))
	}
}

// answerUnchanged answers 304 if the client has this answer, and reports whether it did.
func answerUnchanged(w http.ResponseWriter, r *http.Request, a *answer) bool {
	etag := a.head.Get("ETag")
	if etag == "" || r.Header.Get("If-None-Match") != etag {
		return false
	}
	w.Header().Set("ETag", etag)
	w.WriteHeader(http.StatusNotModified)
	return true
}
