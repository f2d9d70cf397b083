package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"crowsnest/internal/httpconfig"
)

// Reasons why messages are not delivered, as they appear in metrics and in the API.
const (
	ReasonConnection  = "connection"   // the connection failed or broke
	ReasonTimeout     = "timeout"      // there was no answer in time
	ReasonRedirect    = "redirect"     // HTTP status 3xx
	ReasonAuth        = "auth"         // HTTP status 401 or 403
	ReasonRateLimited = "rate_limited" // HTTP status 429
	ReasonClientError = "client_error" // other HTTP status 4xx
	ReasonServerError = "server_error" // HTTP status 5xx
	ReasonRefused     = "refused"      // the receiver refused the content
	ReasonInvalid     = "invalid"      // the message was not sent, because it cannot be encoded
	ReasonConfig      = "config"       // the client cannot be made, because a TLS or secret file is unusable
	ReasonEvicted     = "evicted"      // the message was dropped, because there are too many alerts
	ReasonForeign     = "foreign"      // 2xx, but the response is not from the expected receiver
)

// Reasons returns every reason.
func Reasons() []string {
	return []string{
		ReasonConnection, ReasonTimeout, ReasonRedirect, ReasonAuth, ReasonRateLimited, ReasonClientError,
		ReasonServerError, ReasonRefused, ReasonInvalid, ReasonConfig, ReasonEvicted, ReasonForeign,
	}
}

// Answer is the outcome of one request.
type Answer struct {
	Reason     string        // one of the reasons above; empty if the messages were accepted
	Err        error         // error of the request; nil if the messages were accepted
	RetryAfter time.Duration // delay that the receiver asked for; zero if none
	Code       int           // HTTP status for display; zero if there is none
	Taken      int           // number of first messages that were accepted in spite of Err
}

// Refused reports whether the receiver refused the content of the messages, so that sending
// the same request again is useless.
func (a Answer) Refused() bool { return a.Reason == ReasonRefused }

var errTimeout = errors.New("no answer in time")

// TimedOut returns the answer of a receiver that did not answer in time.
func TimedOut() Answer { return Answer{Reason: ReasonTimeout, Err: errTimeout} }

// ConnectionFailed returns the answer for an error of net/http. It does not quote the address,
// which may contain a secret.
func ConnectionFailed(err error) Answer {
	timeout, cause := httpconfig.DescribeNoResponse(err)
	if timeout {
		return TimedOut()
	}
	return Answer{Reason: ReasonConnection, Err: errors.New(Excerpt(cause.Error()))}
}

// ReasonOf returns the reason for an HTTP status, or "" if the status means that the messages were accepted.
func ReasonOf(status int) string {
	switch {
	case status/100 == 2:
		return ""
	case status/100 == 3:
		return ReasonRedirect
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || status == http.StatusRequestEntityTooLarge:
		return ReasonRefused
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ReasonAuth
	case status == http.StatusTooManyRequests:
		return ReasonRateLimited
	case status/100 == 4:
		return ReasonClientError
	}
	return ReasonServerError
}

// maxAnswer is the largest number of bytes that are read of a response.
const maxAnswer = 64 << 10

// Target is the destination of a Post.
type Target struct {
	Address string
	Key     string        // configuration key of the address
	MaxWait time.Duration // longest Retry-After of the receiver that is respected
	Kind    string        // name of the kind of receiver, for messages to people
	// IsReceiver reports whether a response with status 2xx can come from the receiver. The check is needed because an
	// ingress, a proxy or a login page accepts every request. said is the start of the response body.
	IsReceiver func(said []byte) bool
}

// IsHTML reports whether a body is an HTML page.
func IsHTML(said []byte) bool {
	said = bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(said[:min(len(said), 512)], []byte("\xef\xbb\xbf"))))
	return bytes.HasPrefix(said, []byte("<!doctype html")) || bytes.HasPrefix(said, []byte("<html")) || bytes.HasPrefix(said, []byte("<head"))
}

// IsJSONOrEmpty reports whether a body is empty or JSON.
func IsJSONOrEmpty(said []byte) bool {
	said = bytes.TrimSpace(said)
	return len(said) == 0 || json.Valid(said)
}

// Post sends a JSON body. It returns the status and the header of the response, or 0 and nil if
// there was none. The error of the answer does not quote the address.
func Post(ctx context.Context, client *http.Client, target Target, body []byte) (a Answer, code int, header http.Header) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.Address, bytes.NewReader(body))
	if err != nil {
		return Answer{Reason: ReasonConfig, Err: errors.New("the address cannot be used")}, 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return ConnectionFailed(err), 0, nil
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && resp.StatusCode/100 == 2 {
		return ConnectionFailed(err), 0, nil // part of the messages may have been accepted
	}
	return target.parseResponse(resp, said), resp.StatusCode, resp.Header
}

func (t Target) parseResponse(resp *http.Response, said []byte) Answer {
	a := Answer{Reason: ReasonOf(resp.StatusCode)}
	switch a.Reason {
	case "":
		if t.IsReceiver != nil && !t.IsReceiver(said) {
			return Answer{Reason: ReasonForeign, Code: resp.StatusCode, Err: fmt.Errorf(
				"status %d, but the response does not come from %s (%s): put the address of %s itself into %s, not the address of a login page or of a proxy that answers by itself",
				resp.StatusCode, t.Kind, Excerpt(string(said)), t.Kind, t.Key)}
		}
		return a
	case ReasonRedirect:
		to := "elsewhere"
		if u, err := resp.Location(); err == nil {
			to = Excerpt(u.Scheme + "://" + u.Host)
		}
		a.Err = fmt.Errorf("status %d: redirected to %s, which is not followed; put the final address into %s", resp.StatusCode, to, t.Key)
		return a
	case ReasonRateLimited, ReasonServerError:
		a.RetryAfter = httpconfig.RetryAfter(resp.Header, t.MaxWait)
	}
	a.Err = fmt.Errorf("status %d: %s", resp.StatusCode, Excerpt(string(said)))
	return a
}
