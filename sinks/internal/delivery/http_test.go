package delivery

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/pause"
)

func TestJudge(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 204: "", 301: ReasonRedirect, 307: ReasonRedirect, 400: ReasonRefused, 401: ReasonAuth, 403: ReasonAuth,
		404: ReasonClientError, 413: ReasonRefused, 422: ReasonRefused, 429: ReasonRateLimited, 500: ReasonServerError, 503: ReasonServerError,
	} {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"7"}}}
		a := Target{Key: "url", MaxWait: 5 * time.Second}.parseResponse(resp, []byte("why\nnot\x1b"))
		require.Equal(t, want, a.Reason, status)
		require.Equal(t, want == ReasonRefused, a.Refused())
		require.Equal(t, want == "", a.Err == nil)
		wait := time.Duration(0)
		if want == ReasonRateLimited || want == ReasonServerError {
			wait = 5 * time.Second
		}
		require.Equal(t, wait, a.RetryAfter, status)
		if want != "" && want != ReasonRedirect {
			require.ErrorContains(t, a.Err, ": why not")
		}
	}
	moved := &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://u:p@other.example/secret"}}}
	require.EqualError(t, Target{Key: "urls"}.parseResponse(moved, nil).Err, "status 302: redirected to https://other.example, which is not followed; put the final address into urls")
}

func TestBroken(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, &url.Error{Op: "Post", URL: "http://secret", Err: context.Canceled}} {
		require.Equal(t, TimedOut(), ConnectionFailed(err))
	}
	a := ConnectionFailed(&url.Error{Op: "Post", URL: "http://secret", Err: errors.New(strings.Repeat("no way ", 100))})
	require.Equal(t, ReasonConnection, a.Reason)
	require.ErrorContains(t, a.Err, "no way")
	require.NotContains(t, a.Err.Error(), "secret")
	require.LessOrEqual(t, len(a.Err.Error()), MaxExcerpt)
}

func TestOutlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		reqs, cancel := drainContext(ctx)
		defer cancel()
		pause.Sleep(ctx, time.Hour, nil)
		require.NoError(t, reqs.Err())
		end()
		began := time.Now()
		pause.Sleep(ctx, time.Hour, nil)
		require.Zero(t, time.Since(began), "ctx has ended")
		<-reqs.Done()
		require.Equal(t, Drain, time.Since(began))
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		pause.Sleep(t.Context(), time.Hour, wake)
		require.Equal(t, Drain, time.Since(began))
	})
}

// Whatever accepts anything, such as a login page, has not accepted the alerts.
func TestForeignAnswers(t *testing.T) {
	page := "\n<!DOCTYPE html><title>Sign in</title>"
	for _, c := range []struct {
		own  func([]byte) bool
		said string
		mine bool
	}{
		{IsJSONOrEmpty, "", true},
		{IsJSONOrEmpty, " \n", true},
		{IsJSONOrEmpty, `{"status":"success"}`, true},
		{IsJSONOrEmpty, page, false},
		{IsJSONOrEmpty, "default backend", false},
		{func(said []byte) bool { return !IsHTML(said) }, "ok", true},
		{func(said []byte) bool { return !IsHTML(said) }, "<p>ok", true},
		{func(said []byte) bool { return !IsHTML(said) }, "\xef\xbb\xbf" + page, false},
		{func(said []byte) bool { return !IsHTML(said) }, "<HTML lang=en>", false},
	} {
		a := Target{Key: "urls", Kind: "Alertmanager", IsReceiver: c.own}.parseResponse(&http.Response{StatusCode: 200}, []byte(c.said))
		require.Equal(t, c.mine, a.Err == nil, c.said)
		if !c.mine {
			require.Equal(t, ReasonForeign, a.Reason)
			require.ErrorContains(t, a.Err, "the response does not come from Alertmanager")
			require.ErrorContains(t, a.Err, "put the address of Alertmanager itself into urls")
		}
	}
}
