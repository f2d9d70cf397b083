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
	maxRetryAfter = time.Minute
)

// Error is an API answer other than 200. Callers should use its code: error texts of
// logs often say only that the reason is not known.
type Error struct {
	Code    int
	Reason  string // of the Status object, such as Forbidden; "" : none
	Message string // of the server, truncated
	// RetryAfter is the delay that the server asks for, at most a minute; 0: none.
	RetryAfter time.Duration
}

// Error renders code and message.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the API server answers %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("the API server answers %d: %s", e.Code, e.Message)
}

// Code returns the status code of an error of the API, 0 if err is another one.
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

// Expired reports whether err means that a resource version is too old: list again.
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

func (s status) error(code int) *Error {
	if s.Code != 0 {
		code = s.Code
	}
	return &Error{
		Code: code, Reason: s.Reason, Message: cut(s.Message),
		RetryAfter: min(time.Duration(s.Details.RetryAfterSeconds)*time.Second, maxRetryAfter),
	}
}

// readError returns the error of an answer. Its code is that of the answer.
func readError(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	var s status
	if json.Unmarshal(body, &s) != nil {
		s = status{Message: string(body)}
	}
	s.Code = res.StatusCode
	e := s.error(res.StatusCode)
	if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
		e.RetryAfter = min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	return e
}

// cut returns one short line of a server's text.
func cut(s string) string {
	return text.Shorten(strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " "), maxErrorText)
}
