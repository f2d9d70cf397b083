package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/internal/httpserve"
	"crowsnest/internal/pause"
	"crowsnest/sources"
)

// Limits of the listener.
const (
	bodyTimeout   = 2 * time.Second // longest wait of a message for memory
	maintainEvery = time.Second
	listenRetry   = time.Second
)

// Reasons why messages are refused, as they appear in metrics.
const (
	refusedAuth      = "auth"
	refusedConflict  = "conflict"  // another agent uses the name of the node
	refusedMalformed = "malformed" // the message cannot be decoded
	refusedSize      = "too_large" // the message is too large, or its size is unknown
	refusedCount     = "too_many_agents"
	refusedBusy      = "busy"        // there is currently no memory for the message
	refusedReview    = "unavailable" // the API server cannot authenticate the agent
	refusedAdmin     = "admin"       // the caller may not remove a node
)

func refusalReasons() []string {
	return []string{refusedAuth, refusedConflict, refusedMalformed, refusedSize, refusedCount, refusedBusy, refusedReview, refusedAdmin}
}

// UnknownNodeReasons returns the reasons of refusals that do not concern a known node.
func UnknownNodeReasons() []string {
	return []string{refusedAuth, refusedReview, refusedCount, refusedMalformed}
}

// refusal is the reason why a request is refused, with the HTTP status of the response.
type refusal struct {
	code   int
	reason string
	err    error
}

type handler struct {
	s *Source
	p sources.Pipeline
}

// Run listens until ctx ends, and then completes the messages that are being handled. If it
// cannot listen, it reports that in Status and tries again. It returns nil.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	h := &handler{s: s, p: p}
	var wg sync.WaitGroup
	wg.Go(func() { h.maintain(ctx) })
	if s.watch != nil {
		wg.Go(func() { s.watch.run(ctx) })
	}
	for ctx.Err() == nil {
		err := s.serveUntil(ctx, p)
		s.withLock(func() {
			if s.listening = false; err != nil {
				s.listenError = err.Error()
			}
		})
		if err != nil {
			pause.Sleep(ctx, listenRetry, nil)
		}
	}
	wg.Wait()
	if s.reviews != nil {
		s.reviews.client.Close()
	}
	return nil
}

// StandBy listens until ctx ends, and responds to every message that another process leads.
func (s *Source) StandBy(ctx context.Context) {
	for ctx.Err() == nil {
		if s.serveUntil(ctx, nil) != nil {
			pause.Sleep(ctx, listenRetry, nil)
		}
	}
	s.withLock(func() { s.listening, s.opened = false, false })
}

func (s *Source) serveUntil(ctx context.Context, p sources.Pipeline) error {
	e := httpserve.Endpoint{
		Section: "sources.agents", Address: s.cfg.ListenAddress, WebConfigFile: s.cfg.WebConfigFile, Handler: s.Handler(p),
		// Twice as many connections as agents are allowed, because the old connection of a
		// restarted agent may still be open.
		MaxConns: 2*s.cfg.MaxAgents + 64,
		Opened:   func() { s.withLock(func() { s.listening, s.opened, s.listenError = true, true, "" }) },
	}
	return e.Serve(ctx)
}

// Handler returns the HTTP handler for messages of agents. Exported for tests and benchmarks.
func (s *Source) Handler(p sources.Pipeline) http.Handler {
	h := &handler{s: s, p: p}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.Path, h.forAgents(wire.MaxMessage, h.handleMessage))
	mux.HandleFunc("POST "+wire.ReportPath, h.forAgents(wire.MaxReport, h.handleReport))
	mux.HandleFunc("POST "+wire.RulesPath, h.forAgents(0, h.handleRules))
	mux.HandleFunc("DELETE "+wire.NodePath+"{node}", h.forOperators(h.handleForget))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.Header, strconv.Itoa(wire.Version))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if s.cfg.Leads != nil {
			if leads, leader := s.cfg.Leads(); !leads {
				// The response does not contain the name of the process, because an agent must
				// not count a standby as a second aggregator.
				http.Error(w, "this process is not the leader; "+cmp.Or(leader, "there is no leader yet"), http.StatusMisdirectedRequest)
				return
			}
		}
		w.Header().Set(wire.ProcessHeader, s.process)
		mux.ServeHTTP(w, r)
	})
}

func (s *Source) refuseRequest(w http.ResponseWriter, r *http.Request, why *refusal) {
	s.withLock(func() {
		s.stats.RefusedMessages[why.reason]++
		s.stats.NewestRefused[why.reason] = RefusedMessage{s.cfg.Clock(), r.RemoteAddr, why.err.Error()}
	})
	if why.code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, why.err.Error(), why.code)
}

// forAgents returns a handler for messages of at most maxBytes from authenticated agents.
// serve returns the body of the response.
func (h *handler) forAgents(maxBytes int64, serve func(ctx context.Context, body []byte, who *caller) (any, *refusal)) http.HandlerFunc {
	answer := func(w http.ResponseWriter, r *http.Request) (any, *refusal) {
		who, why := h.s.authenticate(r)
		if why != nil {
			return nil, why
		}
		body, release, why := h.s.readBody(w, r, maxBytes)
		if why != nil {
			return nil, why
		}
		defer release()
		return serve(r.Context(), body, who)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		a, why := answer(w, r)
		if why != nil {
			h.s.refuseRequest(w, r, why)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a) // the agent may have disconnected
	}
}

// forOperators returns a handler for requests of operators about a node. An agent that may
// send for the node is not an operator.
func (h *handler) forOperators(serve func(w http.ResponseWriter, node string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		node := r.PathValue("node")
		if n := len(node); n > wire.MaxName {
			h.s.refuseRequest(w, r, &refusal{http.StatusBadRequest, refusedMalformed, fmt.Errorf("the name of a node has 1 to %d bytes, not %d", wire.MaxName, n)})
		} else if why := h.s.checkOperator(r, node); why != nil {
			h.s.refuseRequest(w, r, why)
		} else {
			serve(w, node)
		}
	}
}

// readBody reads a body of known and limited size. The caller must call release.
func (s *Source) readBody(w http.ResponseWriter, r *http.Request, maxBytes int64) (body []byte, release func(), why *refusal) {
	size := r.ContentLength
	if size < 0 || size > maxBytes {
		return nil, nil, &refusal{http.StatusRequestEntityTooLarge, refusedSize, fmt.Errorf("the message does not state its size, or has more than %d bytes", maxBytes)}
	}
	ctx, cancel := context.WithTimeout(r.Context(), bodyTimeout)
	defer cancel()
	weight := size + 1<<10
	if s.bodyRoom.Acquire(ctx, weight) != nil {
		return nil, nil, &refusal{http.StatusServiceUnavailable, refusedBusy, errors.New("too many messages at a time: try again")}
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(http.MaxBytesReader(w, r.Body, size), body); err != nil {
		s.bodyRoom.Release(weight)
		return nil, nil, &refusal{http.StatusRequestTimeout, refusedMalformed, fmt.Errorf("read message: %w", err)}
	}
	return body, func() { s.bodyRoom.Release(weight) }, nil
}
