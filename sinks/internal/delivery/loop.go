// Package delivery sends the newest message of each alert to one receiver. All sinks that use
// HTTP share it. It does not know the format of a message.
//
// The unsent messages are a state (sinks.State) with one message per alert, and not a queue. A long outage of the
// receiver therefore needs no more memory than a short one, and delays no other receiver.
package delivery

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/internal/pause"
	"crowsnest/sinks"
)

// Defaults of Config.
const (
	firstRetry = 500 * time.Millisecond
	maxRetry   = 30 * time.Second
	probeItems = 8
)

// maxSleep is the longest wait. A longer wait would end at the wrong time if somebody sets the clock.
const maxSleep = 30 * time.Second

// Receiver sends messages in its own format T. One goroutine at a time calls its methods.
type Receiver[T any] interface {
	// Encode returns one message in the format T, and the number of bytes that it takes in a
	// request. An error means that the message cannot be encoded.
	Encode(m sinks.Message, now time.Time) (item T, size int, err error)
	// Deliver sends one request. It returns soon after ctx ends.
	Deliver(ctx context.Context, items []T) Answer
	// Close closes idle connections.
	Close()
}

// Options are the dependencies of a sink.
type Options struct {
	Log zerolog.Logger
	// Now is the clock; nil means time.Now. Durations are measured with the monotonic clock if the times have one.
	Now func() time.Time
	// MaxKeys is the largest number of open and ended alerts in the state. Zero means sinks.DefaultMaxKeys.
	MaxKeys int
	// OnAccepted is called without a lock after the receiver accepted a change. If the process is killed before the
	// result of Export is saved, the change is sent again. It may be nil and must not block.
	OnAccepted func()
	// Leads reports whether this process may send now. nil means that it always may. It is
	// called before each request and must not block.
	Leads func() bool

	// Only the sink for Alertmanager has the options Latency and Transport.

	// Latency is called once per episode. It gets the time from the line that made the episode fire until the first
	// Alertmanager accepted the alert. It may be nil. It must be safe for concurrent use.
	Latency func(time.Duration)
	// Transport replaces the configured transport in tests.
	Transport http.RoundTripper
}

// Config sets how often a message is repeated and how much is sent in one request.
// Options.MaxKeys replaces State.MaxKeys.
type Config struct {
	Name     string // name of the sink
	Endpoint string // name of the receiver, without credentials
	State    sinks.StateConfig
	MaxItems int // number of items per request
	MaxBytes int // number of bytes per request; a single message may exceed it

	FirstRetry time.Duration // wait after a first failure; each further failure about doubles it; zero means 500 ms
	MaxRetry   time.Duration // longest wait after a failure; zero means 30 s
	ProbeItems int           // number of messages per request while the receiver is down; zero means 8
	// Canary protects messages from a receiver that refuses everything. Before the loop counts a message as refused, it
	// repeats a message that the receiver accepted before. If the receiver refuses both, the receiver is at fault.
	Canary bool
	// StaleFor is the time for which a receiver that hung may still read requests that timed out. After this time all
	// messages are sent again, because an old request may have replaced newer information. Zero disables this.
	StaleFor time.Duration

	// Mu guards the state. nil means a separate mutex. States that are peers (see sinks.State.SetPeers) share one.
	Mu *sync.Mutex
	// Answers records the receiver's answers. nil means a separate log.
	Answers *sinks.Deliveries
	Hooks
	Options
}

// Verdict is the result of Hooks.Check.
type Verdict int

// Values of Verdict.
const (
	Send    Verdict = iota // send the messages
	Recheck                // select the due messages again, because the state has changed
	Stop                   // send nothing before the next try; the hook has set its time
)

// Hooks adapt the loop to a receiver that keeps state, such as Alertmanager. Each hook may be
// nil. The goroutine of Run calls them without holding the mutex.
type Hooks struct {
	// Prepare is called before each round of requests. It returns false if it has called Fail.
	Prepare func(ctx context.Context) bool
	// Check is called before each request. draining is set after the context of Run has ended.
	Check func(ctx context.Context, msgs []sinks.Message, draining bool) Verdict
	// Delivered is called after each request that did not fail. It is not called after the context of Run has ended.
	Delivered func()
	// Recovered is called when the receiver accepts again after it failed.
	Recovered func()
	// OnFirstAccepted is called with the episodes that the receiver has accepted for the first time.
	OnFirstAccepted func([]episodes.Episode)
}

