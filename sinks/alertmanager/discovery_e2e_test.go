//go:build e2e

package alertmanager

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"crowsnest/episodes"
	"crowsnest/test/servers"
)

// dnsServer answers queries over UDP. It ends with the test.
type dnsServer struct {
	conn net.PacketConn
	done chan struct{}

	mu        sync.Mutex
	broken    bool                // whether it answers every query with SERVFAIL
	addresses map[string][]string // IPv4 addresses by name, which ends with a dot
	records   map[string][]string // targets of SRV records by name
	port      int                 // port of all SRV records
}

func newDNSServer(t *testing.T, port int) *dnsServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &dnsServer{conn: conn, done: make(chan struct{}), addresses: map[string][]string{}, records: map[string][]string{}, port: port}
	go d.serve()
	t.Cleanup(func() {
		conn.Close()
		<-d.done
	})
	return d
}

func (d *dnsServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

func (d *dnsServer) serve() {
	defer close(d.done)
	buf := make([]byte, 4096)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		answer := d.answer(query)
		if packed, err := answer.Pack(); err == nil {
			_, _ = d.conn.WriteTo(packed, from)
		}
	}
}

func (d *dnsServer) answer(query dnsmessage.Message) dnsmessage.Message {
	q := query.Questions[0]
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true}, Questions: query.Questions}
	add := func(body dnsmessage.ResourceBody) {
		out.Answers = append(out.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: body})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := q.Name.String()
	switch {
	case d.broken:
		out.RCode = dnsmessage.RCodeServerFailure
	case q.Type == dnsmessage.TypeA:
		for _, a := range d.addresses[name] {
			add(&dnsmessage.AResource{A: [4]byte(net.ParseIP(a).To4())})
		}
	case q.Type == dnsmessage.TypeSRV:
		for _, target := range d.records[name] {
			add(&dnsmessage.SRVResource{Port: uint16(d.port), Target: dnsmessage.MustNewName(target)})
		}
	}
	if len(d.addresses[name])+len(d.records[name]) == 0 && !d.broken {
		out.RCode = dnsmessage.RCodeNameError
	}
	return out
}

// world is a cluster of real Alertmanagers whose members come and go.
type world struct {
	*testing.T
	hook    *servers.Hook
	members map[int]*servers.AlertmanagerServer
	started []*servers.AlertmanagerServer // every process, including those that have ended
	gossip  [3]int
	port    int // port of all members, each of which has an address of its own
	ips     [3]string
	dns     *dnsServer
	file    string
	cfg     Config
	sink    *Sink
	stop    func()
	all     map[string]episodes.Episode
}

// start starts a member at its address.
func (w *world) start(i int, dir string) {
	var peers []int
	for j := range w.members {
		peers = append(peers, w.gossip[j])
	}
	w.members[i] = servers.AlertmanagerMember(w, fmt.Sprint("alertmanager-", i), servers.AlertmanagerOptions{
		Dir: dir, Webhook: w.hook.URL, GroupInterval: 5 * time.Second, Debug: true, Args: []string{fmt.Sprintf("--web.listen-address=%s:%d", w.ips[i], w.port)},
	}, w.gossip[i], peers...)
	w.started = append(w.started, w.members[i])
}

// publish makes lookups find these members.
func (w *world) publish(members ...int) {
	var ips, names, targets []string
	w.dns.mu.Lock()
	for _, i := range members {
		name := fmt.Sprintf("am-%d.test.", i)
		ips, names = append(ips, w.ips[i]), append(names, name)
		targets = append(targets, fmt.Sprintf("%q", fmt.Sprintf("%s:%d", w.ips[i], w.port)))
		w.dns.addresses[name] = []string{w.ips[i]}
	}
	w.dns.addresses["am.test."], w.dns.records["_web._tcp.am.test."] = ips, names
	w.dns.mu.Unlock()
	w.write(fmt.Sprintf(`[{"targets": [%s]}]`, strings.Join(targets, ", ")))
}

