package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/internal/kube"
)

// maxShown is the largest number of problems that are reported at once.
const maxShown = 3

// problems are the reasons why a source cannot read all logs that it should read. A problem is
// reported once, even if many containers have it. Its text does not change, because alerts
// contain it. A problem ends when no container has it any more.
type problems map[string]*problem

type problem struct {
	text       string
	containers map[string]bool
}

func (p problems) set(key, noun, text string) {
	if p[key] == nil {
		p[key] = &problem{text: text, containers: map[string]bool{}}
	}
	p[key].containers[noun] = true
}

func (p problems) clear(key, noun string) {
	if p[key] == nil {
		return
	}
	if delete(p[key].containers, noun); len(p[key].containers) == 0 {
		delete(p, key)
	}
}

// text returns all problems on one line. If credentials are refused, text reports only this problem, because all others
// follow from it.
func (p problems) text() string {
	if c := p[keyCredentials]; c != nil {
		return c.text
	}
	keys := slices.Sorted(maps.Keys(p))
	var out []string
	for _, key := range keys[:min(len(keys), maxShown)] {
		if t := p[key].text; !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	text := strings.Join(out, "; ")
	if more := len(keys) - maxShown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Keys of problems that concern all logs, or all pods of a namespace.
const (
	keyCredentials = "credentials"
	keyStreams     = "streams"
	keyPods        = "pods of " // prefix; the namespace follows
)

// describeRefusal describes what the credentials do not permit.
func describeRefusal(err error, name string) (key, text string) {
	if kube.StatusCode(err) == http.StatusUnauthorized {
		name = keyCredentials
	}
	return name, kube.ExplainError(err, "not allowed: grant get, list, watch of pods and get of pods/log", "")
}

func errorReason(err error) string {
	switch code := kube.StatusCode(err); {
	case code == http.StatusUnauthorized:
		return "unauthorized"
	case code == http.StatusForbidden:
		return "forbidden"
	case code == http.StatusNotFound:
		return "not_found"
	case code == http.StatusBadRequest:
		return "not_started"
	case code == http.StatusTooManyRequests:
		return "throttled"
	case code == http.StatusGone:
		return "expired"
	case code != 0:
		return "server"
	}
	return "network"
}

// gates delay requests that will probably be refused. While a gate is closed, one request at a
// time probes it, and all other requests wait.
type gates struct {
	mu   sync.Mutex
	shut map[string]time.Time // time until which each gate is closed
}

// wait returns how long a request must wait, or 0 if it may start. A request that starts at a
// closed gate is a probe. The next probe may start a second later.
func (g *gates) wait(now time.Time, keys ...string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		if until := g.shut[key]; now.Before(until) {
			return until.Sub(now)
		}
	}
	for _, key := range keys {
		if _, shut := g.shut[key]; shut {
			g.shut[key] = now.Add(time.Second)
		}
	}
	return 0
}

func (g *gates) open(keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		delete(g.shut, key)
	}
}

func (g *gates) close(key string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = map[string]time.Time{}
	}
	g.shut[key] = until
}
