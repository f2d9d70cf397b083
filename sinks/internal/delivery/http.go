package delivery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"crowsnest/httpconfig"
)

// errTimeout is the error of a request that was not answered in time.
var errTimeout = errors.New("no answer in time")

// TimedOut returns the answer of a receiver that did not answer in time.
func TimedOut() Answer { return Answer{Reason: ReasonTimeout, Err: errTimeout} }

// ConnectionFailed returns the answer for an error of net/http. It does not quote
// the address, which may be a secret.
func ConnectionFailed(err error) Answer {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || (errors.As(err, &timeout) && timeout.Timeout()) {
		return TimedOut()
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // it quotes the address
	}
	return Answer{Reason: ReasonConnection, Err: errors.New(Excerpt(err.Error()))}
}

// ReasonOf returns what an HTTP status means for the messages of a request; "":
// they were accepted.
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

// ParseResponse returns the answer of an HTTP response; said is the beginning of
// its body, key the configuration key of the address, and maxWait the longest
// Retry-After that is honoured.
func ParseResponse(resp *http.Response, said []byte, key string, maxWait time.Duration) Answer {
	a := Answer{Reason: ReasonOf(resp.StatusCode)}
	switch a.Reason {
	case "":
		return a
	case ReasonRedirect:
		to := "elsewhere"
		if u, err := resp.Location(); err == nil {
			to = Excerpt(u.Scheme + "://" + u.Host)
		}
		a.Err = fmt.Errorf("status %d: redirected to %s, which is not followed; put the final address into %s", resp.StatusCode, to, key)
		return a
	case ReasonRateLimited, ReasonServerError:
		a.RetryAfter = httpconfig.RetryAfter(resp.Header, maxWait)
	}
	a.Err = fmt.Errorf("status %d: %s", resp.StatusCode, Excerpt(string(said)))
	return a
}
