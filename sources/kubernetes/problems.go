package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/kube"
)

// maxShown bounds the problems that are reported at once.
const maxShown = 3

// problems are the reasons why a source cannot read everything it should. Each is
// reported once, however many containers have it, and with its first text, because
// alerts contain it. A problem ends when no container has it.
type problems map[string]*problem

type problem struct {
	text string
	of   map[string]bool
}

func (p problems) set(key, of, text string) {
	if p[key] == nil {
		p[key] = &problem{text: text, of: map[string]bool{}}
	}
	p[key].of[of] = true
}

// clear records that a container no longer has it.
func (p problems) clear(key, of string) {
	if p[key] == nil {
		return
	}
	if delete(p[key].of, of); len(p[key].of) == 0 {
		delete(p, key)
	}
}

// general reports whether a problem concerns more than some of the logs.
func (p problems) general() bool {
	for key := range p {
		if key == keyCredentials || key == keyStreams || strings.HasPrefix(key, keyPods) {
			return true
		}
	}
	return false
}

// text returns all problems on one line. It reports refused credentials alone: the
// others follow from them.
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
	keyPods        = "pods of " // with the namespace
)

func tooMany(most int) string {
	return fmt.Sprintf("more than %d containers match, and those beyond the limit are not read: narrow namespaces, selector or rules, raise max_streams, or read the nodes' files with the source kubelet", most)
}

// refusal describes what the credentials do not permit.
func refusal(err error, what string) (key, text string) {
	if kube.Code(err) == http.StatusUnauthorized {
		what = keyCredentials
	}
	return what, kube.Explain(err, "not allowed: grant get, list, watch of pods and get of pods/log", "")
}

func reasonOf(err error) string {
	switch code := kube.Code(err); {
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

// gates hold back requests that will probably be refused: while one request probes,
// the others wait.
type gates struct {
	mu   sync.Mutex
	shut map[string]time.Time // until when a gate holds requests back
}

// wait returns how long a request must wait, 0 if it may start. A request that starts at a
// gate that was shut is a probe, so another one may start a second later.
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

// open opens gates.
func (g *gates) open(keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		delete(g.shut, key)
	}
}

// close shuts a gate for a while.
func (g *gates) close(key string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = map[string]time.Time{}
	}
	g.shut[key] = until
}
