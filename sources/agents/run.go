package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"

	"crowsnest/hits"
	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Bounds of the listener.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 20 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 16 << 10
	stopWithin        = 500 * time.Millisecond

	maintainEvery = time.Second
	listenAgain   = time.Second
)

// Run listens until ctx ends, and completes messages that are being handled then.
// If it cannot listen, it reports that in Status and tries again. It returns nil.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	h := &handler{s: s, p: p}
	var wg sync.WaitGroup
	wg.Go(func() { h.maintain(ctx) })
	if s.watch != nil {
		wg.Go(func() { s.watch.run(ctx) })
	}
	for ctx.Err() == nil {
		err := s.serve(ctx, p)
		s.set(func() {
			s.listening = false
			if err != nil {
				s.err = err.Error()
			}
		})
		if err != nil {
			pause.Sleep(ctx, listenAgain, nil)
		}
	}
	wg.Wait()
	if s.reviews != nil {
		s.reviews.client.Close()
	}
	return nil
}

// StandBy listens until ctx ends and answers that another process leads.
func (s *Source) StandBy(ctx context.Context) {
	for ctx.Err() == nil {
		if s.serve(ctx, nil) != nil {
			pause.Sleep(ctx, listenAgain, nil)
		}
	}
	s.set(func() { s.listening, s.opened = false, false })
}

// serve listens until ctx ends or the listener breaks.
func (s *Source) serve(ctx context.Context, p sources.Pipeline) error {
	if err := toolkit.Validate(s.cfg.WebConfigFile); err != nil {
		return fmt.Errorf("read sources.agents.web_config_file: %w", err)
	}
	l, err := net.Listen("tcp", s.cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("open sources.agents.listen_address: %w", err)
	}
	inner := &door{next: s.Handler(p)}
	srv := &http.Server{
		Handler:           inner,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	broke := make(chan error, 1)
	go func() {
		flags := &toolkit.FlagConfig{WebListenAddresses: &[]string{l.Addr().String()}, WebConfigFile: &s.cfg.WebConfigFile}
		// Twice as many connections as agents: the old connection of a restarted agent is still open.
		broke <- toolkit.Serve(netutil.LimitListener(l, 2*s.cfg.MaxAgents+64), srv, flags, slog.New(slog.DiscardHandler))
	}()
	s.set(func() { s.listening, s.opened, s.err = true, true, "" })
	select {
	case <-ctx.Done():
	case err = <-broke:
		broke <- nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close()
	}
	_ = l.Close() // if the server did not start
	if last := <-broke; err == nil {
		err = last
	}
	inner.shut()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// door admits requests until it is shut.
type door struct {
	next   http.Handler
	inside sync.RWMutex
	closed bool
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.inside.RLock()
	defer d.inside.RUnlock()
	if d.closed {
		http.Error(w, "the aggregator stops", http.StatusServiceUnavailable)
		return
	}
	d.next.ServeHTTP(w, r)
}

// shut waits for the requests inside and refuses later ones.
func (d *door) shut() {
	d.inside.Lock()
	defer d.inside.Unlock()
	d.closed = true
}

// maintain removes expired nodes and applies held hits, once a second until ctx
// ends.
func (h *handler) maintain(ctx context.Context) {
	began := h.s.cfg.Clock()
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.expire(began, h.s.cfg.Clock())
			h.apply()
		}
	}
}

func (h *handler) expire(began, now time.Time) {
	s := h.s
	s.mu.Lock()
	settled := !s.settled && now.Sub(began) >= settle
	s.settled = s.settled || settled
	var expired []*node
	for _, n := range s.nodes {
		if s.expired(n, now) {
			expired = append(expired, n)
		}
	}
	s.mu.Unlock()
	if settled {
		h.p.RemoveMember(s.unknown())
	}
	for _, n := range expired {
		h.forgetIf(n, now)
	}
}

// forgetIf removes a node unless its agent came back meanwhile.
func (h *handler) forgetIf(n *node, now time.Time) {
	if !n.busy.TryLock() {
		return // its agent is sending a message
	}
	defer n.busy.Unlock()
	h.s.mu.Lock()
	expired := !n.removed && h.s.expired(n, now)
	h.s.mu.Unlock()
	if expired {
		h.drop(n)
	}
}

func nothing(*rules.Set) []matcher.Hit { return nil }

// finder turns a batch of a node into hits of the rules in force.
func (s *Source) finder(n *node, b *hits.Batch, out *outcome) func(*rules.Set) []matcher.Hit {
	return func(set *rules.Set) []matcher.Hit {
		s.set(func() { out.shift = s.shift(n, s.cfg.Clock()) })
		var found []matcher.Hit
		found, out.Outcome = b.Find(s.indexOf(set))
		if out.Dropped[hits.ReasonUnknown] > 0 {
			out.held, out.n = b.Unknown(s.indexOf(set))
		}
		return shifted(found, out.shift)
	}
}

// shifted adds a duration to the times of hits.
func shifted(found []matcher.Hit, shift time.Duration) []matcher.Hit {
	for i := range found {
		found[i].Time = found[i].Time.Add(shift)
	}
	return found
}

// outcome is the result of a batch. Some of its hits may have to be held.
type outcome struct {
	hits.Outcome
	shift time.Duration // what was added to their times
	held  []byte
	n     int
}

func (s *Source) indexOf(set *rules.Set) *hits.Index { return cachedIndex(&s.index, set) }

func cachedIndex(cache *atomic.Pointer[hits.Index], set *rules.Set) *hits.Index {
	x := cache.Load()
	if !x.Of(set) {
		x = hits.NewIndex(set)
		cache.Store(x)
	}
	return x
}
