package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fakeAPI is an API server for tests: it has pods with watches, and logs that behave
// like those of kubelets. It uses no network, so it works in a synctest bubble.
type fakeAPI struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when anything changes
	version int
	pods    map[string]fakePod
	events  []fakeEvent // all so far
	expired int         // watches from before this version are refused
	logs    map[string]*fakeLog
	fault   func(r *http.Request) *fakeAnswer
	asked   []string // "list", "watch", "log NS/POD/CONTAINER", with " previous"
	queries []url.Values
	cuts    map[*pipeWriter]string // open responses, by request
	frozen  map[*pipeWriter]bool
}

// fakeAnswer replaces the response of the server.
type fakeAnswer struct {
	code   int
	body   string
	header map[string]string
}

type fakeEvent struct {
	version int
	kind    string
	pod     fakePod
}

// fakePod is the pod of a test.
type fakePod struct {
	ns, name, uid, node string
	labels              map[string]string
	owner               owner
	containers          []fakeContainer
	version             int
}

type fakeContainer struct {
	kind     string // "", "init" or "ephemeral"
	name     string
	image    string
	id       string
	restarts int
	phase    phase
	started  time.Time
	finished time.Time
	before   time.Time
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{
		changed: make(chan struct{}), version: 1, pods: map[string]fakePod{}, logs: map[string]*fakeLog{},
		cuts: map[*pipeWriter]string{}, frozen: map[*pipeWriter]bool{},
	}
}

func (f *fakeAPI) lock() func() {
	f.mu.Lock()
	return func() {
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
	}
}

// put creates or changes a pod.
func (f *fakeAPI) put(p fakePod) {
	defer f.lock()()
	key, kind := p.ns+"/"+p.name, "ADDED"
	if p.uid == "" {
		p.uid = "uid-" + p.name
	}
	if _, ok := f.pods[key]; ok {
		kind = "MODIFIED"
	}
	f.version++
	p.version = f.version
	p.containers = slices.Clone(p.containers)
	f.pods[key] = p
	f.events = append(f.events, fakeEvent{f.version, kind, p})
}

// remove deletes a pod.
func (f *fakeAPI) remove(ns, name string) {
	defer f.lock()()
	p := f.pods[ns+"/"+name]
	delete(f.pods, ns+"/"+name)
	for _, c := range p.containers {
		delete(f.logs, ns+"/"+name+"/"+c.name)
	}
	f.version++
	p.version = f.version
	f.events = append(f.events, fakeEvent{f.version, "DELETED", p})
}

// set changes the single container of a pod.
func (f *fakeAPI) set(ns, name string, change func(c *fakeContainer)) {
	f.mu.Lock()
	p := f.pods[ns+"/"+name]
	f.mu.Unlock()
	p.containers = slices.Clone(p.containers)
	change(&p.containers[0])
	f.put(p)
}

// expire ends all watches with 410, and rejects new ones of old versions.
func (f *fakeAPI) expire() {
	defer f.lock()()
	f.version++
	f.expired = f.version
}

// breaks sets a function that responds instead of the server; nil: none.
func (f *fakeAPI) breaks(fault func(r *http.Request) *fakeAnswer) {
	defer f.lock()()
	f.fault = fault
}

// cut ends the responses to paths with a prefix; clean ends them like the server
// does.
func (f *fakeAPI) cut(what string, clean bool) (n int) {
	defer f.lock()()
	for w, asked := range f.cuts {
		if strings.HasPrefix(asked, what) {
			n++
			var err error
			if !clean {
				err = io.ErrUnexpectedEOF
			}
			w.w.CloseWithError(err)
			w.aborted <- err
		}
	}
	return n
}

// freeze keeps the responses to paths with a prefix open without sending more.
func (f *fakeAPI) freeze(what string) {
	defer f.lock()()
	for w, asked := range f.cuts {
		if strings.HasPrefix(asked, what) {
			f.frozen[w] = true
		}
	}
}

// count returns the number of requests for paths with a prefix.
func (f *fakeAPI) count(what string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if strings.HasPrefix(a, what) {
			n++
		}
	}
	return n
}

// open returns the number of open responses to paths with a prefix.
func (f *fakeAPI) open(what string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.cuts {
		if strings.HasPrefix(a, what) {
			n++
		}
	}
	return n
}

// log returns the log of a container. It creates a missing one.
func (f *fakeAPI) log(ns, pod, container string) *fakeLog {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := ns + "/" + pod + "/" + container
	if f.logs[key] == nil {
		f.logs[key] = &fakeLog{api: f, instances: []*fakeInstance{{}}}
	}
	return f.logs[key]
}

// fakeLog is the log of one container, by instances.
type fakeLog struct {
	api       *fakeAPI
	instances []*fakeInstance
}

type fakeInstance struct {
	lines []fakeLine
	ended bool
	open  string // text after the last line, without its end
}

