// Package delivery sends the newest message of each alert to one receiver: it is
// what sinks with a single endpoint share. It does not know the form of a message.
//
// An outage of the receiver, of any length, delays nothing else and uses no more
// memory: what is still to be sent is a state (sinks.State) and not a queue.
package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

// The reasons why messages are not delivered, as named in metrics and the API.
const (
	ReasonConnection  = "connection"   // no connection, or it broke
	ReasonTimeout     = "timeout"      // no answer in time
	ReasonRedirect    = "redirect"     // 3xx
	ReasonAuth        = "auth"         // 401, 403
	ReasonRateLimited = "rate_limited" // 429
	ReasonClientError = "client_error" // other 4xx
	ReasonServerError = "server_error" // 5xx
	ReasonRefused     = "refused"      // for its content
	ReasonInvalid     = "invalid"      // not sent: it has no valid form
	ReasonConfig      = "config"       // the client cannot be made: a TLS or secret file
	ReasonEvicted     = "evicted"      // news dropped: too many keys
)

// Reasons returns every reason.
func Reasons() []string {
	return []string{
		ReasonConnection, ReasonTimeout, ReasonRedirect, ReasonAuth, ReasonRateLimited, ReasonClientError,
		ReasonServerError, ReasonRefused, ReasonInvalid, ReasonConfig, ReasonEvicted,
	}
}

const (
	firstRetry   = 500 * time.Millisecond
	slowRetry    = 30 * time.Second
	refusedDelay = 5 * time.Minute
	probe        = 8 // messages per request while the receiver is down
	idle         = time.Hour
)

// Answer is the outcome of one request.
type Answer struct {
	Reason     string        // one of the above; "": the messages were accepted
	Err        error         // nil: the messages were accepted
	RetryAfter time.Duration // 0: not given
}

// Refused reports whether the messages caused the failure and not the receiver.
func (a Answer) Refused() bool { return a.Reason == ReasonRefused }

// Receiver sends messages in its own form T. One goroutine at a time calls its
// methods.
type Receiver[T any] interface {
	// Encode returns the form of one message and how many bytes of a request
	// it takes. An error means that the message has no valid form.
	Encode(m sinks.Message, now time.Time) (item T, size int, err error)
	// Deliver sends one request. It returns soon after ctx ends.
	Deliver(ctx context.Context, items []T) Answer
	// Close closes idle connections.
	Close()
}

// Options are a sink's dependencies.
type Options struct {
	Log zerolog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// MaxKeys bounds the alerts, open and ended, in the state; 0 means
	// sinks.DefaultMaxKeys.
	MaxKeys int
	// Accepted is called without a lock after the receiver accepted news: until
	// Export is saved, a kill repeats that news. It may be nil and must not block.
	Accepted func()
}

// Config sets how often the receiver is sent the same and how much at once. MaxKeys
// of the options replaces that of State.
type Config struct {
	Name     string // of the sink
	Endpoint string // name of the receiver, without credentials
	State    sinks.StateConfig
	MaxItems int // per request
	MaxBytes int // per request; a single message may take more
	Options
}

// Loop is a sinks.Sink that keeps its state over a restart. Safe for concurrent
// use.
type Loop[T any] struct {
	cfg  Config
	to   Receiver[T]
	now  func() time.Time
	log  zerolog.Logger
	wake chan struct{} // there may be news

	// Owned by Run.
	retryAt   time.Time
	backoff   Backoff
	downSince time.Time

	answers *sinks.Deliveries
	ended   sinks.EndedPack

	mu      sync.Mutex
	state   *sinks.State
	up      bool
	lastErr string
	sent    int64
	failed  map[string]int64
}

