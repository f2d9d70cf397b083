// Package delivery sends the newest message of each alert to one receiver: it is
// what sinks that speak HTTP share. It does not know the form of a message.
//
// An outage of the receiver, of any length, delays nothing else and uses no more
// memory: what is still to be sent is a state (sinks.State) and not a queue.
package delivery

import (
	"cmp"
	"context"
	"maps"
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

// maxSleep bounds each wait: the clock may be set meanwhile.
const maxSleep = 30 * time.Second

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
	// Accepted is called without a lock after the receiver accepted a change: until
	// Export is saved, a kill repeats that change. It may be nil and must not block.
	Accepted func()
	// Leads reports whether this process may send now; nil means always. It is asked before
	// each request and must not block.
	Leads func() bool
}

// Config sets how often a message is repeated and how much is sent at once.
// Options.MaxKeys replaces State.MaxKeys.
type Config struct {
	Name     string // name of the sink
	Endpoint string // name of the receiver, without credentials
	State    sinks.StateConfig
	MaxItems int // per request
	MaxBytes int // per request; a single message may take more

	FirstRetry time.Duration // first wait after a failure, about doubled by each further one; 0 means 500 ms
	MaxRetry   time.Duration // longest wait after a failure; 0 means 30 s
	ProbeItems int           // messages per request while the receiver is down; 0 means 8
	// Canary sends, before a message is refused, one that the receiver accepted
	// before: if that is refused too, the receiver is at fault.
	Canary bool
	// StaleFor is how long a receiver that hung may still read older requests. After
	// that time everything is sent again; zero if never.
	StaleFor time.Duration

	// Mu guards the state; nil means a lock of its own. States that are peers of each
	// other share one.
	Mu *sync.Mutex
	// Answers is where answers are recorded; nil means a log of its own.
	Answers *sinks.Deliveries
	Hooks
	Options
}

// Verdict is what Hooks.Check decides.
type Verdict int

// The verdicts.
const (
	Send  Verdict = iota // send the messages
	Again                // look again for what is due: the state changed
	Stop                 // send nothing until the next try, which the hook has set
)

// Hooks are what a receiver with a memory of its own adds to the loop; each may be
// nil. The goroutine of Run calls them, without the lock.
type Hooks struct {
	// Prepare is called before each round of requests. It returns false after it
	// called Fail.
	Prepare func(ctx context.Context) bool
	// Check is called before each request. draining is set after the context of Run
	// ended.
	Check func(ctx context.Context, msgs []sinks.Message, draining bool) Verdict
	// Delivered is called after each request that did not fail, unless Run drains.
	Delivered func()
	// Recovered is called when the receiver accepts again after it failed.
	Recovered func()
	// Began is called with the episodes that the receiver accepted for the first
	// time.
	Began func([]episodes.Episode)
}

// Loop is a sinks.Sink that keeps its state over a restart. Safe for concurrent use,
// except the methods that only hooks and the receiver may call.
type Loop[T any] struct {
	// Log names the sink and the receiver.
	Log zerolog.Logger

	cfg  Config
	to   Receiver[T]
	now  func() time.Time
	wake chan struct{} // there may be messages to send

	again chan struct{} // Retry was called
	retry atomic.Bool   // reports whether a retry was requested since the last failure

	// Owned by Run.
	retryAt   time.Time
	dated     bool // the receiver said when to try again
	failures  int  // consecutive ones
	downSince time.Time
	hung      bool
	staleAt   time.Time // when everything is sent again; zero if not needed

	answers *sinks.Deliveries
	ended   sinks.EndedPack

	mu      *sync.Mutex
	state   *sinks.State
	up      bool
	lastErr string
	sent    int64
	failed  map[string]int64
}

// New returns a Loop; it starts nothing and does no I/O.
func New[T any](cfg Config, to Receiver[T]) *Loop[T] {
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
		cfg: cfg, to: to, now: cfg.Now, wake: make(chan struct{}, 1), again: make(chan struct{}, 1), mu: cfg.Mu, answers: cfg.Answers,
		Log:   cfg.Log.With().Str("component", "sink").Str("sink", cfg.Name).Str("endpoint", cfg.Endpoint).Logger(),
		state: sinks.NewState(cfg.State), failed: map[string]int64{},
	}
	for _, r := range Reasons() {
		l.failed[r] = 0
	}
	return l
}

