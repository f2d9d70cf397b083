package agents

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// tokenAge is how long a token is used before the file is read again.
const tokenAge = 5 * time.Second

// tokenFile is a token in a file that may be replaced at any time. Safe for
// concurrent use.
type tokenFile struct {
	path string
	now  func() time.Time

	mu   sync.Mutex
	hash [sha256.Size]byte
	err  error
	read time.Time
}

func newTokenFile(path string, now func() time.Time) *tokenFile {
	return &tokenFile{path: path, now: now}
}

var errNoToken = errors.New("not authorized: the agent must present the token of sources.agents.bearer_token_file; set sinks.upstream.http_config.authorization.credentials_file")

// check returns why a request with this Authorization header is refused; nil: it
// is accepted.
func (f *tokenFile) check(header string) error {
	if f.path == "" {
		return nil
	}
	want, err := f.get()
	if err != nil {
		return err
	}
	kind, token, _ := strings.Cut(header, " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !strings.EqualFold(kind, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return errNoToken
	}
	return nil
}

// get returns the hash of the token.
func (f *tokenFile) get() ([sha256.Size]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if age := now.Sub(f.read); !f.read.IsZero() && age >= 0 && age < tokenAge {
		return f.hash, f.err
	}
	f.read = now
	text, err := os.ReadFile(f.path)
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		f.err = fmt.Errorf("read bearer_token_file: %w", err)
	case token == "":
		f.err = fmt.Errorf("read bearer_token_file: %s is empty; write the token into it", f.path)
	default:
		f.hash, f.err = sha256.Sum256([]byte(token)), nil
	}
	return f.hash, f.err
}
