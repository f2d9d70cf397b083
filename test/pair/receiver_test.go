package pair

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// receiver stands in front of an Alertmanager and records what it accepted.
type receiver struct {
	proxy *httputil.ReverseProxy

	mu    sync.Mutex
	posts map[string][]post // by key, in the order of their answers
}

// post is one alert that was accepted.
type post struct {
	at    time.Time
	began time.Time // its startsAt
	ended bool
}

// newReceiver returns a receiver and its port.
func newReceiver(t *testing.T, alertmanager string) (*receiver, string) {
	t.Helper()
	to, err := url.Parse(alertmanager)
	require.NoError(t, err)
	r := &receiver{posts: map[string][]post{}}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r.proxy = &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }, Transport: transport}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	return r, srv.URL
}

// ServeHTTP forwards a request, and records its alerts if they were accepted.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	out := httptest.NewRecorder()
	r.proxy.ServeHTTP(out, req)
	if req.Method == http.MethodPost && out.Code == http.StatusOK {
		r.record(body)
	}
	for name, values := range out.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(out.Code)
	_, _ = w.Write(out.Body.Bytes())
}

func (r *receiver) record(body []byte) {
	var alerts []struct {
		Labels           map[string]string
		StartsAt, EndsAt time.Time
	}
	if json.Unmarshal(body, &alerts) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range alerts {
		key := keyOf(a.Labels)
		r.posts[key] = append(r.posts[key], post{time.Now(), a.StartsAt, !a.EndsAt.After(time.Now())})
	}
}

// together is how long after one Alertmanager the other one may accept an end.
const together = time.Second

// once reports whether the Alertmanagers accepted one failure of a key and then its end, both
// at the same time, and after the end nothing else. One that is notified again is then
// repeated by Alertmanager itself: if an end arrives while both members flush its group, the
// one that waits still has it as firing, although the other one has notified its end.
func (w *world) once(key string) bool {
	var began, over time.Time
	for _, r := range w.receivers {
		r.mu.Lock()
		posts := r.posts[key]
		r.mu.Unlock()
		ended := false
		for _, p := range posts {
			if began.IsZero() {
				began = p.began
			}
			if !p.began.Equal(began) || ended && !p.ended {
				return false
			}
			if p.ended && !ended {
				if !over.IsZero() && p.at.Sub(over).Abs() > together {
					return false
				}
				ended, over = true, p.at
			}
		}
		if !ended {
			return false
		}
	}
	return true
}

// repeated reports whether states are want more than once.
func repeated(states, want string) bool {
	n := len(strings.Fields(states)) / len(strings.Fields(want))
	return n > 1 && states == strings.TrimSpace(strings.Repeat(want+" ", n))
}
