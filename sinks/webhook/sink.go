package webhook

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/prometheus/common/version"

	"crowsnest/httpconfig"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// Bounds of a request.
const (
	maxAlerts = 64
	maxBody   = 1 << 20
	maxWait   = 5 * time.Minute // longest Retry-After that is honoured
)

// Options are a Sink's dependencies: its Log, the clock Now (nil means time.Now),
// MaxKeys, the bound of the alerts in its state (0 means sinks.DefaultMaxKeys), and
// Accepted, which is called after the receiver accepted a change: until the state is
// saved, a kill repeats that change.
type Options = delivery.Options

// Sink posts alerts to one URL. It repeats what the receiver did not accept, with
// pauses of up to 30 s, until it is accepted; only the newest message of each alert
// is sent. Safe for concurrent use.
type Sink struct {
	*delivery.Loop[Alert]
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a Sink. It fails if cfg is not valid; it starts nothing and does
// no I/O.
func New(cfg Config, opt Options) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Sink{delivery.New(delivery.Config{
		Name: cfg.Name, Endpoint: cfg.endpoint(), MaxItems: maxAlerts, MaxBytes: maxBody, Options: opt,
		State: delivery.History(cfg.UpdateDelay),
	}, newReceiver(cfg))}, nil
}

type receiver struct {
	cfg  Config
	http httpconfig.Lazy
}

func newReceiver(cfg Config) *receiver {
	return &receiver{cfg, httpconfig.Lazy{Config: cfg.HTTP, Name: "webhook", UserAgent: "crowsnest/" + version.Version, Idle: time.Minute}}
}

var _ delivery.Receiver[Alert] = (*receiver)(nil)

// Encode returns the form of one message.
func (r *receiver) Encode(m sinks.Message, _ time.Time) (Alert, int, error) {
	a, err := r.cfg.alert(m)
	if err != nil {
		return a, 0, err
	}
	b, err := json.Marshal(a)
	return a, 3 * len(b), err // common labels and annotations are repeated
}

// Deliver posts the alerts as one request.
func (r *receiver) Deliver(ctx context.Context, alerts []Alert) delivery.Answer {
	if !*r.cfg.SendResolved {
		alerts = slices.DeleteFunc(alerts, func(a Alert) bool { return a.Event == eventResolved })
	}
	if len(alerts) == 0 {
		return delivery.Answer{}
	}
	body, err := r.cfg.payload(alerts)
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonInvalid, Err: err}
	}
	client, err := r.http.Client()
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	u, err := r.cfg.address()
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	a, _, _ := delivery.Post(ctx, client, delivery.Target{Address: u.String(), Key: "url", MaxWait: maxWait, Kind: "a webhook", Own: isNoPage}, body)
	return a
}

// isNoPage reports whether a body is none of a login page or a proxy. What a webhook says is
// up to it.
func isNoPage(said []byte) bool { return !delivery.IsHTML(said) }

// Close closes idle connections.
func (r *receiver) Close() { r.http.Close() }
