package kubelab

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

// Proxy forwards TCP connections and can close them, refuse them or make them
// hang. It is safe for concurrent use.
type Proxy struct {
	l  net.Listener
	to string
	wg sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	down   bool
	flow   *sync.Cond // signalled when hang changes
	hang   bool
}

// NewProxy returns a proxy to a port of 127.0.0.1 that ends with the test.
func NewProxy(t testing.TB, port int) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, to: "127.0.0.1:" + strconv.Itoa(port), conns: map[net.Conn]bool{}}
	p.flow = sync.NewCond(&p.mu)
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(p.close)
	return p
}

// Port returns the port of the proxy on 127.0.0.1.
func (p *Proxy) Port() int { return p.l.Addr().(*net.TCPAddr).Port }

// URL returns its HTTPS address.
func (p *Proxy) URL() string { return "https://127.0.0.1:" + strconv.Itoa(p.Port()) }

// Cut closes all connections. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Down refuses connections, or accepts them again. It closes the open ones.
func (p *Proxy) Down(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.Cut()
	}
}

// Hang stops the flow of bytes without closing anything, or resumes it.
func (p *Proxy) Hang(hang bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang = hang
	p.flow.Broadcast()
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed, p.hang = true, false
	p.flow.Broadcast()
	p.mu.Unlock()
	p.l.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go p.serve(c)
	}
}

func (p *Proxy) serve(c net.Conn) {
	defer p.wg.Done()
	defer c.Close()
	if !p.keep(c) {
		return
	}
	defer p.forget(c)
	d, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer d.Close()
	if !p.keep(d) {
		return
	}
	defer p.forget(d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.pass(c, d)
	}()
	p.pass(d, c)
	<-done
}

// pass copies until one side ends, and then closes both.
func (p *Proxy) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.mayPass() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// mayPass waits while the proxy hangs.
func (p *Proxy) mayPass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.hang && !p.closed {
		p.flow.Wait()
	}
	return !p.closed
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down || p.closed {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
