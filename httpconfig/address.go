package httpconfig

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Address returns an address to show: without its password and its query, which may contain
// a token. It returns other texts unchanged.
func Address(s string) string {
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

// plainErrors is a transport whose errors show addresses as Address does. The address of
// oauth2.token_url is in the errors of its requests.
type plainErrors struct{ next http.RoundTripper }

func (p plainErrors) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := p.next.RoundTrip(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		failed.URL = Address(failed.URL)
	}
	return res, err
}

// CloseIdleConnections closes those of the transport.
func (p plainErrors) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
