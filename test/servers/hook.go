package servers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Hook is a webhook of an Alertmanager: it records the notifications that people would
// receive. It is safe for concurrent use.
type Hook struct {
	// URL is its address.
	URL string

	key func(labels map[string]string) string

	mu       sync.Mutex
	notified []Notification
}

// Notification is an alert in a notification.
type Notification struct {
	Time   time.Time // when it arrived
	From   string    // external URL of the Alertmanager that sent it
	Key    string
	Status string // "firing" or "resolved"
}

// NewHook starts a Hook that ends with the test. key identifies an alert by its labels.
func NewHook(t testing.TB, key func(labels map[string]string) string) *Hook {
	h := &Hook{key: key}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.URL = server.URL
	return h
}

// ServeHTTP records a notification.
func (h *Hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var n struct {
		ExternalURL string `json:"externalURL"`
		Alerts      []struct {
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
		h.notified = append(h.notified, Notification{Time: time.Now(), From: n.ExternalURL, Key: h.key(a.Labels), Status: a.Status})
	}
}

// States returns the notified states of each key: "firing resolved".
func (h *Hook) States() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]string{}
	for _, n := range h.notified {
		out[n.Key] = strings.TrimPrefix(out[n.Key]+" "+n.Status, " ")
	}
	return out
}

// Notifications returns every notification, in order of arrival.
func (h *Hook) Notifications() []Notification {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.notified)
}

// Forget drops the notifications of a key.
func (h *Hook) Forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notified = slices.DeleteFunc(h.notified, func(n Notification) bool { return n.Key == key })
}
