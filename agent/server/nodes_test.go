package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
)

// nodeAPI serves Nodes: a list, and a watch of what happens after it.
type nodeAPI struct {
	mu     sync.Mutex
	nodes  map[string]bool // cordoned
	code   int             // of every answer, if it is not 0
	lists  int
	events chan string // of the watch; "" ends it
}

func newNodeAPI(names ...string) *nodeAPI {
	a := &nodeAPI{nodes: map[string]bool{}}
	for _, name := range names {
		a.nodes[name] = false
	}
	return a
}

func (a *nodeAPI) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func nodeText(name string, cordoned bool) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"2"},"spec":{"unschedulable":%v}}`, name, cordoned)
}

// RoundTrip answers without a network.
func (a *nodeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	res := &http.Response{StatusCode: cmp.Or(a.code, http.StatusOK), Header: http.Header{}, Request: r, Body: http.NoBody}
	if a.code == 0 && r.URL.Query().Has("watch") {
		reader, writer := io.Pipe()
		res.Body = reader
		go a.follow(r.Context(), writer)
		return res, nil
	}
	a.lists++
	items := []string{}
	for name, cordoned := range a.nodes {
		items = append(items, nodeText(name, cordoned))
	}
	if a.code == 0 {
		res.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"metadata":{"resourceVersion":"1"},"items":[%s]}`, strings.Join(items, ","))))
	}
	return res, nil
}

// follow writes events until the watch ends.
func (a *nodeAPI) follow(ctx context.Context, w *io.PipeWriter) {
	for {
		select {
		case <-ctx.Done():
			_ = w.CloseWithError(ctx.Err())
			return
		case e := <-a.events:
			if e == "" {
				_ = w.Close()
				return
			}
			_, _ = io.WriteString(w, e+"\n")
		}
	}
}

// event changes a node and reports that in the watch.
func (a *nodeAPI) event(kind, name string, cordoned bool) {
	a.set(func() {
		if a.nodes[name] = cordoned; kind == "DELETED" {
			delete(a.nodes, name)
		}
	})
	a.events <- fmt.Sprintf(`{"type":%q,"object":%s}`, kind, nodeText(name, cordoned))
}

// fleet is a source in a bubble whose agents report on their own.
type fleet struct {
	t    *testing.T
	s    *Source
	p    *pipe
	api  *nodeAPI
	live []string // agents that report
}

// inFleet runs a source that watches Nodes while f checks it.
func inFleet(t *testing.T, api *nodeAPI, saved []byte, f func(c *fleet)) (positions []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api.events = make(chan string) // of this bubble
		s := New(Config{Clock: time.Now, Nodes: &Nodes{}, Transport: api})
		require.NoError(t, s.Restore(saved))
		c := &fleet{t: t, s: s, p: newPipe(), api: api}
		for _, member := range s.Members() {
			c.p.AddMember(member)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		h := &handler{s: s, p: c.p}
		wg.Go(func() { h.maintain(ctx) })
		wg.Go(func() { s.watch.run(ctx) })
		f(c)
		positions = s.Positions()
		cancel()
		wg.Wait()
	})
	return positions
}

