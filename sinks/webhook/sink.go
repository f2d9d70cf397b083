package webhook

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/prometheus/common/version"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// Limits of a request.
const (
	maxAlerts = 64
	maxBody   = 1 << 20
	maxWait   = 5 * time.Minute // longest Retry-After that is respected
)

// Options are the dependencies of a Sink. The zero values of Now and MaxKeys mean time.Now and sinks.DefaultMaxKeys. If
// the process is killed after OnAccepted was called and before the state is saved, the change is sent again.
type Options = delivery.Options

// Sink posts alerts to one URL. It repeats a request, with pauses of up to 30 s, until the receiver accepts it. Only
// the newest message of each alert is sent. It is safe for concurrent use.
type Sink struct {
	*delivery.Loop[Alert]
}

// New returns a Sink. It fails if cfg is invalid. It starts nothing and does no I/O.
func New(cfg Config, opt Options) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Sink{delivery.New(delivery.Config{
		Name: cfg.Name, Endpoint: cfg.receiverName(), MaxItems: maxAlerts, MaxBytes: maxBody, Options: opt,
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

func (r *receiver) Encode(m sinks.Message, _ time.Time) (Alert, int, error) {
	a, err := r.cfg.newAlert(m)
	if err != nil {
		return a, 0, err
	}
	b, err := json.Marshal(a)
	return a, 3 * len(b), err // allows for common labels and annotations, which appear several times in a request
}

func (r *receiver) Deliver(ctx context.Context, alerts []Alert) delivery.Answer {
	if !*r.cfg.SendResolved {
		alerts = slices.DeleteFunc(alerts, func(a Alert) bool { return a.Status == statusResolved })
	}
	if len(alerts) == 0 {
		return delivery.Answer{}
	}
	body, err := r.cfg.encodePayload(alerts)
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonInvalid, Err: err}
	}
	client, err := r.http.Client()
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	u, err := r.cfg.postURL()
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	a, _, _ := delivery.Post(ctx, client, delivery.Target{Address: u.String(), Key: "url", MaxWait: maxWait, Kind: "a webhook", IsReceiver: isNoPage}, body)
	return a
}

// isNoPage reports whether a body is not an HTML page, such as a login page or the error page
// of a proxy. A webhook may return any other body.
func isNoPage(said []byte) bool { return !delivery.IsHTML(said) }

func (r *receiver) Close() { r.http.Close() }
