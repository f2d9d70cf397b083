package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
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

// A trusted proxy names the author, whom nobody can edit. From elsewhere the header is ignored.
func TestAuthorOfAProxy(t *testing.T) {
	const path = "/episodes/0000000000000abc/silence"
	view := exampleView()
	links := view.Links
	proxies := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fe80::/64")}
	view.Links = func() Links {
		l := links()
		l.Silences, l.IdentityHeader, l.TrustedProxies = true, "x-user", proxies
		return l
	}
	authors := []string{}
	var log bytes.Buffer
	s := newTestServer(t, view, Options{Log: zerolog.New(&log), Silence: func(_ context.Context, x Silence) []Silenced {
		authors = append(authors, x.Author)
		return []Silenced{{Receiver: "am", ID: "1"}}
	}})
	f := func(from, want string, headers ...string) (form string, code int) {
		t.Helper()
		authors = nil
		log.Reset()
		send := func(method, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.RemoteAddr = from
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header.Add(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			return w
		}
		code = send("POST", url.Values{"for": {"2h0m0s"}, "author": {"typed"}, "comment": {"why"}}.Encode()).Code
		if want != "" {
			require.Equal(t, []string{want}, authors)
			require.Contains(t, log.String(), fmt.Sprintf(`"author":%q,"identified":%t`, want, want != "typed"))
		} else {
			require.Empty(t, authors)
		}
		return send("GET", "").Body.String(), code
	}
	const own, other, editable = "192.0.2.7:1234", "198.51.100.7:1234", `name="author"`
	form, _ := f(own, "ada@example.org", "X-User", " ada@example.org\u202e")
	require.Contains(t, form, `<output id="author">ada@example.org</output>`)
	require.NotContains(t, form, editable)
	_, _ = f("[::ffff:192.0.2.7]:1234", "ada", "X-User", "ada")
	_, _ = f("[fe80::1%eth0]:1234", "ada", "X-User", "ada")
	_, _ = f(own, strings.Repeat("x", maxAuthor), "X-User", strings.Repeat("x", 2*maxAuthor))
	form, code := f(own, "", "X-User", "boss", "X-User", "ada")
	require.Equal(t, 400, code)
	require.Contains(t, form, "several headers x-user")

	for _, from := range []string{other, "[2001:db8::1]:1", "", "192.0.2.7"} {
		form, _ = f(from, "typed", "X-User", "boss", "X-Forwarded-For", "192.0.2.7", "X-Real-Ip", "192.0.2.7", "Forwarded", "for=192.0.2.7")
		require.Contains(t, form, editable)
		require.NotContains(t, form, "boss")
	}
	form, _ = f(own, "typed", "X-User", "  ")
	require.Contains(t, form, editable)
	proxies = nil
	form, _ = f(own, "typed", "X-User", "boss")
	require.Contains(t, form, editable)
}

// A standby passes on the name only if a trusted proxy sent the request.
func TestAuthorPassesTheStandby(t *testing.T) {
	got := make(chan string, 1)
	leader := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("X-User") }))
	t.Cleanup(leader.Close)
	view := exampleView()
	view.Links = func() Links {
		return Links{IdentityHeader: "X-User", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}
	}
	s := newTestServer(t, view, Options{LeaderAddress: func() string { return leader.URL }})
	for from, want := range map[string]string{"192.0.2.1:1": "ada", "192.0.2.2:1": ""} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = from
		r.Header.Set("X-User", "ada")
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, want, <-got, from)
	}
}
