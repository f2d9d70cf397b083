package alertmanager

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

const (
	firstRetry = 100 * time.Millisecond
	// slowRetry is the longest delay between two tries. It is short enough to find an endpoint within 5 s after its
	// outage.
	slowRetry   = 2 * time.Second
	probeAlerts = 16 // largest number of alerts per request while the endpoint is down
	checkEvery  = 10 * time.Second
	settleEvery = 500 * time.Millisecond
	maxSettle   = time.Minute // timeout for the exchange of notifications, which is Alertmanager's default
	staleFor    = 250 * time.Millisecond
)

// endpoint is the sender for one Alertmanager. It is the receiver of a delivery loop. Its
// hooks adapt the loop to an Alertmanager, which forgets alerts when it restarts, compares
// times with its own clock, and exchanges notifications with its peers.
type endpoint struct {
	*delivery.Loop[json.RawMessage]

	name   string
	cfg    Config
	client *client
	now    func() time.Time
	target atomic.Pointer[Target]
	stop   func() // ends Run, which then tries once more to send the due messages

	// The following fields are used only by Run.
	probed bool
	// checkAt is the time from which on the endpoint sends no end before it has checked whether the Alertmanager
	// restarted.
	checkAt time.Time
	// settling is set if the endpoint waits until its Alertmanager has exchanged notifications
	// with its peers, while another member answers.
	settling      bool
	settlingSince time.Time
	backSince     time.Time // time of the first response after an outage; zero if there is no outage or no response yet
	peer          peer
	changed       bool      // whether the estimate of the peer's clock has changed since all messages were sent
	repeated      time.Time // time at which all messages were last sent again because the estimate changed

	// mu is shared by the endpoints of a sink, because the states of Alertmanagers in one cluster read each other.
	mu      *sync.Mutex
	members members
	member  member
	skew    time.Duration

	isStatic     bool      // whether the configuration lists the Alertmanager
	isLeaving    bool      // whether stop was called
	missingSince time.Time // time since which no lookup finds the Alertmanager; zero if a lookup finds it
}

func newEndpoint(t Target, s *Sink) *endpoint {
	cfg, opt, name := s.cfg, s.opt, t.Name
	e := &endpoint{
		name: name, cfg: cfg, now: opt.Now, mu: &s.shared,
		client: &client{
			base: t.URL, key: t.key, timeout: cfg.Timeout, now: opt.Now,
			http: httpconfig.Lazy{Config: cfg.HTTP, Name: "alertmanager", UserAgent: "crowsnest", Idle: 5 * time.Minute, Transport: opt.Transport},
		},
	}
	e.target.Store(&t)
	switch {
	case opt.Transport != nil:
	case t.key == "dns_sd_configs":
		e.client.http.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			return e.target.Load().DialContext(ctx, network, address)
		}
	default:
		e.client.lookup = net.DefaultResolver.LookupNetIP
	}
	e.Loop = delivery.New(delivery.Config{
		Name: cfg.Name, Endpoint: name, MaxItems: maxBatch, MaxBytes: maxBody - len("[]"),
		State:      cfg.state(),
		FirstRetry: firstRetry, MaxRetry: slowRetry, ProbeItems: probeAlerts, Canary: true, StaleFor: staleFor,
		Mu: e.mu, Answers: s.Deliveries,
		Hooks:   delivery.Hooks{Prepare: e.makeClient, Check: e.checkReady, Delivered: e.repeatIfChanged, Recovered: func() { s.retryOthers(e) }, OnFirstAccepted: s.observeLatency},
		Options: opt,
	}, e)
	return e
}

func (c Config) state() sinks.StateConfig {
	return sinks.StateConfig{
		Resend: c.ResendDelay, MinFiring: *c.MinFiring, ResolvedFor: sinks.DefaultResolvedFor,
		TextDelay: min(sinks.DefaultTextDelay, c.ResendDelay), RefusedDelay: 5 * c.ResendDelay,
	}
}

