package agents

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
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
	path   string // "": every request is accepted
	key    string // of the configuration
	reason string // of refusals
	fix    string // for requests without the token
	now    func() time.Time

	mu   sync.Mutex
	hash [sha256.Size]byte
	err  error
	read time.Time
}

// check returns why a request with this token is refused; nil: it is accepted.
func (f *tokenFile) check(token string) *refusal {
	if f.path == "" {
		return nil
	}
	want, err := f.get()
	if err != nil {
		return &refusal{http.StatusInternalServerError, f.reason, err}
	}
	if got := sha256.Sum256([]byte(token)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return &refusal{http.StatusUnauthorized, f.reason, errors.New("not authorized: " + f.fix)}
	}
	return nil
}

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
		f.err = fmt.Errorf("read %s: %w", f.key, err)
	case token == "":
		f.err = fmt.Errorf("read %s: %s is empty; write the token into it", f.key, f.path)
	default:
		f.hash, f.err = sha256.Sum256([]byte(token)), nil
	}
	return f.hash, f.err
}
