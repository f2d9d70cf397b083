package web

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limiter is a listener that bounds the number of open connections. When it is
// full, a new connection replaces the one that has been idle, or has not
// completed its request, for longest; if there is none, it replaces the one that
// has been served for longest, provided that this took at least patience. So
// clients that open connections without using them cannot lock others out. It is
// safe for concurrent use.
type limiter struct {
	net.Listener
	maxConns int
	patience time.Duration

	mu    sync.Mutex
	conns map[string]*connection // connections by remote address
	clock uint64                 // logical time: advances with each accept and each request
}

type connection struct {
	net.Conn
	limiter *limiter
	since   uint64    // logical time at which it was accepted or became idle
	busy    int       // requests in progress
	began   time.Time // start of the newest of them
	once    sync.Once
}

func newLimiter(l net.Listener, maxConns int) *limiter {
	return &limiter{Listener: l, maxConns: maxConns, patience: graceToRead, conns: map[string]*connection{}}
}

// Accept returns the next connection that fits the limit, and closes those that
// do not.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.add(conn); c != nil {
			return c, nil
		}
		_ = conn.Close() // all others are being served
	}
}

// add returns nil if there is no room.
func (l *limiter) add(conn net.Conn) *connection {
	l.mu.Lock()
	var evicted *connection
	if len(l.conns) >= l.maxConns {
		if evicted = l.evictable(); evicted == nil {
			l.mu.Unlock()
			return nil
		}
		delete(l.conns, evicted.RemoteAddr().String())
	}
	l.clock++
	c := &connection{Conn: conn, limiter: l, since: l.clock}
	l.conns[conn.RemoteAddr().String()] = c
	l.mu.Unlock()
	if evicted != nil {
		// A pending write must not delay the new connection.
		_ = evicted.SetDeadline(time.Now())
		_ = evicted.Close()
	}
	return c
}

// evictable returns the connection to replace, or nil if there is none. The
// caller holds the lock.
func (l *limiter) evictable() *connection {
	var idle, served *connection
	for _, c := range l.conns {
		switch {
		case c.busy == 0 && (idle == nil || c.since < idle.since):
			idle = c
		case c.busy > 0 && (served == nil || c.since < served.since):
			served = c
		}
	}
	if idle == nil && served != nil && time.Since(served.began) >= l.patience {
		return served
	}
	return idle
}

// Close closes the connection and frees its slot.
func (c *connection) Close() error {
	c.once.Do(func() {
		c.limiter.mu.Lock()
		defer c.limiter.mu.Unlock()
		if addr := c.RemoteAddr().String(); c.limiter.conns[addr] == c {
			delete(c.limiter.conns, addr)
		}
	})
	return c.Conn.Close()
}

// track returns h with its requests counted per connection.
func (l *limiter) track(h http.Handler) http.Handler {
	busy := func(addr string, n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if c := l.conns[addr]; c != nil {
			l.clock++
			c.busy, c.since, c.began = c.busy+n, l.clock, time.Now()
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy(r.RemoteAddr, 1)
		defer busy(r.RemoteAddr, -1)
		h.ServeHTTP(w, r)
	})
}
