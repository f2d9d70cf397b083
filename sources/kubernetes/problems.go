package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/sources/internal/kube"
)

const (
	// slowRetry is how often something is asked for again that only people can
	// put right.
	slowRetry = 30 * time.Second
	// maxShown bounds the problems that are told at once.
	maxShown = 3
)

// problems are what keeps a source from reading all that it should, by key. The
// first words of a problem stay until it is over: they are in an alert.
type problems struct{ texts map[string]string }

func (p *problems) set(key, text string) {
	if p.texts == nil {
		p.texts = map[string]string{}
	}
	if p.texts[key] == "" {
		p.texts[key] = text
	}
}

func (p *problems) clear(key string) { delete(p.texts, key) }

func (p *problems) none() bool { return len(p.texts) == 0 }

// text tells them on one line. Refused credentials come alone: all else follows
// from them.
func (p *problems) text() string {
	if t := p.texts[keyCredentials]; t != "" {
		return t
	}
	keys := slices.Sorted(maps.Keys(p.texts))
	var out []string
	for _, key := range keys[:min(len(keys), maxShown)] {
		if t := p.texts[key]; !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	text := strings.Join(out, "; ")
	if more := len(keys) - maxShown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

const keyCredentials = "credentials"

func tooMany(most int) string {
	return fmt.Sprintf("more than %d containers are to be followed, and those beyond are not read: narrow namespaces, selector or rules, raise max_streams, or read the nodes' files with the source kubelet", most)
}

// refusal describes what the credentials do not allow.
func refusal(err error, what string) (key, text string) {
	if kube.Code(err) == http.StatusUnauthorized {
		return keyCredentials, fmt.Sprintf("the API server refuses the credentials: renew the token or the kubeconfig, it is read again every %v (%v)", slowRetry, err)
	}
	return what, fmt.Sprintf("not allowed: grant get, list, watch of pods and get of pods/log (%v)", err)
}

// reasonOf names a failure for the counters.
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

// gates hold back requests that are known to be refused: while one is tried, the
// others wait.
type gates struct {
	mu     sync.Mutex
	closed map[string]*gate
}

type gate struct {
	until   time.Time
	probing bool
}

// wait returns how long a request must wait, 0 if it may go. One that may go
// must tell its outcome.
func (g *gates) wait(now time.Time, keys ...string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		switch gt := g.closed[key]; {
		case gt == nil:
		case now.Before(gt.until):
			return gt.until.Sub(now)
		case gt.probing:
			return time.Second
		}
	}
	for _, key := range keys {
		if gt := g.closed[key]; gt != nil {
			gt.probing = true
		}
	}
	return 0
}

// passed opens gates.
func (g *gates) passed(keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		delete(g.closed, key)
	}
}

// shut closes a gate for a while.
func (g *gates) shut(key string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = map[string]*gate{}
	}
	g.closed[key] = &gate{until: until}
}

// unsure lets another one probe: this one learned nothing.
func (g *gates) unsure(now time.Time, keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		if gt := g.closed[key]; gt != nil && gt.probing {
			gt.probing, gt.until = false, now.Add(time.Second)
		}
	}
}
