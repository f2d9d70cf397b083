package httpconfig

import (
	"context"
	"net"
	"net/http"
	"time"

	commonconfig "github.com/prometheus/common/config"
)

// Lazy is an HTTP client that is made when it is first needed, because that reads
// files. Client and Close must not be called concurrently.
type Lazy struct {
	Config    Config
	Name      string // name that errors mention
	UserAgent string
	Idle      time.Duration // time until an idle connection is closed; zero keeps none open
	// Dial connects to a server; nil means the usual way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Transport replaces the configured one, in tests.
	Transport http.RoundTripper

	client *http.Client
}

// Client returns the client. It follows no redirects. An error names the file that
// cannot be used; the next call tries again.
func (l *Lazy) Client() (*http.Client, error) {
	if l.client == nil && l.Transport != nil {
		l.client = &http.Client{Transport: l.Transport, CheckRedirect: stay}
	}
	if l.client != nil {
		return l.client, nil
	}
	// HTTP/2 would put the next try on the connection that just hung.
	opts := []commonconfig.HTTPClientOption{commonconfig.WithHTTP2Disabled(), commonconfig.WithUserAgent(l.UserAgent)}
	if l.Idle > 0 {
		opts = append(opts, commonconfig.WithIdleConnTimeout(l.Idle))
	} else {
		opts = append(opts, commonconfig.WithKeepAlivesDisabled())
	}
	if l.Dial != nil {
		opts = append(opts, commonconfig.WithDialContextFunc(l.Dial))
	}
	c, err := l.Config.Client(l.Name, opts...)
	if err != nil {
		return nil, err
	}
	l.client = c
	return c, nil
}

// Close closes idle connections.
func (l *Lazy) Close() {
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
}
