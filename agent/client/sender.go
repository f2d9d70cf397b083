package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/internal/httpconfig"
	"crowsnest/internal/pause"
)

// Intervals and time limits of the sender.
const (
	batchEvery    = 200 * time.Millisecond // shortest interval between two batches
	askEvery      = 500 * time.Millisecond // interval between messages while the aggregator has not saved every batch
	idleEvery     = 2 * time.Second
	firstRetry    = 200 * time.Millisecond
	maxRetryDelay = 2 * time.Second
	maxRetryAfter = 30 * time.Second // longest Retry-After of the aggregator that is respected

	// stopWithin is the longest duration of the shutdown, including the last message to the aggregator.
	stopWithin     = 2500 * time.Millisecond
	askClosing     = 100 * time.Millisecond // interval between messages during the shutdown
	goodbyeTimeout = 400 * time.Millisecond

	maxResponse = wire.MaxRules // largest size of a response, in bytes
	maxExcerpt  = 300           // number of bytes of a response that an error message contains
)

// Reasons why a message was not accepted, as they appear in metrics and in the API.
const (
	reasonConnection  = "connection"   // the connection failed or broke
	reasonTimeout     = "timeout"      // no response in time
	reasonConfig      = "config"       // no HTTP client can be made from the configuration
	reasonRedirect    = "redirect"     // HTTP status 3xx
	reasonRefused     = "refused"      // 400, because the aggregator cannot read the batch
	reasonAuth        = "auth"         // HTTP status 401 or 403
	reasonConflict    = "conflict"     // 409, because another agent has the name
	reasonVersion     = "version"      // 415, because the aggregator is older than the agent
	reasonStandby     = "standby"      // 421, because another process leads
	reasonBusy        = "busy"         // HTTP status 429 or 503
	reasonClientError = "client_error" // other HTTP status 4xx
	reasonServerError = "server_error" // all other responses
)

func errorReasons() []string {
	return []string{
		reasonConnection, reasonTimeout, reasonConfig, reasonRedirect, reasonRefused, reasonAuth, reasonConflict, reasonVersion,
		reasonStandby, reasonBusy, reasonClientError, reasonServerError,
	}
}

var errConflict = errors.New("another agent with the name of this node is connected; give each its own sinks.upstream.node")

// sender sends messages, one after the other.
type sender struct {
	s            *Sink
	newest       uint64 // number of the newest batch that was sent
	failures     int    // number of consecutive failures
	holdsHits    bool   // whether the open batch has hits that are not due yet
	triedTargets int    // number of addresses that were tried since the aggregator last accepted a message
	reconnectAt  time.Time
	closing      bool
	buf          []byte
}

// Run sends until ctx ends. Then it sends the remaining hits, waits up to 2.5 s until the
// aggregator has them on disk, sends a last message that the agent stops, and returns nil.
func (s *Sink) Run(ctx context.Context) error {
	w := &sender{s: s}
	for ctx.Err() == nil {
		w.waitForBatch(ctx, w.sendNext(ctx))
	}
	w.closeConnection(context.WithoutCancel(ctx))
	s.http.Close()
	return nil
}

// waitForBatch returns after d, or earlier when there is a batch to send.
func (w *sender) waitForBatch(ctx context.Context, d time.Duration) {
	wake := w.s.wake
	if w.holdsHits || w.failures > 0 { // while a request fails, new hits do not cause an earlier retry
		wake = nil
	}
	pause.Sleep(ctx, d, wake)
}

// sendNext sends the next message if it is due. It returns the time until the next call.
func (w *sender) sendNext(ctx context.Context) time.Duration {
	m, n, wait := w.nextMessage()
	if m == nil {
		return wait
	}
	again := m.Payload != nil && m.Sequence <= w.newest
	w.newest = max(w.newest, m.Sequence)
	a := w.send(ctx, m)
	if ctx.Err() != nil && a.err != nil && !w.closing {
		return 0 // The shutdown interrupted the request.
	}
	if w.switchTarget(ctx, a) {
		return nextTarget
	}
	wait = w.recordResponse(m, n, a, again)
	if a.err == nil {
		w.fetchRules(ctx, a.answer.OwnedRules)
		w.sendReport(ctx, a.answer.Report)
	}
	return wait
}

