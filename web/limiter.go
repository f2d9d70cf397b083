package web

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limiter is a listener that limits the number of open connections. If the limit is reached, a new connection replaces
// the connection that has been idle, or has not completed its request, for the longest time. If there is no such
// connection, the new one replaces the connection whose request has been served for the longest time, if that time is
// at least patience. So clients that keep unused connections open cannot lock out other clients. It is safe for
// concurrent use.
type limiter struct {
	net.Listener
	maxConns int
	patience time.Duration

	mu    sync.Mutex
	conns map[string]*connection // connections; the key is the remote address
	clock uint64                 // logical time, which advances with each connection and each request
}

type connection struct {
	net.Conn
	limiter *limiter
	since   uint64    // logical time when the connection was accepted or became idle
	busy    int       // number of requests in progress
	began   time.Time // start of the newest request in progress
	once    sync.Once
}

func newLimiter(l net.Listener, maxConns int) *limiter {
	return &limiter{Listener: l, maxConns: maxConns, patience: graceToRead, conns: map[string]*connection{}}
}

// Accept returns the next connection within the limit. It closes a new connection if no other connection can be closed
// in its place.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.add(conn); c != nil {
			return c, nil
		}
		_ = conn.Close() // no other connection can be closed in its place
	}
}

// add registers a connection. It returns nil if there is no room.
func (l *limiter) add(conn net.Conn) *connection {
	l.mu.Lock()
	var evicted *connection
	if len(l.conns) >= l.maxConns {
		if evicted = l.evictableConnection(); evicted == nil {
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
		// The expired deadline ends a pending write on the old connection, so that the new connection need not wait.
		_ = evicted.SetDeadline(time.Now())
		_ = evicted.Close()
	}
	return c
}

// evictableConnection returns the connection that a new one may replace, or nil if there is none. The caller must hold
// the lock.
func (l *limiter) evictableConnection() *connection {
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

// trackRequests wraps h so that each connection counts its requests in progress.
func (l *limiter) trackRequests(h http.Handler) http.Handler {
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