// New returns a Loop; it starts nothing and does no I/O.
func New[T any](cfg Config, to Receiver[T]) *Loop[T] {
	cfg.State.RefusedDelay, cfg.State.MaxKeys, cfg.State.EachEpisode = refusedDelay, cfg.MaxKeys, true
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Loop[T]{
		cfg: cfg, to: to, now: cfg.Now, wake: make(chan struct{}, 1), backoff: Backoff{First: firstRetry, Max: slowRetry},
		log:   cfg.Log.With().Str("component", "sink").Str("sink", cfg.Name).Str("endpoint", cfg.Endpoint).Logger(),
		state: sinks.NewState(cfg.State), answers: sinks.NewDeliveries(), failed: map[string]int64{},
	}
	for _, r := range Reasons() {
		l.failed[r] = 0
	}
	return l
}

// Name returns the name of the sink.
func (l *Loop[T]) Name() string { return l.cfg.Name }

// Notify accepts changed episodes. After a start the caller must pass every open
// episode and the ones that ended recently, after Import. It does not block.
func (l *Loop[T]) Notify(eps []episodes.Episode) {
	l.mu.Lock()
	l.state.Notify(eps, l.now())
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, then tries once more to send what is due, news
// first, and returns nil at most Drain after ctx.
func (l *Loop[T]) Run(ctx context.Context) error {
	defer l.to.Close()
	reqs, cancel := DrainContext(ctx)
	defer cancel()
	for ctx.Err() == nil {
		if wait := l.retryAt.Sub(l.now()); wait > 0 {
			Sleep(ctx, min(wait, slowRetry), nil) // the clock may be set meanwhile
			continue
		}
		if l.sendDue(ctx, reqs) {
			Sleep(ctx, min(l.untilNext(), slowRetry), l.wake)
		}
	}
	l.sendDue(reqs, reqs)
	return nil
}

// untilNext returns the time until something is due without further news.
func (l *Loop[T]) untilNext() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	next, ok := l.state.Next(now)
	if !ok {
		return idle
	}
	return max(next.Sub(now), 0)
}

// sendDue sends all that is due, until ctx ends. It returns false if the
// receiver failed.
func (l *Loop[T]) sendDue(ctx, reqs context.Context) bool {
	for ctx.Err() == nil {
		items := l.batch()
		if len(items) == 0 {
			return true
		}
		taken, a := l.deliver(reqs, items)
		if a.Err != nil {
			l.fail(a, len(items)-taken)
			l.answered(items[:min(len(items), probe)], a)
			return false
		}
		if taken > 0 && !l.downSince.IsZero() {
			l.log.Info().Dur("after", l.now().Sub(l.downSince)).Msg("the receiver accepts alerts again")
			l.downSince, l.retryAt = time.Time{}, time.Time{}
			l.backoff.Reset()
		}
	}
	return true
}

// item is a message and its form.
type item[T any] struct {
	msg  sinks.Message
	form T
}

// batch returns the due messages that fit into one request. It refuses those
// without a valid form. A message that was refused before is sent alone; while the
// receiver is down, a few messages are enough to probe it.
func (l *Loop[T]) batch() []item[T] {
	limit := l.cfg.MaxItems
	if !l.downSince.IsZero() {
		limit = min(limit, probe)
	}
	now := l.now()
	for {
		l.mu.Lock()
		due := l.state.Due(now, limit)
		l.mu.Unlock()
		items, bad := l.encode(due, now)
		if len(items) > 0 || !bad {
			return items
		}
	}
}

// encode returns items of the first messages, as many as fit; bad reports whether
// some have no valid form.
func (l *Loop[T]) encode(due []sinks.Message, now time.Time) (items []item[T], bad bool) {
	size := 0
	for _, m := range due {
		if m.Suspect && len(items) > 0 {
			break
		}
		form, n, err := l.to.Encode(m, now)
		if err != nil {
			l.refuse(m, Answer{Reason: ReasonInvalid, Err: err})
			bad = true
			continue
		}
		if size += n; size > l.cfg.MaxBytes && len(items) > 0 {
			break
		}
		items = append(items, item[T]{m, form})
		if m.Suspect {
			break
		}
	}
	return items, bad
}

