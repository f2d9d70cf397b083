package web

import (
	"context"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/internal/pause"
)

// Limits for the cost of responses.
const (
	maxQueued    = 64 // maximum number of requests that wait to be rendered
	maxRest      = 250 * time.Millisecond
	patience     = 5 * time.Second
	maxUnread    = 24 << 20 // maximum size in bytes of the rendered responses that clients have not read yet
	reserveEvery = 50 * time.Millisecond
	chunk        = 64 << 10
	chunkTime    = 10 * time.Second // time limit for a client to read each chunk of a response
	graceToRead  = time.Second      // minimum time before a slow client may be disconnected
)

// gate limits the cost of responses. It renders few responses at the same time, shares one response between equal
// concurrent requests, and limits the bytes of rendered responses that clients have not read. When that limit is
// reached, it disconnects the slowest client.
//
// Requests without parameters, which are called plain, have their own slot, because there are few different ones. All
// other requests share one slot. While other requests wait for it, the slot pauses after each request for as long as
// the request took. So a flood of requests leaves CPU time to alerts and to plain requests. A gate is safe for
// concurrent use.
type gate struct {
	log     zerolog.Logger
	plain   chan struct{} // slot for plain requests
	other   chan struct{} // slot for all other requests
	waiting chan struct{} // all other requests that have the slot or wait for it

	mu      sync.Mutex
	flights map[string]*flight
	unread  int              // size in bytes of the rendered responses that are still in use
	readers map[*reader]bool // connections to which a response is being written and that were not disconnected
}

// flight is one response, which all concurrent requests with the same key share.
type flight struct {
	done chan struct{} // closed when the response is rendered
	answer
	refs int // number of requests that share the response, plus one while it is being rendered
}

// reader is a connection to which a response is being written.
type reader struct {
	control *http.ResponseController
	since   time.Time
}

func newGate(log zerolog.Logger) *gate {
	return &gate{
		log: log, plain: make(chan struct{}, 1), other: make(chan struct{}, 1), waiting: make(chan struct{}, maxQueued),
		flights: map[string]*flight{}, readers: map[*reader]bool{},
	}
}

// guardHandler wraps h with the limits of the gate, and compresses responses for clients that accept compression. vary
// contains the names of the request headers on which the response depends.
func (g *gate) guardHandler(h http.HandlerFunc, vary ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		key := requestKey(r, vary)
		f, first := g.joinFlight(key)
		defer g.leaveFlight(f)
		if first {
			// Several requests may share the response, so the end of the first request must not cancel it.
			go g.runFlight(key, f, h, r.Clone(context.WithoutCancel(r.Context())))
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			serveBusy(w)
			return
		}
		if f.code == 0 {
			serveBusy(w)
			return
		}
		if etag := f.head.Get("ETag"); etag != "" && etag == r.Header.Get("If-None-Match") {
			w.Header().Set("ETag", etag)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		g.writeAnswer(w, &f.answer)
	}
}

// isPlain reports whether the URL of a request has neither a query nor path parameters.
func isPlain(r *http.Request) bool {
	return r.URL.RawQuery == "" && !strings.Contains(r.Pattern, "{fingerprint}") && !strings.Contains(r.Pattern, "{name}")
}

// requestKey returns the key of a request. Requests with equal keys share a response.
func requestKey(r *http.Request, vary []string) string {
	key := r.Method + " " + r.URL.RequestURI()
	if isPlain(r) {
		key = r.Method + " " + r.Pattern // the pattern is used, because equal paths can be encoded in many ways
	}
	if acceptsGzip(r) {
		key += "\ngzip"
	}
	for _, name := range vary {
		key += "\n" + r.Header.Get(name)
	}
	return key
}

func serveBusy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests at once; try again in a second", http.StatusServiceUnavailable)
}

// joinFlight returns the flight for a key, and whether this call created it.
func (g *gate) joinFlight(key string) (f *flight, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f = g.flights[key]; f == nil {
		first = true
		f = &flight{done: make(chan struct{}), answer: answer{head: http.Header{}}, refs: 1}
		g.flights[key] = f
	}
	f.refs++
	return f, first
}

// leaveFlight frees the bytes of a response after its last use.
func (g *gate) leaveFlight(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.refs--; f.refs == 0 {
		g.unread -= f.body.Len()
	}
}

func (g *gate) runFlight(key string, f *flight, h http.HandlerFunc, r *http.Request) {
	defer g.leaveFlight(f)
	g.render(&f.answer, h, r)
	g.mu.Lock()
	delete(g.flights, key)
	g.mu.Unlock()
	close(f.done)
}

// render waits for a slot, runs the handler and reserves the bytes of its response. If that takes too long, a becomes
// the zero value.
func (g *gate) render(a *answer, h http.HandlerFunc, r *http.Request) {
	slot := g.other
	if isPlain(r) {
		slot = g.plain
	} else {
		select {
		case g.waiting <- struct{}{}:
		default:
			return
		}
		defer func() { <-g.waiting }()
	}
	patient, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	select {
	case slot <- struct{}{}:
	case <-patient.Done():
		return
	}
	began := time.Now()
	g.callHandler(a, h, r)
	took := time.Since(began)
	for !g.reserveBytes(a.body.Len()) {
		if !pause.Sleep(patient, reserveEvery, nil) {
			*a = answer{}
			break
		}
	}
	if slot == g.other && len(g.waiting) > 1 {
		time.AfterFunc(min(took, maxRest), func() { <-slot })
	} else {
		<-slot
	}
}

// callHandler calls the handler. If the handler panics, the response is an error.
func (g *gate) callHandler(a *answer, h http.HandlerFunc, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error().Str("path", r.URL.Path).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("handler panicked")
			*a = answer{code: http.StatusInternalServerError, head: http.Header{}}
			a.body.WriteString("internal error; see the log of crowsnest\n")
		}
	}()
	h(a, r)
	a.addEntityTag()
	a.compressFor(r)
}

// reserveBytes reserves n bytes for an unread response and reports whether the limit allows them. If not, it
// disconnects the client that has been reading for the longest time, unless the time is shorter than graceToRead.
func (g *gate) reserveBytes(n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unread == 0 || g.unread+n <= maxUnread {
		g.unread += n
		return true
	}
	var slowest *reader
	for r := range g.readers {
		if slowest == nil || r.since.Before(slowest.since) {
			slowest = r
		}
	}
	if slowest != nil && time.Since(slowest.since) >= graceToRead {
		delete(g.readers, slowest)
		_ = slowest.control.SetWriteDeadline(time.Now()) // if setting it fails, the client keeps its original deadline
	}
	return false
}

// writeAnswer sends a response. The client has more time to read a larger response.
func (g *gate) writeAnswer(w http.ResponseWriter, a *answer) {
	r := &reader{control: http.NewResponseController(w), since: time.Now()}
	g.mu.Lock()
	g.readers[r] = true
	limit := chunkTime * time.Duration(1+a.body.Len()/chunk)
	_ = r.control.SetWriteDeadline(r.since.Add(limit)) // httptest.ResponseRecorder does not support deadlines
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.readers, r)
	}()
	maps.Copy(w.Header(), a.head)
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body.Bytes()) // the client may have disconnected
}
