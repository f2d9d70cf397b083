package loki

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/httpconfig"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// Bounds of a request. Loki accepts 4 MiB by default; an entry has at most about
// 8 KiB.
const (
	maxEntries = 256
	maxBody    = 512 << 10
)

// Options are a Sink's dependencies: its Log, the clock Now (nil means time.Now),
// and MaxKeys, the bound of the alerts in its state (0 means sinks.DefaultMaxKeys).
type Options = delivery.Options

// Sink writes alerts into one Loki. An outage of Loki, of any length, delays
// nothing else and uses no more memory: afterwards Loki is sent the newest message
// of each alert. Safe for concurrent use.
type Sink struct {
	*delivery.Loop[entry]
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
		Name: cfg.Name, Endpoint: cfg.URL, MaxItems: maxEntries, MaxBytes: maxBody, Options: opt,
		State: delivery.History(cfg.UpdateDelay),
	}, &receiver{
		cfg: cfg, log: opt.Log.With().Str("component", "sink").Str("sink", cfg.Name).Logger(),
		http: httpconfig.Lazy{Config: cfg.HTTP, Name: "loki", UserAgent: "crowsnest", Idle: time.Second},
	})}, nil
}

// ownEvery is how often the receiver proves to be Loki.
const ownEvery = time.Minute

type receiver struct {
	cfg    Config
	log    zerolog.Logger
	http   httpconfig.Lazy
	proved time.Time // when the receiver last answered like Loki; zero if never
}

var _ delivery.Receiver[entry] = (*receiver)(nil)

// Encode returns the entry of one message.
func (r *receiver) Encode(m sinks.Message, now time.Time) (entry, int, error) {
	e, err := r.cfg.entry(m, now)
	return e, e.size(), err
}

// Deliver writes the entries as one request, in at most Timeout.
func (r *receiver) Deliver(ctx context.Context, entries []entry) delivery.Answer {
	if a := r.prove(ctx); a.Err != nil {
		return a
	}
	c, err := newClient(r.cfg, r.log)
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	return c.push(ctx, entries)
}

// prove pushes nothing and looks at the body of the answer, which the library does not show.
// Only an answer that cannot be Loki's is an error: how Loki judges an empty push depends on
// its version.
func (r *receiver) prove(ctx context.Context) delivery.Answer {
	if now := time.Now(); now.Sub(r.proved) < ownEvery {
		return delivery.Answer{}
	}
	client, err := r.http.Client()
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	to := delivery.Target{Address: r.cfg.URL + pushPath, Key: "url", Kind: "Loki", Own: delivery.IsJSONOrEmpty}
	a, code, _ := delivery.Post(ctx, client, to, []byte(`{"streams":[]}`))
	if a.Reason == delivery.ReasonForeign {
		return a
	}
	if code != 0 {
		r.proved = time.Now()
	}
	return delivery.Answer{}
}

// Close closes idle connections.
func (r *receiver) Close() { r.http.Close() }
