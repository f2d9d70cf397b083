package web

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Bounds of what answers cost.
const (
	atOnce      = 2  // answers that are made at the same time
	queued      = 64 // requests that wait for one to be made
	patience    = 5 * time.Second
	maxUnread   = 24 << 20 // bytes of answers that are not read yet
	chunk       = 64 << 10
	chunkTime   = 10 * time.Second // a reader has for a chunk
	graceToRead = time.Second      // before a reader is cut off to make room
)

// gate bounds what the answers of some handlers cost: few are made at once, equal
// requests share one, and of what has been made and is not read only so many bytes
// are kept. The client that reads the slowest is cut off first. Plain requests have
// a slot of their own: there are few different ones, so that they wait for few
// others, whatever else is asked. It is safe for concurrent use.
type gate struct {
	log     *slog.Logger
	slots   chan struct{}
	plain   chan struct{} // the slot of plain requests
	waiting chan struct{}

	mu      sync.Mutex
	flights map[string]*flight
	unread  int
	readers map[*reader]bool
	freed   chan struct{} // closed when bytes become free
}

// flight is one answer, for everybody who asks for the same meanwhile.
type flight struct {
	done chan struct{} // closed when it is made
	answer
	refs int // requests that it is for
	over bool
}

// answer is a recorded answer; code 0 means that there was no room for it.
type answer struct {
	code int
	head http.Header
	body bytes.Buffer
}

// reader is a connection that an answer is written to.
type reader struct {
	control *http.ResponseController
	since   time.Time
	cut     bool
}

func newGate(log *slog.Logger) *gate {
	return &gate{
		log: log, slots: make(chan struct{}, atOnce), plain: make(chan struct{}, 1), waiting: make(chan struct{}, queued),
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

// guarded returns a handler that answers as h does, within the bounds. vary are the
// headers of a request on which the answer depends.
func (g *gate) guarded(h http.HandlerFunc, vary ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		key := keyOf(r, vary)
		f, first := g.join(key)
		defer g.leave(f)
		if first {
			// It is made for all who ask, also when the first one goes away.
			go g.fly(key, f, h, r.Clone(context.WithoutCancel(r.Context())))
		}
		select {
		case <-f.done:
		case <-ctx.Done():
		}
		select {
		case <-f.done:
		default:
			busy(w)
			return
		}
		if f.code == 0 {
			busy(w)
			return
		}
		g.write(w, &f.answer)
	}
}

// isPlain reports whether a request asks for one of the few answers that have a
// fixed address.
func isPlain(r *http.Request) bool {
	return r.URL.RawQuery == "" && !strings.Contains(r.Pattern, "{fingerprint}") && !strings.Contains(r.Pattern, "{name}")
}

// keyOf returns what requests have in common that get the same answer.
func keyOf(r *http.Request, vary []string) string {
	key := r.Method + " " + r.URL.RequestURI()
	if isPlain(r) {
		key = r.Method + " " + r.Pattern // there are many ways to write its path
	}
	for _, name := range vary {
		key += "\n" + r.Header.Get(name)
	}
	return key
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests at once; try again in a second", http.StatusServiceUnavailable)
}

// join returns the answer to a request that is being made, or a new one.
func (g *gate) join(key string) (f *flight, first bool) {
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

// leave gives the bytes of an answer free once nobody reads it any more.
func (g *gate) leave(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.refs--; f.refs == 0 && f.over {
		g.free(f.body.Len())
	}
}

// free gives bytes free. The lock is held.
func (g *gate) free(n int) {
	g.unread -= n
	close(g.freed)
	g.freed = make(chan struct{})
}

// fly makes an answer.
func (g *gate) fly(key string, f *flight, h http.HandlerFunc, r *http.Request) {
	made := g.make(f, h, r)
	g.mu.Lock()
	delete(g.flights, key)
	if !made {
		f.code = 0
		f.body = bytes.Buffer{}
	}
	f.over = true
	if f.refs == 0 {
		g.free(f.body.Len())
	}
	g.mu.Unlock()
	close(f.done)
}

// make makes an answer when there is a place, and finds room for it.
func (g *gate) make(f *flight, h http.HandlerFunc, r *http.Request) bool {
	slots := g.slots
	if isPlain(r) {
		slots = g.plain
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
	case slots <- struct{}{}:
	case <-patient.Done():
		return false
	}
	defer func() { <-slots }()
	g.run(&f.answer, h, r)
	return g.reserve(patient, f.body.Len())
}

// run has a handler make an answer. A panic ends no more than this answer.
func (g *gate) run(a *answer, h http.HandlerFunc, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("make an answer", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			*a = answer{code: http.StatusInternalServerError, head: http.Header{}}
			a.body.WriteString("the answer could not be made; the log of crowsnest says why\n")
		}
	}()
	h(a, r)
}

// reserve waits until so many bytes may be kept. It cuts off those who have been
// reading for long.
func (g *gate) reserve(ctx context.Context, n int) bool {
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

// cutOff ends the connection that has been read from the longest. The lock is
// held.
func (g *gate) cutOff() {
	var slowest *reader
	for r := range g.readers {
		if !r.cut && (slowest == nil || r.since.Before(slowest.since)) {
			slowest = r
		}
	}
	if slowest != nil && time.Since(slowest.since) >= graceToRead {
		slowest.cut = true
		_ = slowest.control.SetWriteDeadline(time.Now()) // else the chunk's own deadline ends it
	}
}

// write writes an answer to a connection that may be read slowly.
func (g *gate) write(w http.ResponseWriter, a *answer) {
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
		if !g.goOn(r) {
			return
		}
		if _, err := w.Write(rest[:n]); err != nil {
			return
		}
		rest = rest[n:]
	}
}

// goOn gives a reader time for a chunk, unless it was cut off.
func (g *gate) goOn(r *reader) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !r.cut {
		_ = r.control.SetWriteDeadline(time.Now().Add(chunkTime)) // a recorder of a test has none
	}
	return !r.cut
}
