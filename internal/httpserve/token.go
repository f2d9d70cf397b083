package httpserve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// TokenFile is a bearer token in a file that may be replaced at any time. It is safe for concurrent use.
type TokenFile struct {
	Path string // path of the file; if empty, every token is valid
	Key  string // configuration key that sets Path
}

// Accepts reports whether a token is the token of the file. An error means that the file cannot be read.
func (f TokenFile) Accepts(token string) (bool, error) {
	if f.Path == "" {
		return true, nil
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", f.Key, err)
	}
	want := strings.TrimSpace(string(text))
	if want == "" {
		return false, fmt.Errorf("read %s: %s is empty; write the token into it", f.Key, f.Path)
	}
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1, nil
}

// BearerToken returns the bearer token of a request, or "" if it has none.
func BearerToken(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