// Loop is a sinks.Sink whose state survives a restart. It is safe for concurrent use, except
// the methods that only hooks and the receiver may call.
type Loop[T any] struct {
	*sinks.Deliveries // the receiver's answers

	// Log is a logger that names the sink and the receiver.
	Log zerolog.Logger

	cfg      Config
	receiver Receiver[T]
	now      func() time.Time
	wake     chan struct{} // signals that there may be messages to send

	retryRequested chan struct{} // receives a value when Retry is called
	retry          atomic.Bool   // whether Retry was called since the last failure

	// The fields from retryAt on are used only by Run.
	retryAt   time.Time
	dated     bool // whether the receiver set the time of the next try with Retry-After
	failures  int  // number of consecutive failures
	downSince time.Time
	hung      bool
	staleAt   time.Time // time at which all messages are sent again; zero if that is not needed

	ended sinks.EndedPack

	mu      *sync.Mutex
	state   *sinks.State
	up      bool
	lastErr string
	sent    int64
	failed  map[string]int64
}

// New returns a Loop. It starts nothing and does no I/O.
func New[T any](cfg Config, receiver Receiver[T]) *Loop[T] {
	cfg.State.MaxKeys = cfg.MaxKeys
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Mu == nil {
		cfg.Mu = new(sync.Mutex)
	}
	if cfg.Answers == nil {
		cfg.Answers = sinks.NewDeliveries()
	}
	cfg.ProbeItems = cmp.Or(cfg.ProbeItems, probeItems)
	cfg.FirstRetry, cfg.MaxRetry = cmp.Or(cfg.FirstRetry, firstRetry), cmp.Or(cfg.MaxRetry, maxRetry)
	l := &Loop[T]{
		cfg: cfg, receiver: receiver, now: cfg.Now, wake: make(chan struct{}, 1), retryRequested: make(chan struct{}, 1), mu: cfg.Mu, Deliveries: cfg.Answers,
		Log:   cfg.Log.With().Str("component", "sink").Str("sink", cfg.Name).Str("endpoint", cfg.Endpoint).Logger(),
		state: sinks.NewState(cfg.State), failed: map[string]int64{},
	}
	for _, r := range Reasons() {
		l.failed[r] = 0
	}
	return l
}

// History returns the configuration of the state for a receiver that stores every message it
// accepts. Such a receiver gets the start and the end of each episode, and a change at most
// once every update. If update is zero, it gets no changes.
func History(update time.Duration) sinks.StateConfig {
	return sinks.StateConfig{TextDelay: update, ResolvedFor: sinks.DefaultResolvedFor, RefusedDelay: 5 * time.Minute, EachEpisode: true}
}

// Name returns the name of the sink.
func (l *Loop[T]) Name() string { return l.cfg.Name }

// State returns the unsent messages. The caller holds the mutex.
func (l *Loop[T]) State() *sinks.State { return l.state }

// Notify accepts changed episodes. After a start and after Import, the caller must pass all
// open and recently ended episodes. Notify does not block.
func (l *Loop[T]) Notify(eps []episodes.Episode) {
	l.mu.Lock()
	l.state.Notify(eps, l.now())
	l.mu.Unlock()
	l.Wake()
}

// Wake makes Run look for due messages.
func (l *Loop[T]) Wake() { signal(l.wake) }

