package httpserve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenAge is the time for which the content of a token file is cached.
const tokenAge = 5 * time.Second

// TokenFile is a bearer token in a file that may be replaced at any time. It is safe for concurrent use.
type TokenFile struct {
	Path string // path of the file; if empty, every token is valid
	Key  string // configuration key that sets Path
	Now  func() time.Time

	mu   sync.Mutex
	hash [sha256.Size]byte
	err  error
	read time.Time
}

// Accepts reports whether a token is the token of the file. An error means that the file cannot be read.
func (f *TokenFile) Accepts(token string) (bool, error) {
	if f.Path == "" {
		return true, nil
	}
	want, err := f.load()
	if err != nil {
		return false, err
	}
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1, nil
}

// load returns the hash of the token.
func (f *TokenFile) load() ([sha256.Size]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	if age := now.Sub(f.read); !f.read.IsZero() && age >= 0 && age < tokenAge {
		return f.hash, f.err
	}
	f.read = now
	text, err := os.ReadFile(f.Path)
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		f.err = fmt.Errorf("read %s: %w", f.Key, err)
	case token == "":
		f.err = fmt.Errorf("read %s: %s is empty; write the token into it", f.Key, f.Path)
	default:
		f.hash, f.err = sha256.Sum256([]byte(token)), nil
	}
	return f.hash, f.err
}

// BearerToken returns the bearer token of a request, or "" if it has none.
func BearerToken(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
