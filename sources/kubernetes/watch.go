package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"crowsnest/kube"
)

// resyncAfter is when all pods are listed again: a watch may miss events, a list does
// not.
const resyncAfter = 20 * time.Minute

// watcher tracks the pods of one namespace, or of all.
type watcher struct {
	kube.Watcher

	s         *Source
	namespace string           // "": all
	listed    map[podName]bool // pods of the list in progress; nil if there is none
}

func newWatchers(s *Source) []*watcher {
	namespaces := s.cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var out []*watcher
	for _, ns := range namespaces {
		w := &watcher{s: s, namespace: ns}
		w.Watcher = kube.Watcher{
			Client: s.client, Path: "/api/v1/pods", Query: url.Values{}, Clock: s.cfg.Clock, Handler: w, Resync: resyncAfter,
		}
		if ns != "" {
			w.Path = "/api/v1/namespaces/" + ns + "/pods"
		}
		if sel := s.cfg.Selector; sel != "" {
			w.Query.Set("labelSelector", sel)
		}
		if sel := s.cfg.FieldSelector; sel != "" {
			w.Query.Set("fieldSelector", sel)
		}
		out = append(out, w)
	}
	return out
}

// selective reports whether a pod may leave the list without being deleted.
func (w *watcher) selective() bool { return len(w.Query) > 0 }

// Listing implements kube.Handler.
func (w *watcher) Listing() { w.listed = map[podName]bool{} }

// Changed implements kube.Handler.
func (w *watcher) Changed(raw json.RawMessage) error {
	p, err := readPod(raw)
	if err == nil {
		if w.listed != nil {
			w.listed[p.id()] = true
		}
		w.s.update(p)
	}
	return err
}

// Listed implements kube.Handler.
func (w *watcher) Listed(ctx context.Context) {
	for _, name := range w.s.unlisted(w.namespace, w.listed) {
		w.left(ctx, name)
	}
	w.listed = nil
	w.s.nudge()
}

// Deleted implements kube.Handler.
func (w *watcher) Deleted(ctx context.Context, raw json.RawMessage) error {
	p, err := readPod(raw)
	if err == nil {
		w.s.update(p) // its last status
		w.left(ctx, p.id())
	}
	return err
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

// what is the key of this watcher's problems.
func (w *watcher) what() string { return keyPods + w.namespace }

// Passed implements kube.Handler.
func (w *watcher) Passed() {
	w.s.gates.open(keyCredentials)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.problems, w.what())
	delete(w.s.problems, keyCredentials)
}

// Failed implements kube.Handler.
func (w *watcher) Failed(err error, lasting bool) {
	w.s.count(reasonOf(err))
	if !lasting {
		return
	}
	key, text := w.what(), fmt.Sprintf("pods cannot be listed: %v", err)
	if code := kube.Code(err); code == http.StatusUnauthorized || code == http.StatusForbidden {
		key, text = refusal(err, key)
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.problems.set(key, "", text)
}
