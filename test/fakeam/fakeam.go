// Package fakeam is an Alertmanager for tests with injectable faults. It imitates what
// senders depend on: a request that it answers with 400 still delivers its valid alerts,
// and a restart loses everything.
//
// It is reachable over the network (Serve) or without one (Transport), which works inside
// testing/synctest.
package fakeam

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/test/fault"
)

// Alert is an alert as it was posted.
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

// Post is a request for /api/v2/alerts.
type Post struct {
	Time   time.Time // when its body was read
	Header http.Header
	Size   int // of the body, in bytes
	Alerts []Alert
	Code   int // of the response; 0: none
}

// Accepted is an accepted alert.
type Accepted struct {
	Time     time.Time
	Resolved bool
	Alert    Alert
}

// AM is the fake. It is safe for concurrent use.
type AM struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced after every request
	fault    fault.Fault
	refuse   func(labels map[string]string) bool
	started  time.Time
	skew     time.Duration
	cluster  string // for the status
	posts    []Post
	accepted map[string][]Accepted // by alertname
	known    map[string]bool       // alerts since the start, by labels
	fromEnd  map[string]string     // names of alerts of which it only received the end
}

// New returns a working AM that has just started.
func New() *AM {
	return &AM{changed: make(chan struct{}), started: time.Now(), cluster: `{"status":"disabled"}`, accepted: map[string][]Accepted{}, known: map[string]bool{}, fromEnd: map[string]string{}}
}

// Set sets the fault of all further requests; nil: none.
func (a *AM) Set(f fault.Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = f
}

// Refuse answers requests that contain such an alert with 400; nil: none.
func (a *AM) Refuse(bad func(labels map[string]string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = bad
}

// Restart forgets every alert.
func (a *AM) Restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started, a.known = time.Now(), map[string]bool{}
}

// SetCluster makes it part of a cluster with these members, which include its own name.
func (a *AM) SetCluster(members ...string) {
	type peer struct {
		Name    string `json:"name"`
		Address string `json:"address"`
	}
	c := struct {
		Name   string `json:"name"`
		Status string `json:"status"`
		Peers  []peer `json:"peers"`
	}{members[0], "ready", nil}
	for _, m := range members {
		c.Peers = append(c.Peers, peer{m, "10.0.0.1:9094"})
	}
	b, _ := json.Marshal(c) // strings always marshal
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cluster = string(b)
}

// SetSkew moves its clock ahead.
func (a *AM) SetSkew(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.skew = d
}

// Posts returns every request so far.
func (a *AM) Posts() []Post {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.posts)
}

// Accepted returns the accepted alerts of one name, across restarts.
func (a *AM) Accepted(alertname string) []Accepted {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.accepted[alertname])
}

// All returns the accepted alerts by alertname, across restarts.
func (a *AM) All() map[string][]Accepted {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string][]Accepted, len(a.accepted))
	for name, words := range a.accepted {
		out[name] = slices.Clone(words)
	}
	return out
}

// States returns the states of Accepted as text, without repetitions: "firing resolved".
func (a *AM) States(alertname string) string {
	var out []string
	for _, w := range a.Accepted(alertname) {
		s := "firing"
		if w.Resolved {
			s = "resolved"
		}
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// NeverNotified returns the names of alerts of which it received the end but, since its
// start, not the beginning: a real Alertmanager would not notify of them.
func (a *AM) NeverNotified() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Values(a.fromEnd))
}

// Changed returns a channel that is closed after the next request.
func (a *AM) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// ServeHTTP implements the parts of API v2 that senders use, below any prefix.
func (a *AM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	f, now := a.fault, time.Now().Add(a.skew)
	started, cluster := a.started.Add(a.skew), a.cluster
	a.mu.Unlock()
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/api/v2/alerts"):
		a.post(w, r, f)
	case f != nil && f(w, r):
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/v2/status"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"cluster":%s,"config":{"original":""},"uptime":%q,"versionInfo":{}}`, cluster, started.UTC().Format(time.RFC3339Nano))
	default:
		http.NotFound(w, r)
	}
}

func (a *AM) post(w http.ResponseWriter, r *http.Request, f fault.Fault) {
	body, err := io.ReadAll(r.Body)
	p := Post{Time: time.Now(), Header: r.Header.Clone(), Size: len(body)}
	if err == nil {
		err = json.Unmarshal(body, &p.Alerts)
	}
	rec := &codes{ResponseWriter: w}
	defer func() {
		p.Code = rec.code
		a.mu.Lock()
		defer a.mu.Unlock()
		a.posts = append(a.posts, p)
		close(a.changed)
		a.changed = make(chan struct{})
	}()
	switch {
	case f != nil && f(rec, r):
	case err != nil || len(p.Alerts) == 0:
		http.Error(rec, "parsing alerts body failed", http.StatusUnprocessableEntity)
	case !urisOK(p.Alerts):
		http.Error(rec, "generatorURL must be of type uri", http.StatusUnprocessableEntity)
	default:
		if bad := a.take(p.Alerts, p.Time); bad != "" {
			http.Error(rec, bad, http.StatusBadRequest)
		} else {
			rec.WriteHeader(http.StatusOK)
		}
	}
}

// take accepts the valid alerts and describes the errors of the others.
func (a *AM) take(alerts []Alert, now time.Time) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	bad := ""
	for _, al := range alerts {
		if why := wrong(al); why != "" || (a.refuse != nil && a.refuse(al.Labels)) {
			bad = "invalid label set: " + why
			continue
		}
		name, key := al.Labels["alertname"], fmt.Sprint(al.Labels)
		over := !al.EndsAt.After(now)
		if !over {
			a.known[key] = true
			delete(a.fromEnd, key)
		} else if !a.known[key] {
			a.fromEnd[key] = name
		}
		a.accepted[name] = append(a.accepted[name], Accepted{Time: now, Resolved: over, Alert: al})
	}
	return bad
}

// wrong returns the objection of a strict Alertmanager to an alert, "" if none.
func wrong(al Alert) string {
	switch {
	case al.StartsAt.Year() <= 1 || al.EndsAt.Year() <= 1:
		return "time missing" // a real one fills it in, but the daemon never omits it
	case al.EndsAt.Before(al.StartsAt):
		return "start time must be before end time"
	case len(al.Labels) == 0:
		return "at least one label pair required"
	}
	for _, names := range []map[string]string{al.Labels, al.Annotations} {
		for name := range maps.Keys(names) {
			if !model.LegacyValidation.IsValidLabelName(name) {
				return "invalid name " + name
			}
		}
	}
	return ""
}

func urisOK(alerts []Alert) bool {
	for _, al := range alerts {
		if u, err := url.Parse(al.GeneratorURL); al.GeneratorURL != "" && (err != nil || !u.IsAbs()) {
			return false
		}
	}
	return true
}

// codes records the status of a response.
type codes struct {
	http.ResponseWriter
	code int
}

func (c *codes) WriteHeader(code int) {
	if c.code == 0 {
		c.code = code
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *codes) Write(b []byte) (int, error) {
	if c.code == 0 {
		c.code = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

func (c *codes) Unwrap() http.ResponseWriter { return c.ResponseWriter }
