package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/test/daemon"
)

// How often an agent sends a message: with nothing to report, and while something of it is
// not on the disk of the aggregator.
const (
	idleEvery = 2 * time.Second
	busyEvery = 500 * time.Millisecond
)

// load is what every node sends.
type load struct {
	every time.Duration
	hits  int // in a message
}

// crowd is simulated agents, each with a connection of its own.
type crowd struct {
	addr string
	set  *rules.Set
	all  []*node

	mu   sync.Mutex
	late []time.Duration // times to an answer
	sent atomic.Int64
	bad  atomic.Int64 // refused, or no answer
	id   atomic.Uint64
}

type node struct {
	name string
	conn net.Conn
	in   *bufio.Reader
	seq  uint64
}

func aggregator(listen string, nodes int) func(pack, alertmanager string) string {
	return func(pack, alertmanager string) string {
		return fmt.Sprintf("rules: {shipped: false, paths: [%q]}\nsources: {agents: {listen_address: %q, max_agents: %d}}\n"+
			"sinks: {alertmanager: {urls: [%q], resend_delay: 1m}}\nlimits: {active_alerts: 10000, fingerprints: 1048576}\nsentinel: {enabled: false}\n", pack, listen, nodes+10, alertmanager)
	}
}

// newCrowd connects nodes within two seconds.
func newCrowd(ctx context.Context, addr string, set *rules.Set, nodes int) (*crowd, error) {
	c := &crowd{addr: addr, set: set}
	for i := range nodes {
		n := &node{name: fmt.Sprintf("node-%d", i)}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return c, fmt.Errorf("connect node %d: %w", i, err)
		}
		n.conn, n.in = conn, bufio.NewReaderSize(conn, 1024)
		c.all = append(c.all, n)
	}
	return c, nil
}

func (c *crowd) close() {
	for _, n := range c.all {
		_ = n.conn.Close()
	}
}

// send makes every node send a message with count hits of a rule every so often, for span.
func (c *crowd) send(ctx context.Context, every, span time.Duration, count int, rule *rules.Rule) error {
	c.late = nil
	c.sent.Store(0)
	c.bad.Store(0)
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range c.all {
		all.Go(func() {
			next := time.Now().Add(rand.N(every)) //nolint:gosec // it spreads load
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(next)):
				}
				next = next.Add(every)
				c.one(n, count, rule)
			}
		})
	}
	all.Wait()
	return nil
}

// one sends one message and waits for the answer.
func (c *crowd) one(n *node, count int, rule *rules.Rule) {
	body := c.message(n, count, rule)
	began := time.Now()
	err := n.post(body)
	took := time.Since(began)
	c.sent.Add(1)
	if err != nil {
		c.bad.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = append(c.late, took)
}

func (n *node) post(body []byte) error {
	_ = n.conn.SetDeadline(time.Now().Add(10 * time.Second))
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", wire.Path, wire.ContentType, len(body))
	if _, err := n.conn.Write(append(head, body...)); err != nil {
		return err
	}
	res, err := http.ReadResponse(n.in, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// message returns the next message of a node.
func (c *crowd) message(n *node, count int, rule *rules.Rule) []byte {
	now := time.Now()
	m := wire.Message{Node: n.name, Instance: "i", Sequence: n.seq, OldestSequence: n.seq + 1, SentAt: now, Watermark: now}
	if count > 0 {
		n.seq++
		m.Sequence, m.OldestSequence = n.seq, n.seq
		var batch wire.Builder
		for i := range count {
			pod := n.name // one key per node
			if rule.Count == 1 {
				pod = fmt.Sprintf("%s-%d", n.name, i)
			}
			batch.Add(&matcher.Hit{
				Rule: rule, Time: now, Values: []string{pod}, ID: c.id.Add(1) * 0x9E3779B97F4A7C15,
				Labels: matcher.Labels{"namespace": "kube-system", "pod": pod, "container": "c", "filename": "/var/log/pods/kube-system_" + pod + "_1/c/0.log"},
				Line:   "E0101 00:00:00.000000       1 leaderelection.go:330] error retrieving resource lock kube-system/lease: it is counted " + pod,
			})
		}
		m.Payload = batch.Seal()
	}
	return m.Append(nil)
}

func (c *crowd) quantiles() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.late) == 0 {
		return "- | -"
	}
	slices.Sort(c.late)
	at := func(q float64) time.Duration {
		return c.late[min(len(c.late)-1, int(q*float64(len(c.late))))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%v | %v", at(.5), at(.99))
}

// measureNodes measures messages of agents with and without hits.
func measureNodes(ctx context.Context, o options) error {
	fmt.Println("| nodes | a message every | hits in it | messages/s | refused | CPU of the aggregator | per message | memory | answer p50 | p99 |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, nodes := range o.nodes {
		if err := measureCrowd(ctx, o, nodes); err != nil {
			return err
		}
	}
	return nil
}

func measureCrowd(ctx context.Context, o options, nodes int) error {
	listen, err := daemon.FreeAddr()
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o, aggregator(listen, nodes))
	defer l.close()
	if err != nil {
		return err
	}
	c, err := newCrowd(ctx, listen, l.set, nodes)
	defer c.close()
	if err != nil {
		return err
	}
	if err := c.send(ctx, idleEvery, 2*idleEvery, 0, nil); err != nil { // every node is known
		return err
	}
	loads := []load{{idleEvery, 0}}
	if nodes == o.nodes[len(o.nodes)-1] {
		loads = append(loads, load{idleEvery, 10}, load{busyEvery, 1})
	}
	for _, x := range loads {
		cpu, took, err := l.spent(func() error { return c.send(ctx, x.every, o.span, x.hits, l.set.Rules[0]) })
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %v | %d | %.0f | %d | %s | %s | %d MiB | %s |\n", nodes, x.every, x.hits, float64(c.sent.Load())/took.Seconds(), c.bad.Load(),
			share(cpu, took), each(cpu, c.sent.Load()), l.memory(), c.quantiles())
	}
	return nil
}

// measureEpisodes measures what open episodes cost while nothing happens.
func measureEpisodes(ctx context.Context, o options) error {
	fmt.Println("| open episodes | CPU of the aggregator | per episode and second | memory | to open one |\n|---:|---:|---:|---:|---:|")
	for _, open := range []int{0, 1000, 5000, 10000} {
		if err := measureOpen(ctx, o, open); err != nil {
			return err
		}
	}
	return nil
}

func measureOpen(ctx context.Context, o options, open int) error {
	listen, err := daemon.FreeAddr()
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o, aggregator(listen, 100))
	defer l.close()
	if err != nil {
		return err
	}
	c, err := newCrowd(ctx, listen, l.set, 100)
	defer c.close()
	if err != nil {
		return err
	}
	opening, _, err := l.spent(func() error {
		for _, n := range c.all {
			if open > 0 {
				c.one(n, open/len(c.all), l.set.Rules[1])
			}
		}
		return idle(ctx, 4*time.Second)
	})
	if err != nil {
		return err
	}
	cpu, took, err := l.spent(func() error { return idle(ctx, o.span) })
	if err != nil {
		return err
	}
	fmt.Printf("| %d | %s | %s | %d MiB | %s |\n", open, share(cpu, took), each(cpu, int64(float64(open)*took.Seconds())), l.memory(), each(opening, int64(open)))
	return nil
}
