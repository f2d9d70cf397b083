package demo

import (
	"context"
	"fmt"
	"io"
	"sync"

	"crowsnest/cli/internal/show"
	"crowsnest/episodes"
	"crowsnest/sinks"
)

// Screen is a sink that prints each alert when it fires and when it resolves.
type Screen struct {
	w     io.Writer
	style show.Style
	wake  chan struct{}

	mu    sync.Mutex
	queue []episodes.Episode
	shown map[episodes.Fingerprint]episodes.State
}

// NewScreen returns a screen on w.
func NewScreen(w io.Writer, style show.Style) *Screen {
	return &Screen{w: w, style: style, wake: make(chan struct{}, 1), shown: map[episodes.Fingerprint]episodes.State{}}
}

// Name returns "screen".
func (s *Screen) Name() string { return "screen" }

// Notify queues the episodes whose state changed. It does not block.
func (s *Screen) Notify(eps []episodes.Episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range eps {
		if e.Silent || e.Heartbeat || e.State != episodes.StateFiring && e.State != episodes.StateResolved {
			continue
		}
		was, known := s.shown[e.Fingerprint]
		if was == e.State || e.State == episodes.StateResolved && !known {
			continue
		}
		s.shown[e.Fingerprint] = e.State
		s.queue = append(s.queue, e)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run prints queued episodes until ctx ends.
func (s *Screen) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		s.mu.Lock()
		queued := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, e := range queued {
			style := s.style
			style.Brief = e.State == episodes.StateResolved
			if err := show.Alert(s.w, e, style); err != nil {
				return err
			}
			fmt.Fprintln(s.w)
		}
	}
}

// Status returns nil, because the screen has no endpoints.
func (s *Screen) Status() []sinks.EndpointStatus { return nil }
