package web

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Bounds on the cost of responses.
const (
	maxQueued   = 64 // number of requests that wait to be rendered
	maxRest     = 250 * time.Millisecond
	patience    = 5 * time.Second
	maxUnread   = 24 << 20 // bytes of responses that clients have not read yet
	chunk       = 64 << 10
	chunkTime   = 10 * time.Second // time within which a client must read a chunk
	graceToRead = time.Second      // time before a slow client may be disconnected
)

// gate bounds the cost of responses. It renders few at the same time, shares one response
// between equal concurrent requests, and bounds the bytes of rendered responses that clients
// have not read. Beyond that it disconnects the slowest client. Plain requests have a slot of
// their own, because few distinct ones exist, so they never queue behind the others. The others
// share one slot, and while they queue, it rests after each of them for as long as that took,
// so that a flood of them leaves the CPU to alerts and to plain requests. It is safe for
// concurrent use.
type gate struct {
	log     zerolog.Logger
	plain   chan struct{} // slot for plain requests
	other   chan struct{} // slot for all other requests
	waiting chan struct{} // other requests that wait for the slot or have it

	mu      sync.Mutex
	flights map[string]*flight
	unread  int
	readers map[*reader]bool
	freed   chan struct{} // closed when unread decreases
}

// flight is one response that all requests with the same key share.
type flight struct {
	done chan struct{} // closed when it is rendered
	answer
	refs int // number of requests that share it
	over bool
}

// answer is a recorded response. Code 0 means that the gate refused the request.
type answer struct {
	code int
	head http.Header
	body bytes.Buffer
}

// reader is a connection to which a response is being written.
type reader struct {
	control *http.ResponseController
	since   time.Time
	cut     bool
}

func newGate(log zerolog.Logger) *gate {
	return &gate{
		log: log, plain: make(chan struct{}, 1), other: make(chan struct{}, 1), waiting: make(chan struct{}, maxQueued),
		flights: map[string]*flight{}, readers: map[*reader]bool{}, freed: make(chan struct{}),
	}
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.head }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// guardHandler wraps h with the bounds of the gate, and compresses its responses for clients that
// accept that. vary names the request headers on which the response depends.
func (g *gate) guardHandler(h http.HandlerFunc, vary ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		key := requestKey(r, vary)
		f, first := g.joinFlight(key)
		defer g.leaveFlight(f)
		if first {
			// Other requests share the response, so it must not end with the first request.
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
		if answerUnchanged(w, r, &f.answer) {
			return
		}
		g.writeAnswer(w, &f.answer)
	}
}

// isPlain reports whether the URL of a request has neither a query nor variable
// parts.
func isPlain(r *http.Request) bool {
	return r.URL.RawQuery == "" && !strings.Contains(r.Pattern, "{fingerprint}") && !strings.Contains(r.Pattern, "{name}")
}

// requestKey returns the key of a request; requests with equal keys share a response.
func requestKey(r *http.Request, vary []string) string {
	key := r.Method + " " + r.URL.RequestURI()
	if isPlain(r) {
		key = r.Method + " " + r.Pattern // its path can be encoded in many ways
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
		f = &flight{done: make(chan struct{}), answer: answer{head: http.Header{}}}
		g.flights[key] = f
	}
	f.refs++
	return f, first
}

// leaveFlight frees the bytes of a response after its last reader.
func (g *gate) leaveFlight(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.refs--; f.refs == 0 && f.over {
		g.freeBytes(f.body.Len())
	}
}

// freeBytes subtracts n from the unread bytes. The caller must hold the lock.
func (g *gate) freeBytes(n int) {
	g.unread -= n
	close(g.freed)
	g.freed = make(chan struct{})
}

// runFlight renders the response of a flight and publishes it.
func (g *gate) runFlight(key string, f *flight, h http.HandlerFunc, r *http.Request) {
	ok := g.render(f, h, r)
	g.mu.Lock()
	delete(g.flights, key)
	if !ok {
		f.code = 0
		f.body = bytes.Buffer{}
	}
	f.over = true
	if f.refs == 0 {
		g.freeBytes(f.body.Len())
	}
	g.mu.Unlock()
	close(f.done)
}

// render waits for a slot, runs the handler and reserves the bytes of its
// response. It reports whether all of these succeeded.
func (g *gate) render(f *flight, h http.HandlerFunc, r *http.Request) bool {
	slot := g.other
	if isPlain(r) {
		slot = g.plain
	} else {
		select {
		case g.waiting <- struct{}{}:
		default:
			return false
		}
		defer func() { <-g.waiting }()
	}
	patient, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	select {
	case slot <- struct{}{}:
	case <-patient.Done():
		return false
	}
	began := time.Now()
	g.callHandler(&f.answer, h, r)
	took := time.Since(began)
	ok := g.reserveBytes(patient, f.body.Len())
	if slot == g.other && len(g.waiting) > 1 {
		time.AfterFunc(min(took, maxRest), func() { <-slot })
	} else {
		<-slot
	}
	return ok
}

// callHandler calls the handler. A panic turns into an error response.
func (g *gate) callHandler(a *answer, h http.HandlerFunc, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error().Str("path", r.URL.Path).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("handler panicked")
			*a = answer{code: http.StatusInternalServerError, head: http.Header{}}
			a.body.WriteString("internal error; see the log of crowsnest\n")
		}
	}()
	h(a, r)
	addEntityTag(a)
	compressAnswer(a, r)
}

// reserveBytes waits until n more unread bytes are allowed, disconnecting slow clients
// meanwhile. It reports false if ctx ends first.
func (g *gate) reserveBytes(ctx context.Context, n int) bool {
	for {
		g.mu.Lock()
		if g.unread == 0 || g.unread+n <= maxUnread {
			g.unread += n
			g.mu.Unlock()
			return true
		}
		g.cutOff()
		freed := g.freed
		g.mu.Unlock()
		again := time.NewTimer(graceToRead)
		select {
		case <-freed:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// cutOff disconnects the client that has been reading longest, after its grace period. The
// caller must hold the lock.
func (g *gate) cutOff() {
	var slowest *reader
	for r := range g.readers {
		if !r.cut && (slowest == nil || r.since.Before(slowest.since)) {
			slowest = r
		}
	}
	if slowest != nil && time.Since(slowest.since) >= graceToRead {
		slowest.cut = true
		_ = slowest.control.SetWriteDeadline(time.Now()) // if this fails, the deadline of the chunk ends it
	}
}

// writeAnswer sends a response in chunks, each with its own deadline.
func (g *gate) writeAnswer(w http.ResponseWriter, a *answer) {
	r := &reader{control: http.NewResponseController(w), since: time.Now()}
	g.mu.Lock()
	g.readers[r] = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.readers, r)
	}()
	maps.Copy(w.Header(), a.head)
	w.WriteHeader(a.code)
	for rest := a.body.Bytes(); len(rest) > 0; {
		n := min(len(rest), chunk)
		if !g.extendDeadline(r) {
			return
		}
		if _, err := w.Write(rest[:n]); err != nil {
			return
		}
		rest = rest[n:]
	}
}

// extendDeadline sets the deadline for the next chunk. It reports false if the client was
// cut off.
func (g *gate) extendDeadline(r *reader) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.cut {
		_ = r.control.SetWriteDeadline(time.Now().Add(chunkTime)) // httptest.ResponseRecorder does not support it
	}
	return !r.cut
}
