package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/sources/internal/kube"
)

const (
	// resyncAfter is when all pods are listed again: a watch may miss events, a
	// list does not.
	resyncAfter = 20 * time.Minute

	minWait = 500 * time.Millisecond
	maxWait = 30 * time.Second
)

// watcher tracks the pods of one namespace, or of all.
type watcher struct {
	s         *Source
	namespace string // "": all
	path      string
	query     url.Values

	version string // to watch from; "" : list first
	listed  time.Time
	tries   int // consecutive failures

	// Guarded by s.mu.
	synced    bool // a list has succeeded
	open      bool // the watch is open
	lastEvent time.Time
}

func newWatchers(s *Source) []*watcher {
	namespaces := s.cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var out []*watcher
	for _, ns := range namespaces {
		w := &watcher{s: s, namespace: ns, path: "/api/v1/pods", query: url.Values{}}
		if ns != "" {
			w.path = "/api/v1/namespaces/" + ns + "/pods"
		}
		if sel := s.cfg.Selector; sel != "" {
			w.query.Set("labelSelector", sel)
		}
		if sel := s.cfg.FieldSelector; sel != "" {
			w.query.Set("fieldSelector", sel)
		}
		out = append(out, w)
	}
	return out
}

// selective reports whether a pod may leave the list without being deleted.
func (w *watcher) selective() bool { return len(w.query) > 0 }

// run lists and watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := w.s.cfg.Clock()
		err := w.step(ctx)
		w.setOpen(false)
		if ctx.Err() != nil {
			return
		}
		wait := w.outcome(err)
		if err == nil && w.s.cfg.Clock().Sub(began) < time.Second {
			wait = time.Second // the server ends every watch immediately
		}
		pause.Sleep(ctx, wait, nil)
	}
}

// step lists pods if that is due, then watches once.
func (w *watcher) step(ctx context.Context) error {
	now := w.s.cfg.Clock()
	if w.version == "" || now.Sub(w.listed) >= resyncAfter {
		if err := w.list(ctx); err != nil {
			return err
		}
		w.listed = now
	}
	return w.watch(ctx)
}

func (w *watcher) list(ctx context.Context) error {
	found := map[podName]bool{}
	version, err := w.s.client.List(ctx, w.path, w.query, func(raw json.RawMessage) error {
		p, err := readPod(raw)
		if err == nil {
			found[p.id()] = true
			w.s.update(p)
		}
		return err
	})
	if err != nil {
		return err
	}
	w.version = version
	w.solvedAll()
	for _, name := range w.s.unlisted(w.namespace, found) {
		w.left(ctx, name)
	}
	w.s.mu.Lock()
	w.synced, w.lastEvent = true, w.s.cfg.Clock()
	w.s.mu.Unlock()
	w.s.nudge()
	return nil
}

func (w *watcher) watch(ctx context.Context) error {
	q := maps.Clone(w.query)
	q.Set("resourceVersion", w.version)
	return w.s.client.Watch(ctx, w.path, q, func() { w.setOpen(true); w.solvedAll() }, func(e kube.Event) error {
		return w.event(ctx, e)
	})
}

func (w *watcher) event(ctx context.Context, e kube.Event) error {
	p, err := readPod(e.Object)
	if err != nil {
		return err
	}
	w.version = p.Metadata.Version
	w.s.mu.Lock()
	w.lastEvent = w.s.cfg.Clock()
	w.s.mu.Unlock()
	switch e.Type {
	case "ADDED", "MODIFIED":
		w.s.update(p)
	case "DELETED":
		w.s.update(p) // its last status
		w.left(ctx, p.id())
	}
	return nil
}

func readPod(raw json.RawMessage) (*pod, error) {
	var p pod
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("read a pod: %w", err)
	}
	return &p, nil
}

// left is called for a pod that is no longer listed.
func (w *watcher) left(ctx context.Context, name podName) {
	if w.selective() && !w.deleted(ctx, name) {
		w.s.drop(name)
		return
	}
	w.s.podDeleted(name)
}

// deleted asks the API whether the pod still exists and is only deselected.
func (w *watcher) deleted(ctx context.Context, name podName) bool {
	var p pod
	err := w.s.client.Get(ctx, "/api/v1/namespaces/"+name.namespace+"/pods/"+name.name, nil, &p)
	if err != nil {
		return kube.Code(err) == http.StatusNotFound
	}
	return p.Metadata.UID != name.uid
}

func (w *watcher) setOpen(open bool) {
	w.s.mu.Lock()
	w.open = open
	w.s.mu.Unlock()
}

// what is the key of this watcher's problems.
func (w *watcher) what() string { return "pods of " + w.namespace }

func (w *watcher) solvedAll() {
	w.tries = 0
	w.s.gates.passed(keyCredentials)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.problems, w.what())
	delete(w.s.problems, keyCredentials)
}

// outcome records how a step ended, and returns how long to wait.
func (w *watcher) outcome(err error) time.Duration {
	if err == nil {
		return 0
	}
	w.tries++
	reason := reasonOf(err)
	w.s.count(reason)
	wait := min(minWait<<min(w.tries-1, 10), maxWait)
	key, text := w.what(), fmt.Sprintf("pods cannot be listed: %v", err)
	switch code := kube.Code(err); {
	case kube.Expired(err):
		w.version = ""
		return jitter(time.Second)
	case code == http.StatusUnauthorized && w.tries == 1:
		return minWait // the credentials are read again
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		key, text = refusal(err, key)
		wait = slowRetry
	case code == http.StatusTooManyRequests:
		wait = max(wait, kube.RetryAfter(err))
	}
	w.s.mu.Lock()
	synced := w.synced
	if !synced || w.tries > 1 || wait == slowRetry {
		w.s.problems.set(key, "", text)
	}
	w.s.mu.Unlock()
	return jitter(wait)
}
