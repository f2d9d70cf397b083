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
	nextTarget     = 50 * time.Millisecond // pause before the next address is tried
	maxTargets     = 64                    // largest number of addresses that are tried
	resolveTimeout = 2 * time.Second
	// reconnectEvery is the average interval at which the sender reconnects. A Service chooses a process for each
	// connection, so a sender that never reconnects would not notice that two aggregators are running.
	reconnectEvery = time.Minute
	// twofoldFor is the time for which two aggregators are reported after both answered. If both run, the chance that
	// ten successive connections all miss a given one is about 1 in 1,000.
	twofoldFor = 10 * reconnectEvery
)

// target is one address of the aggregator. A host name may have several.
type target struct{ url, host, ip string }

// targets are the addresses of the aggregator and its standby. It is safe for concurrent use.
type targets struct {
	urls []string
	// lookup resolves host names. It is nil if the agent does not resolve them itself.
	lookup func(ctx context.Context, host string) ([]string, error)

	mu      sync.Mutex
	current target // current target; the zero value means any address of the first URL
}

func (t *targets) baseURL() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.url == "" {
		return t.urls[0]
	}
	return t.current.url
}

// dial connects to address. If address has the host name of the current target, it connects to the target's IP address.
func (t *targets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t.mu.Lock()
	current := t.current
	t.mu.Unlock()
	if host, port, err := net.SplitHostPort(address); err == nil && current.ip != "" && host == current.host {
		address = net.JoinHostPort(current.ip, port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// useNext makes the next target the current one, and returns the number of targets.
func (t *targets) useNext(ctx context.Context) int {
	all := t.listTargets(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(all, t.current) // -1 if the current target no longer exists or none was chosen yet
	if t.current.url == "" && len(all) > 1 {
		i = 0 // so far, the dialer probably used the first address of the resolver
	}
	t.current = all[(i+1)%len(all)]
	return len(all)
}

func (t *targets) listTargets(ctx context.Context) []target {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var out []target
	for _, raw := range t.urls {
		u, err := url.Parse(raw)
		if err != nil {
			continue // invalid addresses were refused with the configuration
		}
		var ips []string
		if t.lookup != nil {
			ips, _ = t.lookup(ctx, u.Hostname()) // the dialer reports the error
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

// switchTarget chooses another target if the process at the current one does not lead or does
// not answer. It reports whether the new target should be tried immediately.
func (w *sender) switchTarget(ctx context.Context, a response) bool {
	switch a.reason {
	case reasonStandby, reasonConnection, reasonTimeout:
	default:
		w.triedTargets = 0
		return false
	}
	n := w.s.targets.useNext(ctx)
	w.s.http.Close()
	if w.triedTargets++; w.triedTargets >= n {
		w.triedTargets = 0
		return false
	}
	return true
}

// reconnect closes the connection about once a minute, so the next request makes a new one.
func (w *sender) reconnect() {
	now := w.s.now()
	if now.Before(w.reconnectAt) {
		return
	}
	w.s.http.Close()
	w.reconnectAt = now.Add(reconnectEvery/2 + rand.N(reconnectEvery)) //nolint:gosec // the number need not be secret
}

// processes records which aggregator processes answer. A process that was replaced never
// answers again. If an earlier process answers after a later one, both are running.
type processes struct {
	newest, previous string    // random names of the last two processes that answered
	since, seen      time.Time // first and last time at which an earlier process answered again
}

func (p *processes) noteAnswer(name string, now time.Time) {
	if name == "" || name == p.newest {
		return
	}
	if name == p.previous {
		if p.twofoldSince(now).IsZero() {
			p.since = now
		}
		p.seen = now
	}
	p.newest, p.previous = name, p.newest
}

// twofoldSince returns the time since which two processes answer, or zero if only one does.
func (p *processes) twofoldSince(now time.Time) time.Time {
	if p.seen.IsZero() || now.Sub(p.seen) >= twofoldFor {
		return time.Time{}
	}
	return p.since
}
