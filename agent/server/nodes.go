package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"crowsnest/internal/kube"
)

// unsureAfter is the time without a complete list of Nodes after which the source reports the problem.
const unsureAfter = 30 * time.Second

// Nodes makes the source watch the Nodes of its cluster. The source then no longer waits for an agent whose Node was
// deleted, or that announced its shutdown on a cordoned Node. It still waits for a Node that is only unreachable, and
// for every node while the API server cannot be reached. It needs list and watch of nodes.
type Nodes struct {
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
}

// presence is the state of a Node, as far as the API server shows it.
type presence int

const (
	unsure presence = iota // the API server does not answer
	absent
	present
	cordoned // the Node exists and is unschedulable
)

// nodeWatch knows the Nodes of a cluster. It is a kube.Handler, and is safe for concurrent use.
type nodeWatch struct {
	watcher kube.Watcher

	mu     sync.Mutex
	nodes  map[string]presence
	listed map[string]presence // Nodes of the list in progress; nil if no list is in progress
	synced bool                // whether nodes contains all Nodes of the cluster
	since  time.Time           // time since which synced has been false
	err    error
}

func newNodeWatch(cfg *Nodes, clock func() time.Time, transport http.RoundTripper) *nodeWatch {
	if cfg == nil {
		return nil
	}
	w := &nodeWatch{since: clock()}
	w.watcher = kube.Watcher{Client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: transport}), Path: "/api/v1/nodes", Clock: clock, Handler: w}
	return w
}

func (w *nodeWatch) run(ctx context.Context) {
	defer w.watcher.Client.Close()
	w.watcher.Run(ctx)
}

// presence returns the state of a Node. A nil *nodeWatch always returns unsure.
func (w *nodeWatch) presence(name string) presence {
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

// problem returns the reason why the Nodes are unknown, or "" if they are known.
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
	if kube.StatusCode(w.err) == http.StatusForbidden {
		fix = "; grant list and watch of nodes"
	}
	return fmt.Sprintf("Watching the nodes has failed since %s: %v%s. Meanwhile, rules wait for a deleted node as long as forget_after allows", w.since.UTC().Format(time.RFC3339), w.err, fix)
}

// setNode adds, changes or removes a Node. An object without a name is an error.
func (w *nodeWatch) setNode(object json.RawMessage, deleted bool) error {
	var o struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Unschedulable bool `json:"unschedulable"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return fmt.Errorf("read a node: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	nodes := w.nodes
	if w.listed != nil {
		nodes = w.listed
	}
	switch {
	case deleted:
		delete(nodes, o.Metadata.Name)
	case o.Spec.Unschedulable:
		nodes[o.Metadata.Name] = cordoned
	default:
		nodes[o.Metadata.Name] = present
	}
	return nil
}

// Listing keeps the known Nodes until the new list is complete.
func (w *nodeWatch) Listing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = map[string]presence{}
}

func (w *nodeWatch) Changed(object json.RawMessage) error { return w.setNode(object, false) }

func (w *nodeWatch) Deleted(_ context.Context, object json.RawMessage) error {
	return w.setNode(object, true)
}

func (w *nodeWatch) Listed(context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes, w.listed, w.synced = w.listed, nil, true
}

func (w *nodeWatch) Passed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced, w.err = w.nodes != nil && w.listed == nil, nil
}

func (w *nodeWatch) Failed(err error, _ bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced {
		w.since = w.watcher.Clock()
	}
	w.synced, w.err = false, err
}