// write replaces the file of targets at once.
func (w *world) write(text string) {
	require.NoError(w, os.WriteFile(w.file+".new", []byte(text), 0o600))
	require.NoError(w, os.Rename(w.file+".new", w.file))
}

// breakLookups makes every lookup fail until publish is called.
func (w *world) breakLookups(broken bool) {
	w.dns.mu.Lock()
	w.dns.broken = broken
	w.dns.mu.Unlock()
	if broken {
		w.write("[{targets: ")
	}
}

func (w *world) run(state []byte) {
	s, err := New(w.cfg, Options{Log: zerolog.Nop()})
	require.NoError(w, err)
	s.resolver = w.dns.resolver()
	if state != nil {
		require.NoError(w, s.Import(state))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.sink = s
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

// restart ends the sink and starts the next one with what it saved, and with what is open or
// ended lately.
func (w *world) restart() {
	state, err := w.sink.Export()
	require.NoError(w, err)
	w.stop()
	w.run(state)
	for _, ep := range w.all {
		w.sink.Notify(eps(ep))
	}
}

func (w *world) fire(n int, name string) {
	for i := range n {
		ep := fire(fmt.Sprint(name, i))
		w.all[ep.Alert] = ep
		w.sink.Notify(eps(ep))
	}
}

func (w *world) end(names ...string) {
	for _, name := range names {
		w.all[name] = end(w.all[name])
		w.sink.Notify(eps(w.all[name]))
	}
}

// has requires that members have every open alert within a time.
func (w *world) has(within time.Duration, members ...int) {
	w.Helper()
	from := time.Now()
	var open []string
	for name, ep := range w.all {
		if ep.State == episodes.StateFiring {
			open = append(open, name)
		}
	}
	for _, i := range members {
		var names []string
		for {
			alerts, _ := w.members[i].TryAlerts()
			names = nil
			for _, a := range alerts {
				names = append(names, alertname(a.Labels))
			}
			if !slices.ContainsFunc(open, func(name string) bool { return !slices.Contains(names, name) }) {
				break
			}
			require.Less(w, time.Since(from), within, "member %d has %v of %v", i, names, open)
			<-time.After(20 * time.Millisecond)
		}
	}
}

// notified waits until people were notified of everything, and requires that it was once.
func (w *world) notified() {
	w.Helper()
	require.Eventually(w, func() bool {
		states := w.hook.States()
		for name, ep := range w.all {
			want := "firing"
			if ep.State == episodes.StateResolved {
				want = "firing resolved"
			}
			if len(states[name]) < len(want) {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond)
	w.once()
}

// once requires that people were notified of everything at most once. It does not count what no
// client can prevent. A member that flushed a group before an alert ended, and whose turn to
// notify came after another member had notified of the end, notifies of the alert and of its end
// again.
func (w *world) once() {
	w.Helper()
	told := map[string][]servers.Notification{}
	for _, n := range w.hook.Notifications() {
		told[n.Key] = append(told[n.Key], n)
	}
	for name, ep := range w.all {
		want := []string{"firing"}
		if ep.State == episodes.StateResolved {
			want = append(want, "resolved")
		}
		stale := false
		for _, n := range told[name] {
			switch {
			case len(want) > 0 && n.Status == want[0]:
				want = want[1:]
			case n.Status == "firing" && w.isStale(n):
				stale = true
			case n.Status == "resolved" && stale: // two members may notify of this end
			default:
				require.Fail(w, "notified too often", "%s: %v", name, told[name])
			}
		}
	}
}

// isStale reports whether the member that sent a notification flushed its group for the last time
// before the alert ended.
func (w *world) isStale(n servers.Notification) bool {
	from, err := url.Parse(n.From)
	require.NoError(w, err)
	for _, am := range w.started {
		if !strings.HasSuffix(am.URL, ":"+from.Port()) {
			continue
		}
		var last time.Time
		for _, m := range flushLine.FindAllStringSubmatch(am.Log(), -1) {
			at, err := time.Parse(time.RFC3339Nano, m[1])
			if err == nil && m[2] == n.Key && !at.After(n.Time) {
				last = at
			}
		}
		return !last.IsZero() && last.Before(w.all[n.Key].EndsAt.Add(postTakes))
	}
	return false
}

// TestMembersOfRealCluster: a cluster of real Alertmanagers grows from one to three members, shrinks
// to two, and a member gets another address, while alerts open and end, lookups fail and
// crowsnest restarts. A new member has every open alert within 10 s, and people are notified of
// everything once.
func TestMembersOfRealCluster(t *testing.T) {
	for i, kind := range []string{"A", "SRV", "file"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, hook: servers.NewHook(t, alertname), members: map[int]*servers.AlertmanagerServer{}, port: servers.FreePort(t), all: map[string]episodes.Episode{}}
			w.dns, w.file = newDNSServer(t, w.port), filepath.Join(t.TempDir(), "am.json")
			for j := range 3 {
				w.gossip[j], w.ips[j] = servers.FreePort(t), fmt.Sprintf("127.0.%d.%d", i+1, j+1)
			}
			minFiring := 3 * time.Second
			w.cfg = map[string]Config{
				"A":    {DNSConfigs: []DNSConfig{{Names: []string{"am.test"}, Type: "A", Port: w.port}}},
				"SRV":  {DNSConfigs: []DNSConfig{{Names: []string{"_web._tcp.am.test"}}}},
				"file": {FileConfigs: []FileConfig{{Files: []string{w.file}}}},
			}[kind]
			w.cfg.ResendDelay, w.cfg.MinFiring = 2*time.Second, &minFiring
			w.play()
		})
	}
}

func (w *world) play() {
	w.start(0, "")
	w.publish(0)
	w.run(nil)
	w.Cleanup(func() { w.stop() })
	w.fire(20, "A")
	w.has(time.Minute, 0)
	w.notified()
	w.end("A0", "A1")
	w.notified()

	w.start(1, "")
	w.start(2, "")
	w.end("A2", "A3")
	w.publish(0, 1, 2)
	w.has(foundWithin, 1, 2)
	w.fire(10, "B")
	w.has(time.Minute, 0, 1, 2)
	w.notified()

	w.breakLookups(true)
	require.Eventually(w, func() bool { return !w.sink.Discoveries()[0].Up }, 3*lookUpWithin+10*time.Second, 20*time.Millisecond)
	w.fire(5, "C")
	w.has(time.Minute, 0, 1, 2)
	w.restart() // the saved addresses are used
	w.fire(5, "D")
	w.has(time.Minute, 0, 1, 2)
	w.end("B0", "B1", "C0")
	w.notified()

	w.breakLookups(false)
	w.end("A4", "B2")
	w.members[1].Stop()
	w.publish(0, 2)
	w.end("A5", "B3")
	require.Eventually(w, func() bool { return len(w.sink.Status()) == 2 }, 2*time.Minute, 20*time.Millisecond, "the member that stopped is dropped")
	w.notified()

	w.end("A6")
	dir := w.members[2].Dir
	w.members[2].Stop()
	w.end("A7", "D0")
	delete(w.members, 1)
	delete(w.members, 2)
	w.ips[2] = strings.TrimSuffix(w.ips[2], "3") + "9"
	w.restart()
	w.start(2, dir)
	w.publish(0, 2)
	w.has(foundWithin, 2)
	w.fire(5, "E")
	w.has(time.Minute, 0, 2)
	w.end("A8", "E0", "E1")
	w.notified()
	for range 100 { // two more group_intervals, and the last flushes of every member
		<-time.After(100 * time.Millisecond)
		w.once()
	}
	w.Log(w.sink.Discoveries())
}