type fakeLine struct {
	at   time.Time
	text string
}

func (l *fakeLog) newest() *fakeInstance { return l.instances[len(l.instances)-1] }

func (l *fakeLog) write(at time.Time, texts ...string) {
	defer l.api.lock()()
	for _, text := range texts {
		l.newest().lines = append(l.newest().lines, fakeLine{at, text})
	}
}

func (l *fakeLog) exit() {
	defer l.api.lock()()
	l.newest().ended = true
}

func (l *fakeLog) restart() {
	defer l.api.lock()()
	l.newest().ended = true
	l.instances = append(l.instances, &fakeInstance{})
}

// RoundTrip blocks until there is something to answer, as the API does.
func (f *fakeAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r, w := io.Pipe()
	pw := &pipeWriter{w: w, header: http.Header{}, ready: make(chan struct{}), aborted: make(chan error, 100)}
	done := make(chan struct{})
	context.AfterFunc(ctx, func() { w.CloseWithError(context.Canceled) })
	go func() {
		defer close(done)
		f.serve(pw, req.WithContext(ctx))
		pw.WriteHeader(http.StatusOK)
		w.Close()
		f.mu.Lock()
		delete(f.cuts, pw)
		f.mu.Unlock()
	}()
	select {
	case <-pw.ready:
	case <-ctx.Done():
		cancel()
		<-done
		return nil, ctx.Err()
	case err := <-pw.aborted:
		cancel()
		<-done
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req, Body: http.NoBody}, nil
	}
	return &http.Response{
		StatusCode: pw.code, Header: pw.header, Request: req,
		Body: &pipeBody{PipeReader: r, close: func() { cancel(); <-done }},
	}, nil
}

type pipeBody struct {
	*io.PipeReader
	close func()
}

func (b *pipeBody) Close() error {
	b.PipeReader.Close()
	b.close()
	return nil
}

type pipeWriter struct {
	w      *io.PipeWriter
	header http.Header
	code   int
	ready  chan struct{}
	// aborted ends a response that has no header yet.
	aborted chan error
}

func (p *pipeWriter) Header() http.Header { return p.header }

func (p *pipeWriter) WriteHeader(code int) {
	if p.code == 0 {
		p.code = code
		close(p.ready)
	}
}

func (p *pipeWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.w.Write(b)
}

func (f *fakeAPI) serve(w *pipeWriter, r *http.Request) {
	q := r.URL.Query()
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	what := "list"
	switch {
	case path[len(path)-1] == "log":
		what = "log " + path[3] + "/" + path[5] + "/" + q.Get("container")
		if q.Get("previous") == "true" {
			what += " previous"
		}
	case q.Get("watch") != "":
		what = "watch"
	case path[len(path)-1] != "pods":
		what = "get"
	}
	f.mu.Lock()
	f.asked, f.queries = append(f.asked, what), append(f.queries, q)
	f.cuts[w] = what
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if a := fault(r); a != nil {
			for k, v := range a.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(a.code)
			io.WriteString(w, a.body)
			return
		}
	}
	switch {
	case strings.HasPrefix(what, "log"):
		f.serveLog(w, r, path, q)
	case what == "watch":
		f.serveWatch(w, r, q)
	case what == "get":
		f.serveGet(w, path)
	default:
		f.serveList(w, path, q)
	}
}

func refuse(w *pipeWriter, code int, reason, message string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "code": code, "reason": reason, "message": message})
}

func (f *fakeAPI) serveGet(w *pipeWriter, path []string) {
	f.mu.Lock()
	p, ok := f.pods[path[3]+"/"+path[5]]
	f.mu.Unlock()
	if !ok {
		refuse(w, 404, "NotFound", "pods \""+path[5]+"\" not found")
		return
	}
	json.NewEncoder(w).Encode(p.json())
}

func (f *fakeAPI) serveList(w *pipeWriter, path []string, q url.Values) {
	f.mu.Lock()
	keys := slices.Sorted(maps.Keys(f.pods))
	limit, _ := strconv.Atoi(q.Get("limit"))
	var items []any
	meta := map[string]any{"resourceVersion": strconv.Itoa(f.version)}
	for _, key := range keys {
		p := f.pods[key]
		if key <= q.Get("continue") || len(path) > 3 && path[3] != p.ns || !p.selected(q) {
			continue
		}
		if limit > 0 && len(items) == limit {
			meta["continue"] = items[len(items)-1].(map[string]any)["metadata"].(map[string]any)["key"]
			break
		}
		o := p.json()
		o["metadata"].(map[string]any)["key"] = key
		items = append(items, o)
	}
	f.mu.Unlock()
	json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "metadata": meta, "items": items})
}

