package loki

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"sync"
	"time"

	client "github.com/grafana/loki-client-go/loki"
	"github.com/grafana/loki-client-go/pkg/backoff"
	"github.com/grafana/loki-client-go/pkg/urlutil"
	commonconfig "github.com/prometheus/common/config"
	"github.com/rs/zerolog"

	"crowsnest/sinks/internal/delivery"
)

// stopWithin is the time that the library's client may take to stop after its request has ended.
const stopWithin = 2 * time.Second

// pusher is a client of the library for one request. The library's client does not report whether it delivered an
// entry. Its HTTP client can be neither replaced nor wrapped. Only Stop shows that a batch was sent. A client for
// several requests would send when its timer fires, and it would count successes together with all other clients of the
// same host. The consequences are:
//
//   - Each request has its own client with at most one batch. The client collects entries and
//     sends them once, in Stop. The delivery loop retries.
//   - The client logs at level error if it did not deliver the batch.
//   - Handle is called only before Stop, because afterwards it would block forever.
//   - Stop is called in its own goroutine with a deadline. After the deadline, this goroutine
//     ends with its request, within Timeout.
//   - The library's JSON, which Loki accepts and drops, is never used.
type pusher struct {
	*client.Client
	out     *outcome
	timeout time.Duration
}

func newClient(cfg Config, log zerolog.Logger) (*pusher, error) {
	u, err := url.Parse(cfg.URL + pushPath)
	if err != nil {
		return nil, err
	}
	out := &outcome{log: log}
	http := cfg.HTTP.HTTPClientConfig
	http.FollowRedirects = false
	headers := map[string]commonconfig.Header{"Accept": {Values: []string{"*/*"}}}
	if http.HTTPHeaders != nil {
		maps.Copy(headers, http.HTTPHeaders.Headers)
	}
	http.HTTPHeaders = &commonconfig.Headers{Headers: headers}
	c, err := client.NewWithLogger(client.Config{
		URL: urlutil.URLValue{URL: u}, Client: http, TenantID: cfg.Tenant, Timeout: cfg.Timeout,
		// A batch must not become due by time or size, because only Stop sends.
		BatchWait: 10 * time.Hour, BatchSize: math.MaxInt,
		BackoffConfig: backoff.BackoffConfig{MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond, MaxRetries: 1},
	}, out)
	if err != nil {
		return nil, err
	}
	// The library does not give access to the client's transport, so its connection would stay open for five idle
	// minutes. This header makes the server close the connection. Configurations cannot set this header.
	headers["Connection"] = commonconfig.Header{Values: []string{"close"}}
	return &pusher{Client: c, out: out, timeout: cfg.Timeout + stopWithin}, nil
}

// push writes the entries and returns the answer. It returns soon after ctx ends.
func (p *pusher) push(ctx context.Context, entries []entry) delivery.Answer {
	for _, e := range entries {
		if err := p.HandleWithMetadata(e.labels, e.time, e.line, e.metadata); err != nil {
			p.out.setAnswer(delivery.ConnectionFailed(err))
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Stop()
	}()
	deadline := time.NewTimer(p.timeout)
	defer deadline.Stop()
	select {
	case <-done:
		return p.out.answer()
	case <-ctx.Done():
	case <-deadline.C:
	}
	return delivery.TimedOut()
}

// outcome is the result of sending a client's batch, derived from the client's log messages.
// It is safe for concurrent use.
type outcome struct {
	log zerolog.Logger

	mu     sync.Mutex
	result delivery.Answer
}

// Log implements the go-kit logger that the library uses.
func (o *outcome) Log(keyvals ...any) error {
	said := map[string]any{}
	for i := 0; i+1 < len(keyvals); i += 2 {
		said[fmt.Sprint(keyvals[i])] = keyvals[i+1]
	}
	err, _ := said["error"].(error)
	o.log.Debug().Err(err).Msgf("loki client: %v", said["msg"])
	if fmt.Sprint(said["level"]) != "error" {
		return nil
	}
	status, sent := said["status"].(int)
	if !sent {
		status = http.StatusBadRequest // the library could not encode the batch
	}
	if err = cmp.Or(err, errors.New("the client dropped the batch")); status <= 0 {
		o.setAnswer(delivery.ConnectionFailed(err))
		return nil
	}
	reason := cmp.Or(delivery.ReasonOf(status), delivery.ReasonServerError)
	o.setAnswer(delivery.Answer{Reason: reason, Err: errors.New(delivery.Excerpt(err.Error()))})
	return nil
}

func (o *outcome) setAnswer(a delivery.Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result = a
}

func (o *outcome) answer() delivery.Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.result
}
