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
	maxRetryAfter = 60 // seconds
)

// Error is a response of the API other than 200. Callers should use its code, because
// error texts of logs often say only that the reason is not known.
type Error struct {
	Code    int
	Reason  string // such as Forbidden; empty if the server states none
	Message string // the server's text, truncated
	// RetryAfter is the delay that the server asks for, at most a minute. Zero means none.
	RetryAfter time.Duration
}

// Error renders code and message.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the API server answers %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("the API server answers %d: %s", e.Code, e.Message)
}

// Code returns the status code of an error of the API, 0 if err is not one.
func Code(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// RetryAfter returns how long the server asks to wait, 0 if it does not.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// Expired reports whether a resource version is too old, so that a new list is needed.
func Expired(err error) bool { return Code(err) == http.StatusGone }

// Explain returns the text for an operator about an error: for refused credentials how to
// renew them, for a missing permission what refused says, else what failed.
func Explain(err error, refused, failed string) string {
	switch Code(err) {
	case http.StatusUnauthorized:
		return fmt.Sprintf("the API server refuses the credentials: renew the token or the kubeconfig, it is read again every %v (%v)", SlowRetry, err)
	case http.StatusForbidden:
		return fmt.Sprintf("%s (%v)", refused, err)
	}
	return fmt.Sprintf("%s: %v", failed, err)
}

// status holds the fields of metav1.Status that are used here.
type status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Details struct {
		RetryAfterSeconds int `json:"retryAfterSeconds"`
	} `json:"details"`
}

func (s status) error() *Error {
	return &Error{
		Code: s.Code, Reason: s.Reason, Message: cut(s.Message),
		RetryAfter: time.Duration(min(s.Details.RetryAfterSeconds, maxRetryAfter)) * time.Second,
	}
}

// readError returns the error of a response. Its code is that of the response.
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
	return s.error()
}

// cut returns one short line of a server's text.
func cut(s string) string {
	return text.Shorten(strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " "), maxErrorText)
}
