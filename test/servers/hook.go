package servers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Hook is a webhook of an Alertmanager: it keeps what people would be told. It is
// safe for concurrent use.
type Hook struct {
	// URL is where it listens.
	URL string

	key func(labels map[string]string) string

	mu   sync.Mutex
	told map[string][]string // statuses by key
}

// NewHook starts a Hook that ends with the test. key tells alerts apart by their
// labels.
func NewHook(t testing.TB, key func(labels map[string]string) string) *Hook {
	h := &Hook{key: key, told: map[string][]string{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.URL = server.URL
	return h
}

// ServeHTTP takes a notification.
func (h *Hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var n struct {
		Alerts []struct {
			Status string            `json:"status"`
			Labels map[string]string `json:"labels"`
		} `json:"alerts"`
	}
	if json.NewDecoder(r.Body).Decode(&n) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range n.Alerts {
		key := h.key(a.Labels)
		h.told[key] = append(h.told[key], a.Status)
	}
}

// Told returns what was told of each key: "firing resolved".
func (h *Hook) Told() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]string{}
	for k, v := range h.told {
		out[k] = strings.Join(v, " ")
	}
	return out
}

// Forget forgets what was told of a key.
func (h *Hook) Forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.told, key)
}
