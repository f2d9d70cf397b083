package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"crowsnest/hits"
	"crowsnest/internal/pause"
	"crowsnest/sinks/internal/delivery"
)

// The times of the sender.
const (
	batchEvery    = 200 * time.Millisecond // at most
	askEvery      = 500 * time.Millisecond // while something is not on the aggregator's disk
	idleEvery     = 2 * time.Second
	retryFirst    = 200 * time.Millisecond
	maxRetryDelay = 2 * time.Second
	maxRetry      = 30 * time.Second // longest Retry-After that is honoured

	drain          = 2500 * time.Millisecond // of a stop, with the goodbye
	askClosed      = 100 * time.Millisecond  // while it stops
	goodbyeTimeout = 400 * time.Millisecond
)

type sender struct {
	s       *Sink
	last    time.Time // when the last message was answered
	highest uint64    // batch that was sent
	retry   time.Duration
	waiting bool // hits are pending; the sender waits only for its interval
	tried   int  // targets, since one accepted a message
	// reconnectAt is when the connection is replaced.
	reconnectAt time.Time
	closing     bool
	buf         []byte
}

// Run sends until ctx ends. Then it sends the rest and waits until the aggregator
// has it on disk, for at most 2.5 s, says goodbye and returns nil.
func (s *Sink) Run(ctx context.Context) error {
	w := &sender{s: s}
	for {
		wait := w.turn(ctx)
		if ctx.Err() != nil {
			break
		}
		w.sleep(ctx, wait)
	}
	w.close(context.WithoutCancel(ctx))
	s.http.Close()
	return nil
}

// sleep returns after d, or when there is a batch to send.
func (w *sender) sleep(ctx context.Context, d time.Duration) {
	wake := w.s.wake
	if w.waiting || w.retry > 0 { // new hits do not bring the aggregator back
		wake = nil
	}
	pause.Sleep(ctx, d, wake)
}

// turn sends the next message if it is due, and returns the time until the next
// turn.
func (w *sender) turn(ctx context.Context) time.Duration {
	m, n, pause := w.next()
	if m == nil {
		return pause
	}
	again := m.Payload != nil && m.Sequence <= w.highest
	w.highest = max(w.highest, m.Sequence)
	a := w.send(ctx, m)
	if ctx.Err() != nil && a.err != nil && !w.closing {
		return 0 // the stop interrupted the request
	}
	if w.elsewhere(ctx, a) {
		return nextTarget
	}
	pause = w.judge(m, n, a, again)
	if a.err == nil {
		w.sendReport(ctx, a.said.Report)
	}
	return pause
}

// next returns the message that is due and the number of hits in it, or the time
// until one is due.
func (w *sender) next() (*hits.Message, int, time.Duration) {
	s := w.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.unsent()
	w.waiting = b == nil && s.builder.Len() > 0
	if w.waiting {
		if wait := batchEvery - now.Sub(w.last); wait > 0 && !w.closing && !w.last.IsZero() {
			return nil, 0, wait
		}
		s.seal()
		b = s.unsent()
	}
	m := &hits.Message{Node: s.cfg.Node, Instance: s.instance, After: s.after, Sequence: s.seq, First: s.acked + 1, Sent: s.steady.Now(now), Reports: s.report.body != nil}
	if len(s.kept) > 0 {
		m.First = s.kept[0].seq
	} else if s.seq > 0 {
		m.First = s.seq + 1
	}
	if b != nil {
		m.Sequence, m.Payload, m.Watermark, m.Lagging = b.seq, b.payload, b.watermark, b.lagging
		return m, b.hits, 0
	}
	every := idleEvery
	switch {
	case w.closing:
		every = askClosed
	case len(s.kept) > 0:
		every = askEvery
	}
	if wait := every - now.Sub(w.last); wait > 0 && !w.last.IsZero() {
		return nil, 0, wait
	}
	m.Watermark, m.Lagging = s.watermark()
	return m, 0, 0
}

// unsent returns the oldest batch that the aggregator has not accepted. The caller
// holds mu.
func (s *Sink) unsent() *batch {
	for i := range s.kept {
		if s.kept[i].seq > s.taken {
			return &s.kept[i]
		}
	}
	return nil
}

// judge records the answer to a message and returns how long to wait.
func (w *sender) judge(m *hits.Message, n int, a answer, again bool) time.Duration {
	s := w.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		s.st.Resent++
	}
	if a.err == nil {
		w.last, w.retry = now, 0
		if n > 0 && a.said.Taken >= m.Sequence && m.Sequence > s.taken {
			s.st.Taken += int64(n)
		}
		s.up, s.lastErr, s.st.LastReason, s.st.Reached, s.st.Refused, s.st.LastAnswer = true, "", "", true, false, now
		s.admitted = true
		s.ack(a.said, now)
		return 0
	}
	s.up, s.lastErr, s.st.LastReason = false, a.err.Error(), a.reason
	s.failed[a.reason]++
	s.st.Refused = a.reason == reasonConflict
	if a.reason == delivery.ReasonRefused && m.Payload != nil {
		s.empty(m.Sequence)
	}
	w.retry = min(max(retryFirst, 2*w.retry), maxRetryDelay)
	pause := w.retry
	if a.retryAfter > 0 {
		pause = min(a.retryAfter, maxRetry)
	}
	// Agents must not all come back at once.
	return pause/2 + rand.N(pause/2+1) //nolint:gosec // chance is all that is needed
}

// empty removes the hits from a batch that the aggregator cannot read, so that it
// does not block later batches. The caller holds mu.
func (s *Sink) empty(seq uint64) {
	for i := range s.kept {
		if b := &s.kept[i]; b.seq == seq {
			s.st.Lost += int64(b.hits)
			s.bytes -= len(b.payload)
			b.payload, b.hits = hits.EmptyBatch(), 0
			s.bytes += len(b.payload)
			s.wakeReaders()
		}
	}
}

// close sends the rest, waits until it is safe, and says goodbye.
func (w *sender) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	sending, stop := context.WithTimeout(ctx, drain-goodbyeTimeout)
	defer stop()
	w.closing = true
	for sending.Err() == nil && !w.s.safe() {
		w.sleep(sending, w.turn(sending))
	}
	m := w.s.goodbye()
	w.send(ctx, &m)
}

// safe reports whether the aggregator has everything on disk.
func (s *Sink) safe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.builder.Len() == 0 && len(s.kept) == 0
}

func (s *Sink) goodbye() hits.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := hits.Message{
		Node: s.cfg.Node, Instance: s.instance, After: s.after, Sequence: s.seq, First: s.seq + 1, Sent: s.steady.Now(s.now()),
		Reports: s.report.body != nil, Goodbye: true, Final: s.cfg.FinalGoodbye && len(s.kept) == 0,
	}
	if len(s.kept) > 0 {
		m.First = s.kept[0].seq
	} else if !s.dropped {
		m.Watermark, m.Lagging = s.watermark()
	}
	return m
}

var errConflict = errors.New("another agent with the name of this node is connected; give each its own sinks.upstream.node")
