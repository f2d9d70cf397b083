package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/kube"
)

const (
	nodesPath     = "/api/v1/nodes"
	watchAgain    = 500 * time.Millisecond
	maxWatchRetry = 10 * time.Second
	// unsureAfter is how long Nodes may be unknown before the source reports it.
	unsureAfter = 30 * time.Second
	// drainedAfter is how long the agent of a cordoned Node may be away after its
	// goodbye before the node counts as drained. The controller of a DaemonSet
	// replaces a pod that was only deleted within seconds.
	drainedAfter = 30 * time.Second
)

// Nodes makes the source watch the Nodes of its cluster. It no longer waits for an
// agent whose Node was deleted, or that said goodbye on a cordoned Node. It still
// waits for a Node that is only unreachable, and for every node while the API
// server is away. It needs list and watch of nodes.
type Nodes struct {
	// Kubeconfig is a file; the default is the service account of the pod that
	// this program runs in.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
}

// presence is the known state of a Node.
type presence int

const (
	unsure   presence = iota // the API server does not say
	absent                   // the Node does not exist
	present                  // the Node exists
	cordoned                 // the Node exists and is unschedulable
)

// nodeWatch holds the Nodes of a cluster. Safe for concurrent use.
type nodeWatch struct {
	client *kube.Client
	clock  func() time.Time

	mu     sync.Mutex
	nodes  map[string]presence
	synced bool      // nodes are those of the API server
	since  time.Time // since when it is not
	err    error
}

func newNodeWatch(cfg *Nodes, clock func() time.Time, transport http.RoundTripper) *nodeWatch {
	if cfg == nil {
		return nil
	}
	return &nodeWatch{
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: transport}),
		clock:  clock, nodes: map[string]presence{}, since: clock(),
	}
}

// state returns the presence of a Node. A nil watch always returns unsure.
func (w *nodeWatch) state(name string) presence {
	if w == nil {
		return unsure
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return unsure
	}
	if p, there := w.nodes[name]; there {
		return p
	}
	return absent
}

// problem returns why Nodes are not known; "" if they are.
func (w *nodeWatch) problem(now time.Time) string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced || w.err == nil || now.Sub(w.since) < unsureAfter {
		return ""
	}
	fix := ""
	if kube.Code(w.err) == http.StatusForbidden {
		fix = "; grant list and watch of nodes"
	}
	return fmt.Sprintf("Nodes cannot be watched since %s: %v%s. Deleted nodes are waited for as long as forget_after allows", w.since.UTC().Format(time.RFC3339), w.err, fix)
}

// run lists and watches until ctx ends.
func (w *nodeWatch) run(ctx context.Context) {
	defer w.client.Close()
	again := watchAgain
	for ctx.Err() == nil {
		err := w.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if w.lost(err) {
			again = watchAgain
		}
		pause.Sleep(ctx, again+rand.N(again), nil)
		again = min(2*again, maxWatchRetry)
	}
}

// lost records that Nodes are no longer known, and reports whether they were.
func (w *nodeWatch) lost(err error) (was bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was = w.synced; was {
		w.since = w.clock()
	}
	w.synced, w.err = false, err
	return was
}

// nodeObject holds the fields of a Node that are used here.
type nodeObject struct {
	Metadata struct {
		Name    string `json:"name"`
		Version string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
}

func (o nodeObject) presence() presence {
	if o.Spec.Unschedulable {
		return cordoned
	}
	return present
}

// once lists all Nodes and then watches them until the watch ends.
func (w *nodeWatch) once(ctx context.Context) error {
	nodes := map[string]presence{}
	version, err := w.client.List(ctx, nodesPath, nil, func(raw json.RawMessage) error {
		var o nodeObject
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("read a node: %w", err)
		}
		nodes[o.Metadata.Name] = o.presence()
		return nil
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.nodes, w.synced, w.err = nodes, true, nil
	w.mu.Unlock()
	for err == nil && ctx.Err() == nil {
		began := w.clock()
		version, err = w.watch(ctx, version)
		if w.clock().Sub(began) < time.Second {
			return err // list again, after a pause
		}
	}
	return err
}

// watch follows the changes after version and returns the newest version.
func (w *nodeWatch) watch(ctx context.Context, version string) (string, error) {
	query := url.Values{"resourceVersion": {version}}
	err := w.client.Watch(ctx, nodesPath, query, func() {}, func(e kube.Event) error {
		var o nodeObject
		if err := json.Unmarshal(e.Object, &o); err != nil {
			return fmt.Errorf("read a node: %w", err)
		}
		version = o.Metadata.Version
		w.mu.Lock()
		defer w.mu.Unlock()
		switch e.Type {
		case "ADDED", "MODIFIED":
			w.nodes[o.Metadata.Name] = o.presence()
		case "DELETED":
			delete(w.nodes, o.Metadata.Name)
		}
		return nil
	})
	return version, err
}

// departed reports whether a node has left the cluster: its Node was deleted while
// its agent is silent, or it was drained. departed also records that the node has a
// Node. The caller holds mu.
func (s *Source) departed(n *node, now time.Time) bool {
	quiet := now.Sub(n.waited)
	switch s.watch.state(n.name) {
	case present:
		n.object = true
	case cordoned:
		n.object = true
		return n.left && quiet >= drainedAfter
	case absent:
		// A name that never belonged to a Node shows nothing. A token that the API
		// server reviewed is bound to a Node.
		return (n.object || !n.who.at.IsZero()) && (n.left || quiet >= s.cfg.SilentAfter)
	}
	return false
}

// expired reports whether a node is no longer waited for. The caller holds mu.
func (s *Source) expired(n *node, now time.Time) bool {
	return now.Sub(n.waited) >= s.cfg.ForgetAfter || s.departed(n, now)
}
