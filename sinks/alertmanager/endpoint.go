package alertmanager

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

const (
	firstRetry  = 100 * time.Millisecond
	slowRetry   = 2 * time.Second // finds an endpoint that is back within 5 s
	probeAlerts = 16              // alerts per request while the endpoint is down
	checkEvery  = 10 * time.Second
	settleEvery = 500 * time.Millisecond
	maxSettle   = time.Minute // Alertmanager's own default
	staleFor    = 250 * time.Millisecond
)

// endpoint is the sender of one Alertmanager.
type endpoint struct {
	name   string
	cfg    Config
	client *client
	log    zerolog.Logger
	wake   chan struct{} // there may be news
	// took is called without the lock with what the endpoint accepted or refused.
	took func(e *endpoint, msgs []sinks.Message, first []episodes.Episode, a answer)
	now  func() time.Time

	// Owned by run.
	retryAt   time.Time
	backoff   delivery.Backoff
	hedge     bool      // the last failure was a timeout
	staleAt   time.Time // by then the endpoint has read the requests that hung; zero: none did
	checkAt   time.Time // from then on check whether the endpoint restarted
	downSince time.Time
	settling  bool // it waits for its cluster's notifications, and another member answers

	settlingSince time.Time

	changed  bool      // the estimate of the peer's clock changed since everything was sent
	repeated time.Time // when everything was last sent again for that reason

	// mu is shared by the endpoints of the sink: the states of a cluster read each
	// other.
	mu      *sync.Mutex
	members members
	member  member
	state   *sinks.State
	up      bool
	lastErr string
	sent    int64
	failed  map[string]int64
	skew    time.Duration
	peer    peer
}

func newEndpoint(name string, cfg Config, log zerolog.Logger, opt Options) *endpoint {
	e := &endpoint{
		name: name, cfg: cfg, log: log.With().Str("endpoint", name).Logger(), wake: make(chan struct{}, 1),
		client: &client{base: name, cfg: cfg.HTTP, timeout: cfg.Timeout, now: opt.Now, lookup: net.DefaultResolver.LookupIPAddr}, now: opt.Now,
		state: sinks.NewState(sinks.StateConfig{
			Resend: cfg.ResendDelay, MinFiring: *cfg.MinFiring, ResolvedFor: sinks.DefaultResolvedFor,
			TextDelay: min(sinks.DefaultTextDelay, cfg.ResendDelay), RefusedDelay: 5 * cfg.ResendDelay,
			MaxKeys: opt.MaxKeys,
		}),
		failed:  map[string]int64{},
		backoff: delivery.Backoff{First: firstRetry, Max: slowRetry},
	}
	for _, r := range delivery.Reasons() {
		e.failed[r] = 0
	}
	return e
}

// notify wakes run.
func (e *endpoint) notify() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends, then tries once more to send what is due, news
// first. It returns at most delivery.Drain after ctx.
func (e *endpoint) run(ctx context.Context) {
	defer e.client.close()
	reqs, cancel := delivery.DrainContext(ctx)
	defer cancel()
	e.probe(reqs)
	for ctx.Err() == nil {
		if wait := e.retryAt.Sub(e.now()); wait > 0 {
			delivery.Sleep(ctx, wait, nil)
			continue
		}
		if e.sendDue(ctx, reqs) {
			delivery.Sleep(ctx, e.untilNext(), e.wake)
		}
	}
	e.sendDue(reqs, reqs)
}

// untilNext returns the time until something is due without further news.
func (e *endpoint) untilNext() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	next, ok := e.state.Next(now)
	if !ok {
		next = now.Add(e.cfg.ResendDelay)
	}
	if !e.staleAt.IsZero() {
		next = earlier(next, e.staleAt)
	}
	return max(next.Sub(now), 0)
}

// sendDue sends all that is due, until ctx ends. It returns false if the
// endpoint failed.
func (e *endpoint) sendDue(ctx, reqs context.Context) bool {
	if err := e.client.open(); err != nil {
		e.fail(failure(delivery.ReasonConfig, err), e.pending())
		return false
	}
	e.overwrite()
	draining := ctx == reqs
	for ctx.Err() == nil {
		items := e.batch()
		if len(items) == 0 {
			return true
		}
		if (!draining || !e.downSince.IsZero()) && e.mustCheck(items) {
			again, a := e.check(reqs)
			if a.Err != nil && !e.downSince.IsZero() {
				e.missed(items, 0, a) // nothing is sent that it might take when it wakes up
				if a.Reason == delivery.ReasonTimeout {
					e.retryAt = time.Time{} // a waiting request is answered as soon as it wakes up
				}
				return false
			}
			if e.waitSettled() {
				return false
			}
			if again {
				continue
			}
		}
		if items = e.mature(items); len(items) == 0 {
			continue
		}
		taken, a := e.deliver(reqs, items)
		if a.Err != nil {
			e.missed(items, taken, a)
			return false
		}
		if taken > 0 && !e.downSince.IsZero() {
			e.recovered()
		}
		if !draining {
			e.repeat()
		}
	}
	return true
}

// mustCheck reports whether the endpoint's process must be known before items are
// sent: a new process does not know the alerts that end.
func (e *endpoint) mustCheck(items []item) bool {
	return !e.downSince.IsZero() || e.settling || hasEnd(items) && !e.now().Before(e.checkAt)
}