// nextMessage returns the message that is due and the number of its hits. If no message is
// due, it returns the time until the next one is.
func (w *sender) nextMessage() (*wire.Message, int, time.Duration) {
	s := w.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.stats.LastAnswer
	b := s.unsentBatch()
	w.holdsHits = b == nil && s.builder.Len() > 0
	if w.holdsHits {
		if wait := batchEvery - now.Sub(last); wait > 0 && !w.closing && !last.IsZero() {
			return nil, 0, wait
		}
		s.sealBatch()
		b = s.unsentBatch()
	}
	m := s.newMessage(now)
	if b != nil {
		m.Sequence, m.Payload, m.Watermark, m.Lagging = b.sequence, b.payload, b.watermark, b.lagging
		return m, b.hits, 0
	}
	every := idleEvery
	switch {
	case w.closing:
		every = askClosing
	case len(s.unsavedBatches) > 0:
		every = askEvery
	}
	if wait := every - now.Sub(last); wait > 0 && !last.IsZero() {
		return nil, 0, wait
	}
	m.Watermark, m.Lagging = s.readUpTo()
	return m, 0, 0
}

// newMessage returns a message without a batch. The caller holds mu.
func (s *Sink) newMessage(now time.Time) *wire.Message {
	m := &wire.Message{
		Node: s.cfg.Node, Instance: s.instance, EarlierInstances: s.predecessors, Sequence: s.sealed, OldestSequence: s.sealed + 1,
		SentAt: s.steady.Now(now), Reports: s.report.body != nil,
	}
	if len(s.unsavedBatches) > 0 {
		m.OldestSequence = s.unsavedBatches[0].sequence
	}
	return m
}

// unsentBatch returns the oldest batch that was not accepted. The caller holds mu.
func (s *Sink) unsentBatch() *batch {
	for i := range s.unsavedBatches {
		if s.unsavedBatches[i].sequence > s.accepted {
			return &s.unsavedBatches[i]
		}
	}
	return nil
}

// recordResponse records the response to a message with n hits. It returns the time to wait
// before the next message. again reports whether the batch had been sent before.
func (w *sender) recordResponse(m *wire.Message, n int, a response, again bool) time.Duration {
	s := w.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		s.stats.Resent++
	}
	if a.err == nil {
		w.failures = 0
		if a.answer.AcceptedSequence >= m.Sequence && m.Sequence > s.accepted {
			s.stats.Accepted += int64(n)
		}
		s.stats.LastError, s.stats.LastReason, s.stats.LastAnswer = "", "", now
		s.acknowledge(a.answer, now)
		return 0
	}
	s.stats.LastError, s.stats.LastReason = a.err.Error(), a.reason
	s.failed[a.reason]++
	if a.reason == reasonRefused && m.Payload != nil {
		s.emptyBatch(m.Sequence)
	}
	w.failures++
	if a.retryAfter > 0 {
		return pause.Jitter(min(a.retryAfter, maxRetryAfter))
	}
	return pause.Backoff(firstRetry, maxRetryDelay, w.failures)
}

// closeConnection sends the remaining hits, waits until they are on the aggregator's disk, and
// announces that the agent stops.
func (w *sender) closeConnection(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	sending, stop := context.WithTimeout(ctx, stopWithin-goodbyeTimeout)
	defer stop()
	w.closing = true
	for sending.Err() == nil && !w.s.isSafe() {
		w.waitForBatch(sending, w.sendNext(sending))
	}
	w.send(ctx, w.s.shutdownMessage())
}