// pass lets time pass while the agents report.
func (c *fleet) pass(d time.Duration) {
	for range int(d / time.Second) {
		for _, name := range c.live {
			c.say(wire.Message{Node: name})
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual
		synctest.Wait()
	}
}

func (c *fleet) say(m wire.Message) {
	m.Instance, m.SentAt, m.Watermark = "of-"+m.Node, time.Now(), time.Now()
	h := &handler{s: c.s, p: c.p}
	_, why := h.acceptMessage(c.t.Context(), &m, &caller{})
	require.Nil(c.t, why)
}

// waited returns the nodes that are waited for.
func (c *fleet) waited() string {
	names := []string{}
	for _, member := range c.s.Members() {
		names = append(names, strings.TrimPrefix(member, "agents/"))
	}
	return strings.Join(slices.DeleteFunc(names, func(s string) bool { return s == "?" }), " ")
}

func TestNodesThatLeft(t *testing.T) {
	api := newNodeAPI("a", "b", "c", "d")
	inFleet(t, api, nil, func(c *fleet) {
		c.live = []string{"a", "b", "c", "d", "elsewhere"}
		c.pass(20 * time.Second)
		require.Equal(t, "a b c d elsewhere", c.waited())

		// The Node of an agent that still reports is gone: it goes on reporting.
		api.event("DELETED", "b", false)
		c.pass(time.Minute)
		require.Equal(t, "a b c d elsewhere", c.waited())
		// Silence alone, or a name that never was that of a Node, means nothing.
		c.live = []string{"a"}
		c.pass(10 * time.Minute)
		require.Equal(t, "a c d elsewhere", c.waited(), "b fell silent, and its Node is gone")
		// A Node that is deleted after its agent fell silent.
		api.event("DELETED", "c", false)
		c.pass(2 * time.Second)
		require.Equal(t, "a d elsewhere", c.waited())
		c.pass(time.Hour)
		require.Equal(t, "a", c.waited(), "until forget_after")
	})
}

func TestDrainedNodes(t *testing.T) {
	api := newNodeAPI("a", "b", "c")
	inFleet(t, api, nil, func(c *fleet) {
		c.live = []string{"a", "b", "c"}
		c.pass(5 * time.Second)
		api.event("MODIFIED", "b", true)
		c.pass(time.Minute)
		require.Equal(t, "a b c", c.waited(), "cordoned, and read")
		c.live = []string{"a"}
		c.say(wire.Message{Node: "b", Goodbye: true})
		c.pass(20 * time.Second)
		require.Equal(t, "a b c", c.waited(), "its agent may be restarted")
		c.pass(15 * time.Second)
		require.Equal(t, "a c", c.waited(), "c is silent for an unknown reason")
		c.live = []string{"a", "b"}
		c.pass(2 * time.Second)
		require.Equal(t, "a b c", c.waited(), "it is back")
	})
}

// While the API server is away every node is waited for, and the status says so.
func TestNodesWithoutAPIServer(t *testing.T) {
	api := newNodeAPI("a", "b")
	saved := inFleet(t, api, nil, func(c *fleet) {
		c.live = []string{"a", "b"}
		c.pass(20 * time.Second)
		require.Empty(t, c.s.Status().Error)
		api.set(func() { api.code = http.StatusServiceUnavailable; delete(api.nodes, "b") })
		api.events <- ""
		c.live = []string{"a"}
		c.pass(5 * time.Minute)
		require.Equal(t, "a b", c.waited())
		require.Contains(t, c.s.Status().Error, "Watching the nodes has failed since 2000-01-01T00:00:20Z: the API server answers 503")
		require.True(t, c.s.Status().Members["agents/a"].Up)
	})
	// The Node left while the aggregator was away.
	inFleet(t, api, saved, func(c *fleet) {
		c.live = []string{"a"}
		c.pass(2 * time.Minute)
		require.Equal(t, "a b", c.waited())
		api.set(func() { api.code = 0 })
		c.pass(40 * time.Second)
		require.Equal(t, "a", c.waited())
		require.Empty(t, c.s.Status().Error)
	})
	api.set(func() { api.code, api.lists = http.StatusForbidden, 0 })
	inFleet(t, api, nil, func(c *fleet) {
		c.pass(10 * time.Minute)
		require.Contains(t, c.s.Status().Error, "grant list and watch of nodes")
	})
	require.Less(t, api.lists, 100, "few requests")
}

// A watch that ends is opened again after the last version that was seen.
func TestNodeWatchEnds(t *testing.T) {
	api := newNodeAPI("a", "b")
	inFleet(t, api, nil, func(c *fleet) {
		c.live = []string{"a", "b"}
		for range 10 {
			c.pass(5 * time.Second)
			api.events <- ""
		}
		c.pass(time.Second)
		require.Equal(t, 1, api.lists)
		api.events <- `{"type":"ERROR","object":{"code":410,"message":"too old"}}`
		c.pass(5 * time.Second)
		require.Equal(t, 2, api.lists)
		require.Equal(t, present, c.s.watch.presence("b"))
		require.Equal(t, absent, c.s.watch.presence("x"))
	})
}
