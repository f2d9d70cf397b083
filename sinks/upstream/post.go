package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"crowsnest/hits"
	"crowsnest/httpconfig"
	"crowsnest/sinks/internal/delivery"
)

const maxAnswer = 64 << 10

// The reasons why a message was not accepted, as named in metrics and the API, beside
// those of delivery.
const (
	reasonConflict = "conflict" // 409: another agent has the name
	reasonStandby  = "standby"  // 421: it stands by while another process leads
	reasonVersion  = "version"  // 415: the aggregator is older
	reasonBusy     = "busy"     // 429, 503
)

func reasons() []string {
	return []string{
		delivery.ReasonConnection, delivery.ReasonTimeout, delivery.ReasonRedirect, delivery.ReasonAuth, reasonConflict, reasonStandby, reasonVersion,
		delivery.ReasonRefused, reasonBusy, delivery.ReasonClientError, delivery.ReasonServerError, delivery.ReasonConfig,
	}
}

// answer is the outcome of one message.
type answer struct {
	code       int         // 0: none came
	text       []byte      // of an answer with status 200
	said       hits.Answer // of a message
	reason     string
	err        error         // nil: it was understood
	retryAfter time.Duration // 0: not given
}

func (w *sender) send(ctx context.Context, m *hits.Message) answer {
	if w.s.speaks() < hits.VersionLagging { // everything waits for the lagging streams
		m.Watermark, m.Lagging = earliest(m.Watermark, m.Lagging), nil
	}
	w.buf = m.Append(w.buf[:0])
	a := w.post(ctx, hits.Path, hits.ContentType, w.buf)
	if a.code == 0 {
		w.buf = nil // the transport may still read it
	}
	if a.err == nil {
		if err := json.Unmarshal(a.text, &a.said); err != nil {
			return answer{code: a.code, reason: delivery.ReasonServerError, err: errors.New("the answer does not come from crowsnest; url must be the address of sources.agents of an aggregator")}
		}
	}
	return a
}

func (w *sender) post(ctx context.Context, path, kind string, body []byte) answer {
	client, err := w.s.http.Client()
	if err != nil {
		return answer{reason: delivery.ReasonConfig, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, w.s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.s.targets.url()+path, bytes.NewReader(body))
	if err != nil {
		return answer{reason: delivery.ReasonConfig, err: err}
	}
	req.Header.Set("Content-Type", kind)
	w.reconnect(w.s.now())
	resp, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	w.s.saw(resp.Header.Get(hits.ProcessHeader))
	w.s.heard(resp.Header.Get(hits.Header))
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return failed(err)
	}
	return judge(resp, text)
}

// heard records the protocol version that an answer states, if an aggregator gave it.
func (s *Sink) heard(version string) {
	if v, err := strconv.Atoi(version); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.version = v
	}
}

func (s *Sink) speaks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// failed returns the answer for an error of net/http.
func failed(err error) answer {
	a := delivery.ConnectionFailed(err)
	return answer{reason: a.Reason, err: a.Err}
}

// judge returns the answer of an HTTP response. If something other than an
// aggregator answers, the batch is not to blame.
func judge(resp *http.Response, said []byte) answer {
	code, ours := resp.StatusCode, resp.Header.Get(hits.Header) != ""
	a := answer{code: code, reason: delivery.ReasonOf(code), err: fmt.Errorf("status %d: %s", code, delivery.Excerpt(string(said)))}
	switch {
	case code == http.StatusOK:
		return answer{code: code, text: said}
	case a.reason == "":
		a.reason = delivery.ReasonServerError
		a.err = fmt.Errorf("status %d: url must be the address of sources.agents of an aggregator", code)
	case a.reason == delivery.ReasonRedirect:
		a.err = fmt.Errorf("status %d: redirected, which is not followed; put the final address into url", code)
	case code == http.StatusConflict && ours:
		a.reason, a.err = reasonConflict, errConflict
	case code == http.StatusMisdirectedRequest && ours:
		a.reason = reasonStandby
	case code == http.StatusUnsupportedMediaType && ours:
		a.reason = reasonVersion
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		a.reason, a.retryAfter = reasonBusy, httpconfig.RetryAfter(resp.Header, maxRetry)
	case a.reason == delivery.ReasonRefused && (code != http.StatusBadRequest || !ours):
		a.reason = delivery.ReasonClientError
	}
	return a
}