func (s *Sink) isSafe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.builder.Len() == 0 && len(s.unsavedBatches) == 0
}

func (s *Sink) shutdownMessage() *wire.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.newMessage(s.now())
	m.Goodbye, m.Final = true, s.cfg.FinalGoodbye && len(s.unsavedBatches) == 0
	if len(s.unsavedBatches) == 0 {
		m.Watermark, m.Lagging = s.readUpTo()
	}
	return m
}

// response is the outcome of one request. Its err is nil if the aggregator accepted it.
type response struct {
	code       int // HTTP status; zero if there was no response
	body       []byte
	answer     wire.Answer // answer to a message, decoded from the body
	reason     string
	err        error
	retryAfter time.Duration // delay that the aggregator asked for; zero if none
}

func (w *sender) send(ctx context.Context, m *wire.Message) response {
	w.buf = m.Append(w.buf[:0])
	a := w.post(ctx, wire.Path, wire.ContentType, w.buf)
	if a.code == 0 {
		w.buf = nil // the transport may still read the buffer
	}
	if a.err == nil {
		if err := json.Unmarshal(a.body, &a.answer); err != nil {
			return response{code: a.code, reason: reasonServerError, err: errors.New("the response does not come from crowsnest; url must be the address of sources.agents of an aggregator")}
		}
	}
	return a
}

func (w *sender) post(ctx context.Context, path, contentType string, body []byte) response {
	w.reconnect()
	client, err := w.s.http.Client()
	if err != nil {
		return response{reason: reasonConfig, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, w.s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.s.targets.baseURL()+path, bytes.NewReader(body))
	if err != nil {
		return response{reason: reasonConfig, err: err}
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := client.Do(req)
	if err != nil {
		return connectionFailure(err)
	}
	defer resp.Body.Close()
	w.s.mu.Lock()
	w.s.processes.noteAnswer(resp.Header.Get(wire.ProcessHeader), w.s.now())
	w.s.mu.Unlock()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return connectionFailure(err)
	}
	return judgeResponse(resp, text)
}

// connectionFailure returns the response for an error of net/http. It does not quote the
// address, which may contain a secret.
func connectionFailure(err error) response {
	timeout, cause := httpconfig.DescribeNoResponse(err)
	if timeout {
		return response{reason: reasonTimeout, err: errors.New("no answer in time")}
	}
	return response{reason: reasonConnection, err: errors.New(wire.OneLine(cause.Error(), maxExcerpt))}
}

// judgeResponse returns the outcome of an HTTP response. Only an aggregator can refuse a batch as malformed. The same
// status from another server, such as a proxy, does not count against the batch.
func judgeResponse(resp *http.Response, body []byte) response {
	code, ours := resp.StatusCode, resp.Header.Get(wire.Header) != ""
	a := response{code: code, err: fmt.Errorf("status %d: %s", code, wire.OneLine(string(body), maxExcerpt))}
	switch {
	case code == http.StatusOK:
		return response{code: code, body: body}
	case code/100 == 2:
		a.reason, a.err = reasonServerError, fmt.Errorf("status %d: url must be the address of sources.agents of an aggregator", code)
	case code/100 == 3:
		a.reason, a.err = reasonRedirect, fmt.Errorf("status %d: redirected, which is not followed; put the final address into url", code)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		a.reason = reasonAuth
	case code == http.StatusConflict && ours:
		a.reason, a.err = reasonConflict, errConflict
	case code == http.StatusMisdirectedRequest && ours:
		a.reason = reasonStandby
	case code == http.StatusUnsupportedMediaType && ours:
		a.reason = reasonVersion
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		a.reason, a.retryAfter = reasonBusy, httpconfig.RetryAfter(resp.Header, maxRetryAfter)
	case code == http.StatusBadRequest && ours:
		a.reason = reasonRefused
	case code/100 == 4:
		a.reason = reasonClientError
	default:
		a.reason = reasonServerError
	}
	return a
}