// selected parses selectors of the form name=value.
func (p fakePod) selected(q url.Values) bool {
	name, value, ok := strings.Cut(q.Get("labelSelector"), "=")
	return !ok || p.labels[name] == value
}

func (f *fakeAPI) serveWatch(w *pipeWriter, r *http.Request, q url.Values) {
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	lasts, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	end := time.NewTimer(time.Duration(lasts) * time.Second)
	defer end.Stop()
	mark := time.NewTicker(time.Minute)
	defer mark.Stop()
	w.WriteHeader(http.StatusOK)
	enc := json.NewEncoder(w)
	for {
		f.mu.Lock()
		changed, expired := f.changed, from < f.expired
		var send []fakeEvent
		if !f.frozen[w] {
			for _, e := range f.events {
				if e.version > from {
					send = append(send, e)
					from = e.version
				}
			}
		}
		f.mu.Unlock()
		if expired {
			enc.Encode(map[string]any{"type": "ERROR", "object": map[string]any{"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}})
			return
		}
		for _, e := range send {
			kind := e.kind
			if !e.pod.selected(q) {
				kind = "DELETED"
			}
			if enc.Encode(map[string]any{"type": kind, "object": e.pod.json()}) != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-mark.C:
			o := map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(from)}}
			if enc.Encode(map[string]any{"type": "BOOKMARK", "object": o}) != nil {
				return
			}
		case <-changed:
		}
	}
}

// instance finds the requested instance.
func (f *fakeAPI) instance(key string, previous bool) *fakeInstance {
	l := f.logs[key]
	switch {
	case l == nil:
		return nil
	case !previous:
		return l.newest()
	case len(l.instances) > 1:
		return l.instances[len(l.instances)-2]
	}
	return nil
}

func (f *fakeAPI) serveLog(w *pipeWriter, r *http.Request, path []string, q url.Values) {
	f.mu.Lock()
	_, there := f.pods[path[3]+"/"+path[5]]
	in := f.instance(path[3]+"/"+path[5]+"/"+q.Get("container"), q.Get("previous") == "true")
	f.mu.Unlock()
	if !there {
		refuse(w, 404, "NotFound", "pods \""+path[5]+"\" not found")
		return
	}
	if in == nil {
		refuse(w, 400, "BadRequest", "the server rejected our request for an unknown reason (get pods "+path[5]+")")
		return
	}
	since, _ := time.Parse(time.RFC3339, q.Get("sinceTime"))
	seen := 0
	for {
		f.mu.Lock()
		changed, frozen := f.changed, f.frozen[w]
		if len(in.lines) < seen {
			seen = 0 // rotated
		}
		news := slices.Clone(in.lines[seen:])
		ended, open := in.ended, in.open
		if frozen {
			news = nil
		}
		seen += len(news)
		f.mu.Unlock()
		for _, line := range news {
			if line.at.Before(since) {
				continue
			}
			if _, err := fmt.Fprintf(w, "%s %s\n", line.at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00"), line.text); err != nil {
				return
			}
		}
		if ended && !frozen || q.Get("follow") != "true" {
			io.WriteString(w, open)
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

func (p fakePod) json() map[string]any {
	meta := map[string]any{"name": p.name, "namespace": p.ns, "uid": p.uid, "labels": p.labels, "resourceVersion": strconv.Itoa(p.version)}
	if p.owner.Kind != "" {
		meta["ownerReferences"] = []any{map[string]any{"kind": p.owner.Kind, "name": p.owner.Name, "controller": true}}
	}
	spec, status := map[string]any{"nodeName": p.node}, map[string]any{}
	for _, kind := range []string{"", "init", "ephemeral"} {
		var specs, statuses []any
		for _, c := range p.containers {
			if c.kind == kind {
				specs = append(specs, map[string]any{"name": c.name, "image": c.image})
				statuses = append(statuses, c.json())
			}
		}
		prefix := map[string]string{"": "container", "init": "initContainer", "ephemeral": "ephemeralContainer"}[kind]
		spec[prefix+"s"], status[prefix+"Statuses"] = specs, statuses
	}
	return map[string]any{"metadata": meta, "spec": spec, "status": status}
}

func (c fakeContainer) json() map[string]any {
	stamp := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	st := map[string]any{"waiting": map[string]any{"reason": "ContainerCreating"}}
	switch c.phase {
	case running:
		st = map[string]any{"running": map[string]any{"startedAt": stamp(c.started)}}
	case ended:
		st = map[string]any{"terminated": map[string]any{"startedAt": stamp(c.started), "finishedAt": stamp(c.finished), "containerID": c.id}}
	}
	out := map[string]any{"name": c.name, "image": c.image, "containerID": c.id, "restartCount": c.restarts, "state": st}
	if !c.before.IsZero() {
		out["lastState"] = map[string]any{"terminated": map[string]any{"finishedAt": stamp(c.before), "containerID": "old"}}
	}
	return out
}
