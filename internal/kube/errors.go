package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"crowsnest/internal/text"
)

const (
	maxErrorBody  = 64 << 10
	maxErrorText  = 300
	maxRetryAfter = 60 // maximum delay in seconds
)

// Error is an error response of the API. Callers should check its code, because the text of an error about a log often
// states no reason.
type Error struct {
	Code    int
	Reason  string // reason such as Forbidden; empty if the server states none
	Message string // text of the server, possibly truncated
	// RetryAfter is the delay that the server asks for, at most one minute. Zero means that it asks for none.
	RetryAfter time.Duration
}

// Error returns the code and the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the API server answers %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("the API server answers %d: %s", e.Code, e.Message)
}

// StatusCode returns the HTTP status of an error of the API, or 0 for another error.
func StatusCode(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// RetryAfter returns the delay that the server asks for, or 0 if it asks for none.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// IsExpired reports whether err means that a resource version is too old, so that a new list is needed.
func IsExpired(err error) bool { return StatusCode(err) == http.StatusGone }

// ExplainError returns a text about an error for an operator. For refused credentials, the text explains how to renew
// them. For a missing permission, the text begins with refused. For any other error, it begins with failed.
func ExplainError(err error, refused, failed string) string {
	switch StatusCode(err) {
	case http.StatusUnauthorized:
		return fmt.Sprintf("the API server refuses the credentials: renew the token or the kubeconfig, it is read again every %v (%v)", SlowRetry, err)
	case http.StatusForbidden:
		return fmt.Sprintf("%s (%v)", refused, err)
	}
	return fmt.Sprintf("%s: %v", failed, err)
}

// status holds the fields of metav1.Status that are used.
type status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Details struct {
		RetryAfterSeconds int `json:"retryAfterSeconds"`
	} `json:"details"`
}

func (s status) toError() *Error {
	return &Error{
		Code: s.Code, Reason: s.Reason,
		Message:    text.Shorten(strings.Join(strings.Fields(strings.ToValidUTF8(s.Message, "?")), " "), maxErrorText),
		RetryAfter: time.Duration(min(s.Details.RetryAfterSeconds, maxRetryAfter)) * time.Second,
	}
}

// readError returns the error of a response. Its code is the status of the response.
func readError(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	var s status
	if json.Unmarshal(body, &s) != nil {
		s = status{Message: string(body)}
	}
	s.Code = res.StatusCode
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		s.Details.RetryAfterSeconds = n
	}
	return s.toError()
}
