package client

import (
	"context"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	nextTarget     = 50 * time.Millisecond // pause before another address is tried
	maxTargets     = 64                    // addresses of all names
	resolveTimeout = 2 * time.Second
	// reconnectEvery is the interval at which the sender replaces its connection, because a
	// Service chooses the process for each connection.
	reconnectEvery = time.Minute
	// twofoldFor is the time for which two aggregators are reported after both answered. If
	// both run, ten connections in a row miss a given one once in a thousand times.
	twofoldFor = 10 * reconnectEvery
)

// target is one address of the aggregator. A name may have several.
type target struct{ url, host, ip string }

// targets are the addresses of the aggregator and of its standby. Safe for concurrent use.
type targets struct {
	urls   []string
	lookup func(ctx context.Context, host string) ([]string, error) // nil if names are not resolved

	mu      sync.Mutex
	current target // The zero value means the first URL, by any address of its name.
}

// url returns the base address in use.
func (t *targets) url() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.url == "" {
		return t.urls[0]
	}
	return t.current.url
}

// dial connects to the current target if address has its name.
func (t *targets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t.mu.Lock()
	current := t.current
	t.mu.Unlock()
	if host, port, err := net.SplitHostPort(address); err == nil && current.ip != "" && host == current.host {
		address = net.JoinHostPort(current.ip, port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// useNext replaces the current target by the one after it, and returns the number of targets.
func (t *targets) useNext(ctx context.Context) int {
	all := t.resolve(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(all, t.current) // -1 if it is gone, or none was chosen yet
	if t.current.url == "" && len(all) > 1 {
		i = 0 // Most likely, the first address of the resolver was used.
	}
	t.current = all[(i+1)%len(all)]
	return len(all)
}

// resolve returns all targets.
func (t *targets) resolve(ctx context.Context) []target {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var out []target
	for _, raw := range t.urls {
		u, err := url.Parse(raw)
		if err != nil {
			continue // The configuration was checked.
		}
		var ips []string
		if t.lookup != nil {
			ips, _ = t.lookup(ctx, u.Hostname()) // The dialer reports the error.
		}
		slices.Sort(ips)
		if len(ips) < 2 || len(out)+len(ips) > maxTargets {
			ips = []string{""}
		}
		for _, ip := range ips {
			out = append(out, target{raw, u.Hostname(), ip})
		}
	}
	return out
}

// switchTarget chooses another target if the aggregator does not lead or does not answer at
// the current one. It reports whether that one should be tried at once.
func (w *sender) switchTarget(ctx context.Context, a response) bool {
	switch a.reason {
	case reasonStandby, reasonConnection, reasonTimeout:
	default:
		w.tried = 0
		return false
	}
	n := w.s.targets.useNext(ctx)
	w.s.http.Close()
	if w.tried++; w.tried >= n {
		w.tried = 0
		return false
	}
	return true
}

// reconnect closes the connection about once a minute, so that the next request makes a new
// one.
func (w *sender) reconnect() {
	now := w.s.now()
	if now.Before(w.reconnectAt) {
		return
	}
	w.s.http.Close()
	w.reconnectAt = now.Add(reconnectEvery/2 + rand.N(reconnectEvery)) //nolint:gosec // chance is all that is needed
}

// processes records which aggregators answer. A process that was replaced never answers
// again, so if one does after another process has answered, both run.
type processes struct {
	newest, previous string    // random names of the last two processes that answered
	since, seen      time.Time // first and last time at which a replaced process answered
}

// see records that the process of this name answered.
func (p *processes) see(name string, now time.Time) {
	if name == "" || name == p.newest {
		return
	}
	if name == p.previous {
		if p.twofold(now).IsZero() {
			p.since = now
		}
		p.seen = now
	}
	p.newest, p.previous = name, p.newest
}

// twofold returns the time since which two processes answer. Zero means that only one does.
func (p *processes) twofold(now time.Time) time.Time {
	if p.seen.IsZero() || now.Sub(p.seen) >= twofoldFor {
		return time.Time{}
	}
	return p.since
}
