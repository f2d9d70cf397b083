package alertmanager

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"time"

	"crowsnest/httpconfig"
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

// endpoint is the sender of one Alertmanager: the receiver of its delivery loop, and
// the hooks by which that loop respects Alertmanager's memory, clock and cluster.
type endpoint struct {
	*delivery.Loop[json.RawMessage]

	name   string
	cfg    Config
	client *client
	now    func() time.Time

	// Owned by Run.
	probed        bool
	checkAt       time.Time // from then on check whether the endpoint restarted
	settling      bool      // reports whether the endpoint waits for its cluster's notifications while another member answers
	settlingSince time.Time
	backSince     time.Time // the first answer since it was away; zero while it is not or has not answered
	peer          peer
	changed       bool      // the estimate of the peer's clock changed since everything was sent
	repeated      time.Time // when everything was last sent again for that reason

	// mu is shared by the endpoints of the sink: the states of a cluster read each
	// other.
	mu      *sync.Mutex
	members members
	member  member
	skew    time.Duration
}

var _ delivery.Receiver[json.RawMessage] = (*endpoint)(nil)

func newEndpoint(name string, s *Sink, opt Options) *endpoint {
	cfg := s.cfg
	e := &endpoint{
		name: name, cfg: cfg, now: opt.Now, mu: &s.shared,
		client: &client{
			base: name, timeout: cfg.Timeout, now: opt.Now,
			http: httpconfig.Lazy{Config: cfg.HTTP, Name: "alertmanager", UserAgent: "crowsnest", Idle: 5 * time.Minute, Transport: opt.Transport},
		},
	}
	if opt.Transport == nil {
		e.client.lookup = net.DefaultResolver.LookupIPAddr
	}
	e.Loop = delivery.New(delivery.Config{
		Name: cfg.Name, Endpoint: name, MaxItems: maxBatch, MaxBytes: maxBody - len("[]"),
		State: sinks.StateConfig{
			Resend: cfg.ResendDelay, MinFiring: *cfg.MinFiring, ResolvedFor: sinks.DefaultResolvedFor,
			TextDelay: min(sinks.DefaultTextDelay, cfg.ResendDelay), RefusedDelay: 5 * cfg.ResendDelay,
		},
		FirstRetry: firstRetry, MaxRetry: slowRetry, ProbeItems: probeAlerts, Canary: true, StaleFor: staleFor,
		Mu: e.mu, Answers: s.answers,
		Hooks:   delivery.Hooks{Prepare: e.prepare, Check: e.ready, Delivered: e.repeat, Recovered: func() { s.retryOthers(e) }, Began: s.began},
		Options: delivery.Options{Log: opt.Log, Now: opt.Now, MaxKeys: opt.MaxKeys, Accepted: opt.Accepted, Leads: opt.Leads},
	}, e)
	return e
}

// Encode returns the alert of one message.
func (e *endpoint) Encode(m sinks.Message, now time.Time) (json.RawMessage, int, error) {
	alert, err := e.cfg.toAlert(m, now, e.peer.at(now))
	if err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(alert)
	return body, len(body) + len(","), err
}

// Deliver posts the alerts as one list.
func (e *endpoint) Deliver(ctx context.Context, alerts []json.RawMessage) delivery.Answer {
	body := []byte{'['}
	for i, alert := range alerts {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, alert...)
	}
	asked := e.now()
	a := e.client.post(ctx, append(body, ']'), e.Hung())
	e.heard(a.date, asked, e.now())
	return a.Answer
}

// Close closes idle connections.
func (e *endpoint) Close() { e.client.http.Close() }

// prepare makes the client. The first time, before anything is sent, it also asks the
// Alertmanager for its clock and its process: judged by a wrong clock, alerts that it
// has from our previous process could already be over.
func (e *endpoint) prepare(ctx context.Context) bool {
	if _, err := e.client.http.Client(); err != nil {
		e.Fail(delivery.Answer{Reason: delivery.ReasonConfig, Err: err}, e.Status()[0].Pending)
		return false
	}
	if e.probed {
		return true
	}
	e.probed = true
	_, a := e.check(ctx)
	if a.Err != nil {
		e.Fail(a, 0) // send nothing that it might accept when it wakes up
	}
	e.changed = false // nothing was sent yet
	if n := e.client.addresses(ctx); n > 1 {
		e.Log.Warn().Int("addresses", n).Msg("the name of the alertmanager has several addresses, and only one of them is notified: list every Alertmanager in urls")
	}
	return a.Err == nil
}

// ready decides whether the messages can be sent to the process that answers: a new
// process does not know the alerts that end.
func (e *endpoint) ready(ctx context.Context, msgs []sinks.Message, draining bool) delivery.Verdict {
	down := e.Down()
	if draining && !down || !down && !e.settling && (!hasEnd(msgs) || e.now().Before(e.checkAt)) {
		return delivery.Send
	}
	restarted, a := e.check(ctx)
	switch {
	case a.Err != nil && down:
		e.Missed(msgs, 0, a) // nothing is sent that it might accept when it wakes up
		if a.Reason == delivery.ReasonTimeout {
			e.RetryAt(time.Time{}) // a waiting request is answered as soon as it wakes up
		}
		return delivery.Stop
	case e.waitSettled():
		return delivery.Stop
	case restarted:
		return delivery.Again
	}
	return delivery.Send
}

// hasEnd reports whether msgs contain an end that was not sent before, or one that
// need not be sent again to the same process.
func hasEnd(msgs []sinks.Message) bool {
	return slices.ContainsFunc(msgs, func(m sinks.Message) bool { return m.Resolved && (m.New || m.Premature) })
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
	e.RetryAt(now.Add(settleEvery))
	return true
}

// status returns the state of the Alertmanager. It is up if it accepted the last
// alerts sent to it.
func (e *endpoint) status() sinks.EndpointStatus {
	st := e.Status()[0]
	e.mu.Lock()
	defer e.mu.Unlock()
	st.ClockSkew = e.skew.Seconds()
	return st
}
