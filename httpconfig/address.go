package httpconfig

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// DisplayAddress returns an address for people. It omits the password and the query, which may
// contain a token. It returns other texts unchanged.
func DisplayAddress(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User == nil && u.RawQuery == "" {
		return s
	}
	text, _, query := strings.Cut(u.Redacted(), "?")
	if query {
		text += "?<secret>"
	}
	return text
}

// plainErrors is a transport whose errors contain addresses in the form of DisplayAddress. The
// errors of requests for a token contain the address of oauth2.token_url.
type plainErrors struct{ next http.RoundTripper }

func (p plainErrors) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := p.next.RoundTrip(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		failed.URL = DisplayAddress(failed.URL)
	}
	return res, err
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (p plainErrors) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