// move sets the address that new connections use.
func (e *endpoint) move(t Target) {
	if old := e.target.Load(); t.Address != "" && t.Address != old.Address {
		e.target.Store(&t)
		e.Retry()
	}
}

func (e *endpoint) Encode(m sinks.Message, now time.Time) (json.RawMessage, int, error) {
	alert, err := e.cfg.toAlert(m, now, e.peer.peerTime(now))
	if err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(alert)
	return body, len(body) + len(","), err
}

func (e *endpoint) Deliver(ctx context.Context, alerts []json.RawMessage) delivery.Answer {
	body := []byte{'['}
	for i, alert := range alerts {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, alert...)
	}
	asked := e.now()
	a := e.client.postAlerts(ctx, append(body, ']'), e.IsHung())
	e.recordDate(a.date, asked, e.now())
	return a.Answer
}

func (e *endpoint) Close() { e.client.http.Close() }

// makeClient makes the client. Before the first alert is sent, it also asks the Alertmanager for its time and its start
// time. If we estimated the Alertmanager's clock wrongly, the Alertmanager could treat alerts of our previous process
// as ended.
func (e *endpoint) makeClient(ctx context.Context) bool {
	if _, err := e.client.http.Client(); err != nil {
		e.Fail(delivery.Answer{Reason: delivery.ReasonConfig, Err: err}, e.Status()[0].Pending)
		return false
	}
	if e.probed {
		return true
	}
	e.probed = true
	_, a := e.checkProcess(ctx)
	if a.Err != nil {
		e.Fail(a, 0) // no alert is sent, because a suspended Alertmanager could accept it when it resumes
	}
	e.changed = false // no alert has been sent yet
	if n := e.client.countAddresses(ctx); n > 1 {
		e.Log.Warn().Int("addresses", n).Msg("the name of the alertmanager has several addresses, and only one of them is notified: list every Alertmanager in urls, or use dns_sd_configs")
	}
	return a.Err == nil
}

// checkReady decides whether the messages can be sent to the process that answers. A process
// that has just started would ignore the end of an alert that it does not know.
func (e *endpoint) checkReady(ctx context.Context, msgs []sinks.Message, draining bool) delivery.Verdict {
	down := e.IsDown()
	if draining && !down || !down && !e.settling && (!hasEnd(msgs) || e.now().Before(e.checkAt)) {
		return delivery.Send
	}
	restarted, a := e.checkProcess(ctx)
	switch {
	case a.Err != nil && down:
		e.Missed(msgs, 0, a) // no alert is sent, because a suspended Alertmanager could accept it when it resumes
		if a.Reason == delivery.ReasonTimeout {
			// The next try need not be delayed, because its request waits until the Alertmanager resumes.
			e.RetryAt(time.Time{})
		}
		return delivery.Stop
	case e.waitSettled():
		return delivery.Stop
	case restarted:
		return delivery.Recheck
	}
	return delivery.Send
}

// hasEnd reports whether msgs contain an end that was not accepted before, or a premature one
// (see sinks.Message.Premature), which is sent only if the process has restarted.
func hasEnd(msgs []sinks.Message) bool {
	return slices.ContainsFunc(msgs, func(m sinks.Message) bool { return m.Resolved && (m.New || m.Premature) })
}

// waitSettled reports whether to delay sending. An Alertmanager that has just started delays notifications until its
// peers have sent theirs. After that delay, it would notify of alerts that have ended in the meantime. An Alertmanager
// that was cut off from its peers would notify of ends again. A delay loses nothing while another member of the cluster
// answers.
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

// status returns the state of the Alertmanager. It is up if it accepted the last alerts that were sent to it.
func (e *endpoint) status() sinks.EndpointStatus {
	st := e.Status()[0]
	e.mu.Lock()
	defer e.mu.Unlock()
	st.ClockSkew = e.skew.Seconds()
	return st
}