// Retry makes Run try now, because another receiver that had failed works again. Retry has no
// effect if the receiver sent a Retry-After that has not passed.
func (l *Loop[T]) Retry() {
	l.retry.Store(true)
	signal(l.retryRequested)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends. Then it tries once more to send the due messages, changes first. It returns nil at most
// Drain after the end of ctx.
func (l *Loop[T]) Run(ctx context.Context) error {
	defer l.receiver.Close()
	reqs, cancel := drainContext(ctx)
	defer cancel()
	for ctx.Err() == nil {
		if l.retry.Swap(false) && !l.dated {
			l.retryAt = time.Time{}
		}
		if wait := l.retryAt.Sub(l.now()); wait > 0 {
			pause.Sleep(ctx, min(wait, maxSleep), l.retryRequested)
			continue
		}
		if l.sendDue(ctx, reqs) {
			pause.Sleep(ctx, l.untilNext(), l.wake)
		}
	}
	l.sendDue(reqs, reqs)
	return nil
}

// Drain is the time for which Run continues after its context has ended.
const Drain = 3 * time.Second

// drainContext returns a context for requests. It ends Drain after ctx has ended. cancel ends
// it immediately and releases its resources.
func drainContext(ctx context.Context) (reqs context.Context, cancel func()) {
	reqs, end := context.WithCancel(context.WithoutCancel(ctx))
	last := time.AfterFunc(1<<62, end)
	stop := context.AfterFunc(ctx, func() { last.Reset(Drain) })
	return reqs, func() {
		stop()
		last.Stop()
		end()
	}
}

// untilNext returns the time until the next message is due, if nothing changes. It is at most maxSleep.
func (l *Loop[T]) untilNext() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	wait := maxSleep
	if next, ok := l.state.Next(now); ok {
		wait = min(wait, next.Sub(now))
	}
	if !l.staleAt.IsZero() {
		wait = min(wait, l.staleAt.Sub(now))
	}
	return max(wait, 0)
}

// sendDue sends all due messages until ctx ends. It returns false if the receiver failed.
func (l *Loop[T]) sendDue(ctx, reqs context.Context) bool {
	if l.isLeading() && l.cfg.Prepare != nil && !l.cfg.Prepare(reqs) {
		return false
	}
	l.repeatAll()
	draining := ctx == reqs
	for ctx.Err() == nil {
		if !l.isLeading() {
			l.retryAt = l.now().Add(firstRetry)
			return false
		}
		items := l.nextBatch()
		if len(items) == 0 {
			return true
		}
		switch l.checkReady(reqs, items, draining) {
		case Recheck:
			continue
		case Stop:
			return false
		case Send:
		}
		if items = l.postponePremature(items); len(items) == 0 {
			continue
		}
		taken, a := l.deliver(reqs, items)
		if a.Err != nil {
			l.Missed(itemMessages(items), taken, a)
			return false
		}
		if taken > 0 && l.IsDown() {
			l.recordRecovery()
			if l.cfg.Recovered != nil {
				l.cfg.Recovered()
			}
		}
		if l.cfg.Delivered != nil && !draining {
			l.cfg.Delivered()
		}
	}
	return true
}

func (l *Loop[T]) isLeading() bool { return l.cfg.Leads == nil || l.cfg.Leads() }

func (l *Loop[T]) checkReady(ctx context.Context, items []item[T], draining bool) Verdict {
	if l.cfg.Check == nil {
		return Send
	}
	return l.cfg.Check(ctx, itemMessages(items), draining)
}

// repeatAll makes all messages due again after the receiver hung. The receiver may have read a
// request that timed out after a newer one.
func (l *Loop[T]) repeatAll() {
	if !l.staleAt.IsZero() && !l.now().Before(l.staleAt) {
		l.staleAt = time.Time{}
		l.Repeat()
	}
}

// Repeat makes the message of every live alert due now.
func (l *Loop[T]) Repeat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Repeat()
}

// IsDown reports whether the last try has failed. Only hooks and the receiver may call it.
func (l *Loop[T]) IsDown() bool { return !l.downSince.IsZero() }

// IsHung reports whether a request has timed out since the last answer. Only hooks and the receiver may call it.
func (l *Loop[T]) IsHung() bool { return l.hung }

// RetryAt sets the time of the next try. Only hooks may call it.
func (l *Loop[T]) RetryAt(t time.Time) { l.retryAt = t }

// Status returns the state of the receiver. It is up if it accepted the last messages that were sent to it.
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
