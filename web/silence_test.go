package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// post sends a form, with further headers as pairs.
func post(s *Server, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestSilence(t *testing.T) {
	const path = "/episodes/0000000000000abc/silence"
	allowed := true
	view := exampleView()
	links := view.Links
	view.Links = func() Links {
		l := links()
		l.Silences = allowed
		return l
	}
	var got []Silence
	answer := []Silenced{{Receiver: "http://am-0:9093", ID: "id-1"}, {Receiver: "other", Error: hostile}}
	s := newTestServer(t, view, Options{Silence: func(_ context.Context, x Silence) []Silenced {
		got = append(got, x)
		return answer
	}})
	form := url.Values{"for": {"2h0m0s"}, "author": {" Ada\x1b[31m "}, "comment": {"planned work"}, "label": {"namespace", "severity", "forged"}}

	require.Contains(t, request(s, "GET", "/episodes/0000000000000abc").Body.String(), `href="`+path+`"`)
	body := request(s, "GET", path).Body.String()
	require.Contains(t, body, `value="2h0m0s" selected`)
	require.Contains(t, body, `value="alertname" checked disabled`)
	require.Empty(t, got, "showing the form makes nothing")

	w := post(s, path, form)
	require.Equal(t, 200, w.Code, w.Body.String())
	require.Equal(t, []Silence{{
		Labels: map[string]string{"alertname": "LeaseLost", "namespace": "team-a", "severity": "critical"},
		Start:  now, End: now.Add(2 * time.Hour), Author: "Ada", Comment: "planned work",
	}}, got)
	require.Contains(t, w.Body.String(), "Silenced until")
	require.Contains(t, w.Body.String(), `href="http://am.example.org:9093/#/silences/id-1"`)
	require.NotContains(t, w.Body.String(), "<script>alert")

	// Whatever is incomplete, unknown or foreign makes nothing.
	got = nil
	for name, value := range map[string]string{"for": "10000h", "author": " ", "comment": "\x00"} {
		bad := url.Values{}
		for k, v := range form {
			bad[k] = v
		}
		bad.Set(name, value)
		w := post(s, path, bad)
		require.Equal(t, 400, w.Code, name)
		require.Contains(t, w.Body.String(), "Not made: ")
	}
	require.Equal(t, 404, post(s, "/episodes/0000000000000def/silence", form).Code, "it ended")
	require.Equal(t, 404, post(s, "/episodes/0000000000000123/silence", form).Code, "it is not sent")
	require.Equal(t, 404, request(s, "GET", "/episodes/nonsense/silence").Code)
	require.Equal(t, 403, post(s, path, form, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, 403, post(s, path, form, "Origin", "https://evil.example").Code)
	require.Equal(t, 400, post(s, path, url.Values{"comment": {strings.Repeat("x", maxSilenceIn)}}).Code)
	require.Empty(t, got)

	answer = []Silenced{{Receiver: "alertmanager", Error: "refused"}}
	w = post(s, path, form)
	require.Equal(t, 502, w.Code)
	require.Contains(t, w.Body.String(), "Not made by alertmanager: refused")

	allowed, got = false, nil
	require.Equal(t, 403, post(s, path, form).Code)
	require.Equal(t, 403, request(s, "GET", path).Code)
	require.Contains(t, request(s, "GET", "/episodes/0000000000000abc").Body.String(), "/#/silences/new?filter=")
	require.Empty(t, got)
}
