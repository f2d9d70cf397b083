package web

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// crowd is a listener that holds a bounded number of connections. When there is
// no room it closes the one that has kept it waiting the longest: one that is
// idle, or that has not sent its request yet; if there is none, the one that has
// been served the longest, if that is longer than patience. A client that opens
// connections and says nothing on them, or reads nothing, keeps nobody out. It is
// safe for concurrent use.
type crowd struct {
	net.Listener
	most     int
	patience time.Duration

	mu    sync.Mutex
	conns map[string]*member // by the peer's address
	taken uint64             // so far, for the order
}

// member is one connection.
type member struct {
	net.Conn
	crowd *crowd
	since uint64    // order in which it was taken or became idle
	busy  int       // requests that are being served
	began time.Time // of the newest of them
	once  sync.Once
}

func newCrowd(l net.Listener, most int) *crowd {
	return &crowd{Listener: l, most: most, patience: graceToRead, conns: map[string]*member{}}
}

// Accept returns the next connection that there is room for.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if m := c.add(conn); m != nil {
			return m, nil
		}
		_ = conn.Close() // all others are being served
	}
}

func (c *crowd) add(conn net.Conn) *member {
	c.mu.Lock()
	var out *member
	if len(c.conns) >= c.most {
		if out = c.oldest(); out == nil {
			c.mu.Unlock()
			return nil
		}
		delete(c.conns, out.RemoteAddr().String())
	}
	c.taken++
	m := &member{Conn: conn, crowd: c, since: c.taken}
	c.conns[conn.RemoteAddr().String()] = m
	c.mu.Unlock()
	if out != nil {
		// A reader of it must not hold up whoever is taken.
		_ = out.SetDeadline(time.Now())
		_ = out.Close()
	}
	return m
}

// oldest returns the connection that makes room, nil if none does. The lock is
// held.
func (c *crowd) oldest() *member {
	var idle, served *member
	for _, m := range c.conns {
		switch {
		case m.busy == 0 && (idle == nil || m.since < idle.since):
			idle = m
		case m.busy > 0 && (served == nil || m.since < served.since):
			served = m
		}
	}
	if idle == nil && served != nil && time.Since(served.began) >= c.patience {
		return served
	}
	return idle
}

// Close gives the place back.
func (m *member) Close() error {
	m.once.Do(func() {
		m.crowd.mu.Lock()
		defer m.crowd.mu.Unlock()
		if addr := m.RemoteAddr().String(); m.crowd.conns[addr] == m {
			delete(m.crowd.conns, addr)
		}
	})
	return m.Conn.Close()
}

// served notes which connections have a request that is being served.
func (c *crowd) served(h http.Handler) http.Handler {
	busy := func(addr string, n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if m := c.conns[addr]; m != nil {
			c.taken++
			m.busy, m.since, m.began = m.busy+n, c.taken, time.Now()
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy(r.RemoteAddr, 1)
		defer busy(r.RemoteAddr, -1)
		h.ServeHTTP(w, r)
	})
}
