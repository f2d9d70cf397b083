package web

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// reloads serves requests for a reload. It runs one reload at a time. Requests that arrive
// during a reload share the next one, which reads the files again. Pauses between reloads keep
// a flood of requests from making the daemon load rules all the time.
type reloads struct {
	run  func(context.Context) error
	turn chan struct{}

	mu   sync.Mutex
	next *reload // reload that has not begun; nil if there is none
}

// reload is one load, shared by all requests that arrived before it began.
type reload struct {
	done chan struct{} // closed once err is set
	err  error
}

func newReloads(run func(context.Context) error) *reloads {
	return &reloads{run: run, turn: make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (r *reloads) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n := r.joinReload(req.Context())
	select {
	case <-n.done:
	case <-req.Context().Done():
		return
	}
	if n.err != nil {
		http.Error(w, n.err.Error(), http.StatusBadRequest)
		return
	}
	writeText(w, http.StatusOK, "reloaded\n")
}

func (r *reloads) joinReload(ctx context.Context) *reload {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &reload{done: make(chan struct{})}
		// Several requests share the reload, so it must outlive the first one.
		go r.runReload(context.WithoutCancel(ctx), r.next)
	}
	return r.next
}

func (r *reloads) runReload(ctx context.Context, n *reload) {
	r.turn <- struct{}{}
	r.mu.Lock()
	r.next = nil
	r.mu.Unlock()
	began := time.Now()
	n.err = r.run(ctx)
	close(n.done)
	time.AfterFunc(min(time.Since(began), maxRest), func() { <-r.turn })
}
