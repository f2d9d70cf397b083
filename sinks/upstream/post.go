package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/hits"
	"crowsnest/httpconfig"
)

const (
	maxAnswer = 64 << 10
	maxReason = 300 // bytes kept of an answer
)

// The reasons why a message was not accepted, as named in metrics and the API.
const (
	reasonConnection  = "connection"   // no connection, or it broke
	reasonTimeout     = "timeout"      // no answer in time
	reasonRedirect    = "redirect"     // 3xx
	reasonAuth        = "auth"         // 401, 403
	reasonConflict    = "conflict"     // 409: another agent has the name
	reasonVersion     = "version"      // 415: the aggregator is older
	reasonRefused     = "refused"      // 400: this batch cannot be read
	reasonBusy        = "busy"         // 429, 503
	reasonClientError = "client_error" // other 4xx
	reasonServerError = "server_error" // other 5xx
	reasonConfig      = "config"       // the client cannot be made: a TLS or secret file
)

func reasons() []string {
	return []string{
		reasonConnection, reasonTimeout, reasonRedirect, reasonAuth, reasonConflict, reasonVersion, reasonRefused,
		reasonBusy, reasonClientError, reasonServerError, reasonConfig,
	}
}

// clientMaker makes the HTTP client on first use: it reads files.
type clientMaker func() (*http.Client, error)

func newClientMaker(cfg Config, transport http.RoundTripper, opts ...commonconfig.HTTPClientOption) clientMaker {
	if transport != nil {
		return func() (*http.Client, error) {
			return &http.Client{Transport: transport, CheckRedirect: httpconfig.Stay}, nil
		}
	}
	return func() (*http.Client, error) {
		// HTTP/2 would put the next try on the connection that just hung.
		opts = append(opts, commonconfig.WithHTTP2Disabled(), commonconfig.WithIdleConnTimeout(5*time.Minute), commonconfig.WithUserAgent("crowsnest"))
		return cfg.HTTP.Client("upstream", opts...)
	}
}

// answer is the outcome of one message.
type answer struct {
	code       int         // 0: none came
	text       []byte      // of an answer with status 200
	said       hits.Answer // of a message
	reason     string
	err        error         // nil: it was understood
	retryAfter time.Duration // 0: not said
}

// send posts a message.
func (w *sender) send(ctx context.Context, m *hits.Message) answer {
	if w.http == nil {
		h, err := w.s.http()
		if err != nil {
			return answer{reason: reasonConfig, err: err}
		}
		w.http = h
	}
	w.buf = m.Append(w.buf[:0])
	a := w.post(ctx, hits.Path, hits.ContentType, w.buf)
	if a.code == 0 {
		w.buf = nil // the transport may still read it
	}
	if a.err == nil {
		if err := json.Unmarshal(a.text, &a.said); err != nil {
			return answer{code: a.code, reason: reasonServerError, err: errors.New("the answer does not come from crowsnest; url must be the address of sources.agents of an aggregator")}
		}
	}
	return a
}

// post sends a body.
func (w *sender) post(ctx context.Context, path, kind string, body []byte) answer {
	ctx, cancel := context.WithTimeout(ctx, w.s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.s.cfg.URL+path, bytes.NewReader(body))
	if err != nil {
		return answer{reason: reasonConfig, err: err}
	}
	req.Header.Set("Content-Type", kind)
	changes := w.s.changes()
	resp, err := w.http.Do(req)
	if err != nil {
		return failed(err)
	}
	w.s.saw(resp.Header.Get(hits.ProcessHeader), changes)
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return failed(err)
	}
	return judge(resp, text)
}

// failed returns the answer for an error of net/http.
func failed(err error) answer {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout() {
		return answer{reason: reasonTimeout, err: errors.New("no answer in time")}
	}
	var broken *url.Error
	if errors.As(err, &broken) {
		err = broken.Err // the address is reported elsewhere
	}
	return answer{reason: reasonConnection, err: errors.New(excerpt(err.Error()))}
}

// judge returns the answer of an HTTP response. If something other than an
// aggregator answers, the batch is not to blame.
func judge(resp *http.Response, said []byte) answer {
	a := answer{code: resp.StatusCode}
	ours := resp.Header.Get(hits.Header) != ""
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		a.text = said
		return a
	case code/100 == 2:
		return answer{code: code, reason: reasonServerError, err: fmt.Errorf("status %d: url must be the address of sources.agents of an aggregator", code)}
	case code/100 == 3:
		a.reason = reasonRedirect
		a.err = fmt.Errorf("status %d: redirected, which is not followed; put the final address into url", code)
		return a
	case code == http.StatusConflict && ours:
		a.reason, a.err = reasonConflict, errConflict
		return a
	case code == http.StatusUnsupportedMediaType && ours:
		a.reason = reasonVersion
	case code == http.StatusBadRequest && ours:
		a.reason = reasonRefused
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		a.reason = reasonAuth
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		a.reason = reasonBusy
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			a.retryAfter = min(time.Duration(n), maxRetry/time.Second) * time.Second
		}
	case code/100 == 4:
		a.reason = reasonClientError
	default:
		a.reason = reasonServerError
	}
	a.err = fmt.Errorf("status %d: %s", resp.StatusCode, excerpt(string(said)))
	return a
}

// excerpt returns one short line of a text.
func excerpt(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}
