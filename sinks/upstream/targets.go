package upstream

import (
	"context"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"crowsnest/sinks/internal/delivery"
)

const (
	// nextTarget is the pause before another address is tried.
	nextTarget = 50 * time.Millisecond
	// maxTargets bounds the addresses of all names.
	maxTargets    = 64
	resolveWithin = 2 * time.Second
)

// target is one address of the aggregator. A name may have several.
type target struct{ url, host, ip string }

// targets are the addresses of the aggregator and of its standby. Safe for concurrent use.
type targets struct {
	urls   []string
	lookup func(ctx context.Context, host string) ([]string, error) // nil: names are not resolved

	mu  sync.Mutex
	now target // the zero value: the first URL, by any address of its name
}

// url returns the base address that is used now.
func (t *targets) url() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.url == "" {
		return t.urls[0]
	}
	return t.now.url
}

// dial connects to the address that is used now, if address is its name.
func (t *targets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t.mu.Lock()
	now := t.now
	t.mu.Unlock()
	if host, port, err := net.SplitHostPort(address); err == nil && now.ip != "" && host == now.host {
		address = net.JoinHostPort(now.ip, port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// next uses the address after the one that is used now, and returns how many there are.
func (t *targets) next(ctx context.Context) int {
	all := t.resolve(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(all, t.now) // -1: it is gone, or none was chosen yet
	if t.now.url == "" && len(all) > 1 {
		i = 0 // the resolver's first was used most likely
	}
	t.now = all[(i+1)%len(all)]
	return len(all)
}

// resolve returns all addresses.
func (t *targets) resolve(ctx context.Context) []target {
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	var out []target
	for _, raw := range t.urls {
		u, err := url.Parse(raw)
		if err != nil {
			continue // the configuration was checked
		}
		var ips []string
		if t.lookup != nil {
			ips, _ = t.lookup(ctx, u.Hostname()) // without an answer, the dialer reports the error
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

// elsewhere chooses another address if the aggregator does not lead or does not answer
// here. It reports whether that one should be tried at once.
func (w *sender) elsewhere(ctx context.Context, a answer) bool {
	switch a.reason {
	case reasonStandby, delivery.ReasonConnection, delivery.ReasonTimeout:
	default:
		w.tried = 0
		return false
	}
	n := w.s.targets.next(ctx)
	w.s.http.Close()
	w.tried++
	if w.tried >= n {
		w.tried = 0
		return false
	}
	return true
}
