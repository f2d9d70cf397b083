// Package fakekube is an API server of Kubernetes for tests, with lists in pages and
// watches of any objects. It uses no network, so it works in a synctest bubble.
package fakekube

import (
	"context"
	"encoding/json"
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

// Object is the JSON of an object.
type Object = map[string]any

// Server holds the objects. It is an http.RoundTripper; all methods are safe for
// concurrent use.
type Server struct {
	// Bookmarks is the interval of bookmarks; 0: the server sends none. It is set before
	// the first request.
	Bookmarks time.Duration

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when anything changes
	version int
	objects map[string]map[string]Object // by path of the list, then by namespace and name
	events  []event
	oldest  int // events up to this version were compacted
	fault   func(r *http.Request) *http.Response
	frozen  bool
	open    map[*watch]bool
	asked   map[string]int
}

type event struct {
	version    int
	kind, path string
	object     Object
}

// watch is an open response.
type watch struct {
	w     *io.PipeWriter
	ended chan struct{} // closed by Cut
}

// New returns a server without objects.
func New() *Server {
	return &Server{
		changed: make(chan struct{}), version: 1, objects: map[string]map[string]Object{}, open: map[*watch]bool{}, asked: map[string]int{},
	}
}

func (s *Server) lock() func() {
	s.mu.Lock()
	return func() {
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
}

func meta(o Object) Object { return o["metadata"].(Object) }

func key(o Object) string {
	namespace, _ := meta(o)["namespace"].(string)
	return namespace + "/" + meta(o)["name"].(string)
}

func (s *Server) record(kind, path string, o Object) {
	s.version++
	o, m := maps.Clone(o), maps.Clone(meta(o))
	m["resourceVersion"] = strconv.Itoa(s.version)
	o["metadata"] = m
	if s.objects[path] == nil {
		s.objects[path] = map[string]Object{}
	}
	if s.objects[path][key(o)] = o; kind == "DELETED" {
		delete(s.objects[path], key(o))
	}
	s.events = append(s.events, event{s.version, kind, path, o})
}

// Put creates or changes an object in the list at a path, such as /api/v1/nodes.
func (s *Server) Put(path string, o Object) {
	defer s.lock()()
	kind := "ADDED"
	if _, ok := s.objects[path][key(o)]; ok {
		kind = "MODIFIED"
	}
	s.record(kind, path, o)
}

// Remove deletes an object.
func (s *Server) Remove(path, namespace, name string) {
	defer s.lock()()
	if o, ok := s.objects[path][namespace+"/"+name]; ok {
		s.record("DELETED", path, o)
	}
}

// Touch changes an object of another kind: the version rises without an event.
func (s *Server) Touch() {
	defer s.lock()()
	s.version++
}

// Expire forgets all events so far: watches from before get 410.
func (s *Server) Expire() {
	defer s.lock()()
	s.version++
	s.oldest, s.events = s.version, nil
}

// Rewind restores an older version, without what happened to objects since.
func (s *Server) Rewind(version int) {
	defer s.lock()()
	s.version, s.oldest = version, 0
	s.events = slices.DeleteFunc(s.events, func(e event) bool { return e.version > version })
}

// Version returns the current version.
func (s *Server) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Break sets a function that may answer instead of the server; nil: none. It may block
// until the request's context ends.
func (s *Server) Break(fault func(r *http.Request) *http.Response) {
	defer s.lock()()
	s.fault = fault
}

// Freeze makes watches send nothing more, but stay open, until it is called with false.
func (s *Server) Freeze(frozen bool) {
	defer s.lock()()
	s.frozen = frozen
}

// Cut breaks all open watches.
func (s *Server) Cut() {
	defer s.lock()()
	for w := range s.open {
		w.w.CloseWithError(io.ErrUnexpectedEOF)
		close(w.ended)
		delete(s.open, w)
	}
}

// Asked returns the number of requests of a kind: "list" (a page), "watch" or "one" (a
// list of one object).
func (s *Server) Asked(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[kind]
}

// Open returns the number of open watches.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Answer returns a response with a code and a message of the API.
func Answer(code int, message string) *http.Response {
	b, _ := json.Marshal(Object{"kind": "Status", "code": code, "message": message})
	return respond(code, io.NopCloser(strings.NewReader(string(b))))
}

// Hang waits until the client gives up.
func Hang(r *http.Request) *http.Response {
	<-r.Context().Done()
	return Answer(http.StatusGatewayTimeout, "too late")
}

func respond(code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: body}
}

// RoundTrip answers a request.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	kind := "list"
	switch {
	case q.Get("watch") != "":
		kind = "watch"
	case q.Get("limit") == "1":
		kind = "one"
	}
	s.mu.Lock()
	s.asked[kind]++
	fault := s.fault
	s.mu.Unlock()
	res := s.answer(r, q, kind, fault)
	if err := r.Context().Err(); err != nil {
		res.Body.Close()
		return nil, err
	}
	res.Request = r
	return res, nil
}

