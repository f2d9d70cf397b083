package servers

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"crowsnest/test/child"
)

// relay is the network in front of a member of a cluster: it forwards packets and
// connections, or drops them while it is cut. It ends with the test.
type relay struct {
	port, to int
	cut      atomic.Bool
	wg       sync.WaitGroup

	mu    sync.Mutex
	open  map[io.Closer]bool
	ended bool
}

func newRelay(t testing.TB, to int) *relay {
	t.Helper()
	r := &relay{port: FreePort(t), to: to, open: map[io.Closer]bool{}}
	tcp, err := net.Listen("tcp", child.Address(r.port))
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", child.Address(r.port))
	if err != nil {
		t.Fatal(err)
	}
	r.keep(tcp)
	r.keep(udp)
	r.wg.Go(func() { r.acceptTCP(tcp) })
	r.wg.Go(func() { r.passUDP(udp) })
	t.Cleanup(func() {
		r.mu.Lock()
		r.ended = true
		for c := range r.open {
			c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

// keep closes c with the relay, immediately if the relay has ended.
func (r *relay) keep(c io.Closer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[c] = true; r.ended {
		c.Close()
	}
}

func (r *relay) acceptTCP(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", child.Address(r.to))
		if err != nil || r.cut.Load() {
			in.Close()
			if err == nil {
				out.Close()
			}
			continue
		}
		r.keep(in)
		r.keep(out)
		r.wg.Go(func() { r.copyTCP(out, in) })
		r.wg.Go(func() { r.copyTCP(in, out) })
	}
}

func (r *relay) copyTCP(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}

// passUDP forwards packets, and the replies to their senders.
func (r *relay) passUDP(l net.PacketConn) {
	outs := map[string]net.Conn{}
	buf := make([]byte, 64<<10)
	for {
		n, from, err := l.ReadFrom(buf)
		if err != nil {
			return
		}
		out := outs[from.String()]
		if out == nil {
			if out, err = net.Dial("udp", child.Address(r.to)); err != nil {
				continue
			}
			outs[from.String()] = out
			r.keep(out)
			r.wg.Go(func() { r.answerUDP(l, from, out) })
		}
		if !r.cut.Load() {
			_, _ = out.Write(buf[:n])
		}
	}
}

func (r *relay) answerUDP(l net.PacketConn, to net.Addr, out net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		if err != nil && n == 0 {
			r.mu.Lock()
			ended := r.ended
			r.mu.Unlock()
			if ended {
				return
			}
			continue // refused while the member is down
		}
		if !r.cut.Load() {
			_, _ = l.WriteTo(buf[:n], to)
		}
	}
}
