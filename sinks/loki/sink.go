package loki

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// Limits of a request. Loki accepts 4 MiB by default. An entry has at most about 8 KiB.
const (
	maxEntries = 256
	maxBody    = 512 << 10
)

// Options are the dependencies of a Sink. The zero values of Now and MaxKeys mean time.Now and sinks.DefaultMaxKeys.
type Options = delivery.Options

// Sink writes alerts into one Loki. During an outage of Loki it keeps only the newest message
// of each alert, and sends it afterwards. It is safe for concurrent use.
type Sink struct {
	*delivery.Loop[entry]
}

// New returns a Sink. It fails if cfg is invalid. It starts nothing and does no I/O.
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

// ownEvery is the interval at which the sink checks that the receiver is a Loki.
const ownEvery = time.Minute

type receiver struct {
	cfg    Config
	log    zerolog.Logger
	http   httpconfig.Lazy
	proved time.Time // time of the last response that can only come from a Loki; zero if there was none
}

func (r *receiver) Encode(m sinks.Message, now time.Time) (entry, int, error) {
	e, err := r.cfg.newEntry(m, now)
	return e, e.size(), err
}

func (r *receiver) Deliver(ctx context.Context, entries []entry) delivery.Answer {
	if a := r.probeReceiver(ctx); a.Err != nil {
		return a
	}
	c, err := newClient(r.cfg, r.log)
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	return c.push(ctx, entries)
}

// probeReceiver sends an empty push and checks the body of the response, which the library
// does not show. Only a response that cannot come from a Loki is an error, because the status
// for an empty push depends on the version of Loki.
func (r *receiver) probeReceiver(ctx context.Context) delivery.Answer {
	if now := time.Now(); now.Sub(r.proved) < ownEvery {
		return delivery.Answer{}
	}
	client, err := r.http.Client()
	if err != nil {
		return delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	to := delivery.Target{Address: r.cfg.URL + pushPath, Key: "url", Kind: "Loki", IsReceiver: delivery.IsJSONOrEmpty}
	a, code, _ := delivery.Post(ctx, client, to, []byte(`{"streams":[]}`))
	if a.Reason == delivery.ReasonForeign {
		return a
	}
	if code != 0 {
		r.proved = time.Now()
	}
	return delivery.Answer{}
}

func (r *receiver) Close() { r.http.Close() }