func (s *Server) answer(r *http.Request, q url.Values, kind string, fault func(r *http.Request) *http.Response) *http.Response {
	if fault != nil {
		if res := fault(r); res != nil {
			return res
		}
	}
	if kind == "watch" {
		return s.watch(r, q)
	}
	return s.list(r.URL.Path, q)
}

// list answers a page. An object of a namespaced path is in the list of all namespaces
// only.
func (s *Server) list(path string, q url.Values) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, _ := strconv.Atoi(q.Get("limit"))
	m := Object{"resourceVersion": strconv.Itoa(s.version)}
	items := []Object{}
	for _, k := range slices.Sorted(maps.Keys(s.objects[path])) {
		if k <= q.Get("continue") {
			continue
		}
		if len(items) == limit {
			m["continue"] = key(items[len(items)-1])
			break
		}
		items = append(items, s.objects[path][k])
	}
	b, _ := json.Marshal(Object{"metadata": m, "items": items})
	return respond(http.StatusOK, io.NopCloser(strings.NewReader(string(b))))
}

func (s *Server) watch(r *http.Request, q url.Values) *http.Response {
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	lasts, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	body, w := io.Pipe()
	wt := &watch{w: w, ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(lasts)*time.Second)
	s.mu.Lock()
	s.open[wt] = true
	s.mu.Unlock()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(r.Context().Err()) })
	go func() {
		defer close(done)
		s.send(ctx, wt, r.URL.Path, from)
		s.mu.Lock()
		delete(s.open, wt)
		s.mu.Unlock()
		_ = w.Close()
	}()
	return respond(http.StatusOK, &pipe{body, func() {
		cancel()
		<-done
		stop()
	}})
}

// pipe is a body that waits for its writer when it is closed.
type pipe struct {
	*io.PipeReader
	close func()
}

// Close implements io.Closer.
func (p *pipe) Close() error {
	err := p.PipeReader.Close()
	p.close()
	return err
}

// send writes events until the watch ends.
func (s *Server) send(ctx context.Context, w *watch, path string, from int) {
	out := json.NewEncoder(w.w)
	var mark <-chan time.Time
	if s.Bookmarks > 0 {
		t := time.NewTicker(s.Bookmarks)
		defer t.Stop()
		mark = t.C
	}
	marked := false
	for {
		s.mu.Lock()
		changed, expired := s.changed, from < s.oldest
		var send []event
		if !s.frozen {
			for _, e := range s.events {
				if e.version > from && e.path == path {
					send = append(send, e)
				}
			}
			if marked {
				o := Object{"metadata": Object{"resourceVersion": strconv.Itoa(s.version)}}
				send = append(send, event{s.version, "BOOKMARK", path, o})
			}
			marked = false
		}
		s.mu.Unlock()
		if expired {
			_ = out.Encode(Object{"type": "ERROR", "object": Object{"code": http.StatusGone, "message": "too old resource version"}})
			return
		}
		for _, e := range send {
			from = e.version
			if out.Encode(Object{"type": e.kind, "object": e.object}) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-w.ended:
			return
		case <-mark:
			marked = true
		case <-changed:
		}
	}
}
