// Package packregistry starts OCI registries and makes signing keys for tests.
package packregistry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
)

// Registry is a registry without TLS that keeps everything in memory.
type Registry struct {
	// Host is its address, for references.
	Host string

	mu       sync.Mutex
	instead  func(w http.ResponseWriter, r *http.Request) bool
	requests int
}

// Start starts a registry that ends with the test.
func Start(t testing.TB) *Registry {
	r := &Registry{}
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		instead := r.instead
		r.requests++
		r.mu.Unlock()
		if instead == nil || !instead(w, req) {
			real.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Instead sets a function that answers requests in place of the registry, for those for
// which it returns true; nil: none.
func (r *Registry) Instead(f func(w http.ResponseWriter, req *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instead = f
}

// Requests returns how many requests there were.
func (r *Registry) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// Key is a key for signatures, with its files.
type Key struct {
	*ecdsa.PrivateKey
	Private, Public string // files in PEM form
}

// NewKey makes a key.
func NewKey(t testing.TB) Key {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	dir := t.TempDir()
	private, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	require.NoError(t, err)
	out := Key{k, filepath.Join(dir, "packs.key"), filepath.Join(dir, "packs.pub")}
	require.NoError(t, os.WriteFile(out.Private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	require.NoError(t, os.WriteFile(out.Public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600))
	return out
}
