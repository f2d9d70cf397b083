package loki

import (
	"cmp"
	"context"
	"errors"
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

// stopWithin is how much longer than a request the library may take to stop.
const stopWithin = 2 * time.Second

// pusher is a client of the library for one request. The library's Handle says
// nothing of what becomes of an entry and blocks while a batch is tried again,
// its Stop tries for minutes, and after Stop Handle blocks for ever. So:
//
//   - one client is made per request, with as much as one batch: it collects,
//     and sends on Stop, once; trying again is our own business;
//   - what became of it is what the client logs, and it logs to us;
//   - Handle is called before Stop only, Stop in a goroutine of its own with a
//     deadline. Where that passes, the goroutine ends by itself with the request
//     that it waits for: within Timeout;
//   - its JSON, which Loki takes and forgets, is never used.
type pusher struct {
	*client.Client
	out    *outcome
	within time.Duration
}

// newClient makes a client for one request. It reads the files of http_config.
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
		// Only Stop sends.
		BatchWait: 10 * time.Hour, BatchSize: math.MaxInt,
		BackoffConfig: backoff.BackoffConfig{MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond, MaxRetries: 1},
	}, out)
	if err != nil {
		return nil, err
	}
	// Its transport cannot be reached, so its connection could only be closed
	// after five idle minutes. Asked for by header, the server closes it. The
	// header is refused in a configuration, as it does no good in most.
	headers["Connection"] = commonconfig.Header{Values: []string{"close"}}
	return &pusher{Client: c, out: out, within: cfg.Timeout + stopWithin}, nil
}

// push writes the entries and says what became of them, soon after ctx ends.
func (p *pusher) push(ctx context.Context, entries []entry) delivery.Answer {
	for _, e := range entries {
		if err := p.HandleWithMetadata(e.labels, e.time, e.line, e.metadata); err != nil {
			p.out.fail(0, err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Stop()
	}()
	deadline := time.NewTimer(p.within)
	defer deadline.Stop()
	select {
	case <-done:
		return p.out.answer()
	case <-ctx.Done():
	case <-deadline.C:
	}
	return delivery.TimedOut()
}

// outcome listens to what a client logs. It is safe for concurrent use.
type outcome struct {
	log zerolog.Logger

	mu     sync.Mutex
	failed bool
	status int
	err    error
}

// The messages with which the library gives a batch up.
const (
	gaveUp  = "final error sending batch"
	notSent = "error encoding batch"
)

// Log implements the logger of go-kit, which the library uses.
func (o *outcome) Log(keyvals ...any) error {
	said := map[string]any{}
	for i := 0; i+1 < len(keyvals); i += 2 {
		if key, ok := keyvals[i].(string); ok {
			said[key] = keyvals[i+1]
		}
	}
	msg, _ := said["msg"].(string)
	err, _ := said["error"].(error)
	o.log.Debug().Err(err).Msg("loki client: " + msg)
	if msg != gaveUp && msg != notSent {
		return nil
	}
	status, _ := said["status"].(int)
	if err == nil {
		err = errors.New(msg)
	}
	if msg == notSent {
		status = http.StatusBadRequest
	}
	o.fail(status, err)
	return nil
}

func (o *outcome) fail(status int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed, o.status, o.err = true, status, err
}

// answer says what became of the batch.
func (o *outcome) answer() delivery.Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failed {
		return delivery.Answer{}
	}
	if o.status <= 0 {
		return delivery.ConnectionFailed(o.err)
	}
	reason := cmp.Or(delivery.ReasonOf(o.status), delivery.ReasonServerError)
	return delivery.Answer{Reason: reason, Err: errors.New(delivery.Excerpt(o.err.Error()))}
}