// deliver sends the items in one request. If the receiver refuses it for its
// content, deliver bisects it until each bad item stands alone and the good ones
// are accepted. It returns how many were accepted, and an answer with an error if
// the receiver is at fault: one that accepts nothing may refuse everything.
func (l *Loop[T]) deliver(ctx context.Context, items []item[T]) (taken int, a Answer) {
	var bad []item[T]
	var why Answer
	for groups := [][]item[T]{items}; len(groups) > 0; groups = groups[1:] {
		g := groups[0]
		a := l.post(ctx, g)
		switch {
		case a.Err == nil:
			taken += len(g)
		case !a.Refused():
			return taken, a
		case len(g) > 1:
			groups = append(groups, g[:len(g)/2], g[len(g)/2:])
		default:
			bad, why = append(bad, g[0]), a
		}
	}
	if len(bad) > 0 && taken == 0 && !items[0].msg.Suspect {
		return 0, why
	}
	for _, it := range bad {
		l.refuse(it.msg, why)
	}
	return taken, Answer{}
}

// post sends one request and records the accepted items.
func (l *Loop[T]) post(ctx context.Context, items []item[T]) Answer {
	forms, msgs := make([]T, len(items)), make([]sinks.Message, len(items))
	for i, it := range items {
		forms[i], msgs[i] = it.form, it.msg
	}
	a := l.to.Deliver(ctx, forms)
	if a.Err != nil {
		return a
	}
	l.answers.Record(msgs, l.delivery(a))
	l.mu.Lock()
	l.state.Accepted(msgs, l.now())
	l.sent += int64(len(items))
	l.up, l.lastErr = true, ""
	l.mu.Unlock()
	if l.cfg.Accepted != nil && slices.ContainsFunc(msgs, func(m sinks.Message) bool { return m.News }) {
		l.cfg.Accepted()
	}
	return a
}

// answered records an answer that accepted nothing.
func (l *Loop[T]) answered(items []item[T], a Answer) {
	msgs := make([]sinks.Message, len(items))
	for i, it := range items {
		msgs[i] = it.msg
	}
	l.answers.Record(msgs, l.delivery(a))
}

func (l *Loop[T]) delivery(a Answer) sinks.Delivery {
	d := sinks.Delivery{Endpoint: l.cfg.Endpoint, Time: l.now()}
	if a.Err != nil {
		d.Error = a.Err.Error()
	}
	return d
}

// Answers returns the receiver's answers to an alert, repeats merged.
func (l *Loop[T]) Answers(fp episodes.Fingerprint) []sinks.Delivery { return l.answers.Of(fp) }

// refuse records that the receiver does not accept the message as it is.
func (l *Loop[T]) refuse(m sinks.Message, a Answer) {
	l.mu.Lock()
	first := l.state.Refused(m, l.now())
	l.failed[a.Reason]++
	l.mu.Unlock()
	l.answers.Record([]sinks.Message{m}, l.delivery(a))
	if first {
		l.log.Error().Str("fingerprint", m.Episode.Fingerprint.String()).Str("alert", Truncate(m.Episode.Alert, MaxValue)).
			Str("reason", a.Reason).Err(a.Err).Msg("an alert was refused; other alerts are not delayed")
	}
}

// fail records that the receiver did not accept n messages, and sets the time of
// the next try.
func (l *Loop[T]) fail(a Answer, n int) {
	now := l.now()
	l.retryAt = now.Add(max(l.backoff.Next(), a.RetryAfter))
	if l.downSince.IsZero() {
		l.downSince = now
		l.log.Warn().Str("reason", a.Reason).Err(a.Err).Int("alerts", n).Msg("the receiver does not accept alerts; retrying")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.lastErr = false, a.Err.Error()
	l.failed[a.Reason] += int64(n)
}

// Status returns the state of the receiver. It is up if it accepted what it was
// last sent.
func (l *Loop[T]) Status() []sinks.EndpointStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.state.Stats()
	failed := maps.Clone(l.failed)
	failed[ReasonEvicted] += st.Evicted
	return []sinks.EndpointStatus{{
		Sink: l.cfg.Name, Endpoint: l.cfg.Endpoint, Up: l.up, Error: l.lastErr, Sent: l.sent, Failed: failed, Pending: st.Pending,
	}}
}
