package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/version"

	"crowsnest/httpconfig"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// Bounds of a request and of an answer.
const (
	maxAlerts = 64
	maxBody   = 1 << 20
	maxAnswer = 64 << 10
	maxWait   = 5 * time.Minute // longest Retry-After that is honoured
)

// Options are a Sink's dependencies: its Log, the clock Now (nil means time.Now),
// MaxKeys, the bound of the alerts in its state (0 means sinks.DefaultMaxKeys), and
// Accepted, which is called after the receiver accepted news: until the state is
// saved, a kill repeats that news.
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
		State: sinks.StateConfig{TextDelay: cfg.UpdateDelay, ResolvedFor: sinks.DefaultResolvedFor},
	}, &receiver{cfg: cfg})}, nil
}

// receiver is one server.
type receiver struct {
	cfg  Config
	http *http.Client // made at the first request: it reads files
	// transport replaces the real one in tests.
	transport http.RoundTripper
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
		alerts = withoutResolved(alerts)
	}
	if len(alerts) == 0 {
		return delivery.Answer{}
	}
	body, err := r.cfg.payload(alerts)
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonInvalid, Err: err}
	}
	u, err := r.cfg.address()
	if err == nil {
		err = r.open()
	}
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return r.post(ctx, u, body)
}

func withoutResolved(in []Alert) []Alert {
	var out []Alert
	for _, a := range in {
		if a.Event != EventResolved {
			out = append(out, a)
		}
	}
	return out
}

// open makes the HTTP client if there is none.
func (r *receiver) open() error {
	if r.http != nil {
		return nil
	}
	if r.transport != nil {
		r.http = &http.Client{Transport: r.transport, CheckRedirect: httpconfig.Stay}
		return nil
	}
	h, err := r.cfg.HTTP.Client("webhook",
		commonconfig.WithHTTP2Disabled(), commonconfig.WithIdleConnTimeout(time.Minute), commonconfig.WithUserAgent("crowsnest/"+version.Version))
	if err != nil {
		return err
	}
	r.http = h
	return nil
}

// Close closes idle connections.
func (r *receiver) Close() {
	if r.http != nil {
		r.http.CloseIdleConnections()
	}
}

func (r *receiver) post(ctx context.Context, u *url.URL, body []byte) delivery.Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: errors.New("the address cannot be used")} // err quotes it
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		return delivery.ConnectionFailed(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && resp.StatusCode/100 == 2 {
		return delivery.ConnectionFailed(err) // it is not certain what was accepted
	}
	return delivery.ParseResponse(resp, said, "url", maxWait)
}
