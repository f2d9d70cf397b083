package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"crowsnest/internal/kube"
)

// resyncAfter is the interval at which all pods are listed, because a watch may miss events.
const resyncAfter = 20 * time.Minute

// watcher tracks the pods of one namespace or of all namespaces. It is a kube.Handler.
type watcher struct {
	kube.Watcher

	s         *Source
	namespace string           // namespace to watch; "" means all
	listed    map[podName]bool // pods in the list in progress; nil if no list is in progress
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

func (w *watcher) Listing() { w.listed = map[podName]bool{} }

func (w *watcher) Changed(raw json.RawMessage) error {
	p, err := readPod(raw)
	if err == nil {
		if w.listed != nil {
			w.listed[p.name()] = true
		}
		w.s.updatePod(p)
	}
	return err
}

func (w *watcher) Listed(ctx context.Context) {
	for _, name := range w.s.unlistedPods(w.namespace, w.listed) {
		w.podUnlisted(ctx, name)
	}
	w.listed = nil
	w.s.wakeUp()
}

func (w *watcher) Deleted(ctx context.Context, raw json.RawMessage) error {
	p, err := readPod(raw)
	if err == nil {
		w.s.updatePod(p) // the event contains the last status of the pod
		w.podUnlisted(ctx, p.name())
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

func (w *watcher) podUnlisted(ctx context.Context, name podName) {
	// With a selector, a pod may disappear from the list because it is no longer selected.
	w.s.podGone(name, len(w.Query) == 0 || w.isDeleted(ctx, name))
}

func (w *watcher) isDeleted(ctx context.Context, name podName) bool {
	var p pod
	err := w.s.client.Get(ctx, "/api/v1/namespaces/"+name.namespace+"/pods/"+name.name, nil, &p)
	if err != nil {
		return kube.StatusCode(err) == http.StatusNotFound
	}
	return p.Metadata.UID != name.uid
}

func (w *watcher) problemKey() string { return keyPods + w.namespace }

func (w *watcher) Passed() {
	w.s.gates.open(keyCredentials)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.problems, w.problemKey())
	delete(w.s.problems, keyCredentials)
}

func (w *watcher) Failed(err error, lasting bool) {
	w.s.countError(errorReason(err))
	if !lasting {
		return
	}
	key, text := w.problemKey(), fmt.Sprintf("pods cannot be listed: %v", err)
	if code := kube.StatusCode(err); code == http.StatusUnauthorized || code == http.StatusForbidden {
		key, text = describeRefusal(err, key)
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.problems.set(key, "", text)
}