// overwrite makes everything due again after the endpoint hung: it may have read
// older requests after newer ones.
func (e *endpoint) overwrite() {
	if e.staleAt.IsZero() || e.now().Before(e.staleAt) {
		return
	}
	e.staleAt = time.Time{}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Repeat()
}

// mature returns the items without the premature ones, which it postpones.
func (e *endpoint) mature(items []item) []item {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(items, func(it item) bool {
		if it.msg.Premature {
			e.state.Postpone(it.msg, e.now())
		}
		return it.msg.Premature
	})
}

// waitSettled reports whether to wait. A member that has just started holds alerts
// until it has heard from the others, and would then notify of alerts that ended
// meanwhile; a member that was cut off from the others would notify of ends.
// While another member answers, waiting loses nothing.
func (e *endpoint) waitSettled() bool {
	now := e.now()
	switch {
	case !e.settling:
		e.settlingSince = time.Time{}
		return false
	case e.settlingSince.IsZero():
		e.settlingSince = now
	case now.Sub(e.settlingSince) > maxSettle:
		return false
	}
	e.retryAt = now.Add(settleEvery)
	return true
}

// missed records that the items after the first accepted ones were not accepted.
func (e *endpoint) missed(items []item, taken int, a answer) {
	e.fail(a, len(items)-taken)
	e.took(e, messages(items[:min(len(items), probeAlerts)]), nil, a)
}

// item is a message and its form.
type item struct {
	msg  sinks.Message
	body json.RawMessage
}

// hasEnd reports whether items contain an end that was not sent before, or one that
// need not be sent again to the same process.
func hasEnd(items []item) bool {
	return slices.ContainsFunc(items, func(it item) bool { return it.msg.Resolved && (it.msg.News || it.msg.Premature) })
}

// batch returns the due messages that fit into one request. It refuses those
// without a valid form. A message that was refused before is sent alone; while the
// endpoint is down, a few messages are enough to probe it.
func (e *endpoint) batch() []item {
	limit := maxBatch
	if !e.downSince.IsZero() {
		limit = probeAlerts
	}
	now := e.now()
	for {
		e.mu.Lock()
		due := e.state.Due(now, limit)
		e.mu.Unlock()
		items, bad := e.encode(due, now)
		for _, b := range bad {
			e.refuse(b.msg, failure(delivery.ReasonInvalid, b.err))
		}
		if len(items) > 0 || len(bad) == 0 {
			return items
		}
	}
}

type badItem struct {
	msg sinks.Message
	err error
}

// encode returns items of the first messages, as many as fit.
func (e *endpoint) encode(due []sinks.Message, now time.Time) (items []item, bad []badItem) {
	size := 2
	e.mu.Lock()
	peerNow := e.peer.at(now)
	e.mu.Unlock()
	for _, m := range due {
		if m.Suspect && len(items) > 0 {
			break
		}
		alert, err := e.cfg.toAlert(m, now, peerNow)
		var body []byte
		if err == nil {
			body, err = json.Marshal(alert)
		}
		if err != nil {
			bad = append(bad, badItem{m, err})
			continue
		}
		if size += len(body) + 1; size > maxBody && len(items) > 0 {
			break
		}
		items = append(items, item{msg: m, body: body})
		if m.Suspect {
			break
		}
	}
	return items, bad
}

// fail records that the endpoint did not accept n alerts, and sets the time of the
// next try.
func (e *endpoint) fail(a answer, n int) {
	now := e.now()
	e.retryAt = now.Add(max(e.backoff.Next(), a.RetryAfter))
	e.hedge = a.Reason == delivery.ReasonTimeout || (e.hedge && a.code == 0)
	if e.downSince.IsZero() {
		e.downSince = now
		e.log.Warn().Str("reason", a.Reason).Err(a.Err).Int("alerts", n).Msg("alertmanager does not accept alerts; retrying")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Reached(false, now)
	e.up, e.lastErr = false, a.Err.Error()
	e.failed[a.Reason] += int64(n)
}

// recovered records that the endpoint accepts alerts again.
func (e *endpoint) recovered() {
	e.log.Info().Dur("after", e.now().Sub(e.downSince)).Int("pending", e.pending()).Msg("alertmanager accepts alerts again")
	if e.hedge {
		e.staleAt = e.now().Add(staleFor)
	}
	e.downSince, e.retryAt, e.hedge = time.Time{}, time.Time{}, false
	e.backoff.Reset()
}

func (e *endpoint) pending() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.Stats().Pending
}

// probe asks the Alertmanager for its clock and its process before anything is
// sent: by a wrong clock, alerts that it knows from the process before could be
// over already.
func (e *endpoint) probe(ctx context.Context) {
	if e.client.open() != nil {
		return // reported when something is sent
	}
	if _, a := e.check(ctx); a.Err != nil {
		e.fail(a, 0) // send nothing that it might accept when it wakes up
	}
	e.changed = false // nothing was sent yet
	if n := e.client.addresses(ctx); n > 1 {
		e.log.Warn().Int("addresses", n).Msg("the name of the alertmanager has several addresses, and only one of them is notified: list every Alertmanager in urls")
	}
}

func (e *endpoint) status(sink string) sinks.EndpointStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.state.Stats()
	failed := maps.Clone(e.failed)
	failed[delivery.ReasonEvicted] += st.Evicted
	return sinks.EndpointStatus{
		Sink: sink, Endpoint: e.name, Up: e.up, Error: e.lastErr, Sent: e.sent, Failed: failed,
		Pending: st.Pending, ClockSkew: e.skew.Seconds(),
	}
}