// History returns the configuration for a receiver that keeps what it accepted: it is
// sent the beginning of each episode, a change at most every update, and
// the end. It is sent no change if update is zero.
func History(update time.Duration) sinks.StateConfig {
	return sinks.StateConfig{TextDelay: update, ResolvedFor: sinks.DefaultResolvedFor, RefusedDelay: 5 * time.Minute, EachEpisode: true}
}

// Name returns the name of the sink.
func (l *Loop[T]) Name() string { return l.cfg.Name }

// State returns what is still to be sent to the receiver. The caller holds the lock.
func (l *Loop[T]) State() *sinks.State { return l.state }

// Notify accepts changed episodes. After a start, and after Import, the caller must
// pass every open episode and the ones that ended recently. Notify does not block.
func (l *Loop[T]) Notify(eps []episodes.Episode) {
	l.mu.Lock()
	l.state.Notify(eps, l.now())
	l.mu.Unlock()
	l.Wake()
}

// Wake makes Run look for what is due.
func (l *Loop[T]) Wake() { signal(l.wake) }

// Retry makes Run try now, unless the receiver said when to try again: something else that
// failed works again.
func (l *Loop[T]) Retry() {
	l.retry.Store(true)
	signal(l.again)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, then tries once more to send what is due, changes
// first, and returns nil at most Drain after ctx.
func (l *Loop[T]) Run(ctx context.Context) error {
	defer l.to.Close()
	reqs, cancel := drainContext(ctx)
	defer cancel()
	for ctx.Err() == nil {
		if l.retry.Swap(false) && !l.dated {
			l.retryAt = time.Time{}
		}
		if wait := l.retryAt.Sub(l.now()); wait > 0 {
			pause.Sleep(ctx, min(wait, maxSleep), l.again)
			continue
		}
		if l.sendDue(ctx, reqs) {
			pause.Sleep(ctx, l.untilNext(), l.wake)
		}
	}
	l.sendDue(reqs, reqs)
	return nil
}

// untilNext returns the time until something is due without a further change, at most
// maxSleep.
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

// sendDue sends all that is due, until ctx ends. It returns false if the
// receiver failed.
func (l *Loop[T]) sendDue(ctx, reqs context.Context) bool {
	if l.leads() && l.cfg.Prepare != nil && !l.cfg.Prepare(reqs) {
		return false
	}
	l.overwrite()
	draining := ctx == reqs
	for ctx.Err() == nil {
		if !l.leads() {
			l.retryAt = l.now().Add(firstRetry)
			return false
		}
		items := l.batch()
		if len(items) == 0 {
			return true
		}
		switch l.check(reqs, items, draining) {
		case Again:
			continue
		case Stop:
			return false
		case Send:
		}
		if items = l.mature(items); len(items) == 0 {
			continue
		}
		taken, a := l.deliver(reqs, items)
		if a.Err != nil {
			l.Missed(messages(items), taken, a)
			return false
		}
		if taken > 0 && l.Down() {
			l.recovered()
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

func (l *Loop[T]) leads() bool { return l.cfg.Leads == nil || l.cfg.Leads() }

func (l *Loop[T]) check(ctx context.Context, items []item[T], draining bool) Verdict {
	if l.cfg.Check == nil {
		return Send
	}
	return l.cfg.Check(ctx, messages(items), draining)
}

// overwrite makes everything due again after the receiver hung: it may have read
// older requests after newer ones.
func (l *Loop[T]) overwrite() {
	if !l.staleAt.IsZero() && !l.now().Before(l.staleAt) {
		l.staleAt = time.Time{}
		l.Repeat()
	}
}

// Repeat marks every live message as due now.
func (l *Loop[T]) Repeat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Repeat()
}

// Down reports whether the last try failed. Only hooks and the receiver may call it.
func (l *Loop[T]) Down() bool { return !l.downSince.IsZero() }

// Hung reports whether a request since the last answer had no answer in time. Only
// hooks and the receiver may call it.
func (l *Loop[T]) Hung() bool { return l.hung }

// RetryAt sets the time of the next try. Only hooks may call it.
func (l *Loop[T]) RetryAt(t time.Time) { l.retryAt = t }

// Answers returns the receiver's answers to an alert, repeats merged.
func (l *Loop[T]) Answers(fp episodes.Fingerprint) []sinks.Delivery { return l.answers.Of(fp) }

// Notified returns how many answers accepted an episode that fired at a time.
func (l *Loop[T]) Notified(fp episodes.Fingerprint, fired time.Time) int {
	return l.answers.Notified(fp, fired)
}

// Status returns the state of the receiver. It is up if it accepted the last messages
// sent to it.
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
