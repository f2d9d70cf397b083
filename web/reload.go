package web

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"
)

// reloads runs one reload at a time. Requests that arrive during a reload share the next reload, which reads the files
// again. After each reload there is a pause, so that a flood of requests cannot load rules all the time.
type reloads struct {
	run  func(context.Context) error
	turn chan struct{}
	next singleflight.Group // next reload, which has not begun yet
}

func newReloads(run func(context.Context) error) *reloads {
	return &reloads{run: run, turn: make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (r *reloads) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx := context.WithoutCancel(req.Context()) // several requests share the reload, so the end of the first request must not cancel it
	done := r.next.DoChan("", func() (any, error) {
		r.turn <- struct{}{}
		r.next.Forget("")
		began := time.Now()
		defer func() { time.AfterFunc(min(time.Since(began), maxRest), func() { <-r.turn }) }()
		return nil, r.run(ctx)
	})
	select {
	case out := <-done:
		if out.Err != nil {
			http.Error(w, out.Err.Error(), http.StatusBadRequest)
			return
		}
		writeText(w, http.StatusOK, "reloaded\n")
	case <-req.Context().Done():
	}
}
