package httpconfig

import (
	"context"
	"net"
	"net/http"
	"time"

	commonconfig "github.com/prometheus/common/config"
)

// Lazy is an HTTP client that is created when it is first needed, because creating it reads
// files. Client and Close must not be called concurrently.
type Lazy struct {
	Config    Config
	Name      string // name of the client in errors
	UserAgent string
	Idle      time.Duration // time after which an idle connection is closed; if it is zero, connections are not kept open
	// Dial connects to a server. If it is nil, the default is used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Transport replaces the configured transport in tests.
	Transport http.RoundTripper

	client *http.Client
}

// Client returns the client, which follows no redirects. An error names the file that cannot be
// used. The next call tries again.
func (l *Lazy) Client() (*http.Client, error) {
	if l.client == nil && l.Transport != nil {
		l.client = &http.Client{Transport: l.Transport, CheckRedirect: refuseRedirect}
	}
	if l.client != nil {
		return l.client, nil
	}
	// With HTTP/2, a retry would use the connection that just hung.
	opts := []commonconfig.HTTPClientOption{commonconfig.WithHTTP2Disabled(), commonconfig.WithUserAgent(l.UserAgent)}
	if l.Idle > 0 {
		opts = append(opts, commonconfig.WithIdleConnTimeout(l.Idle))
	} else {
		opts = append(opts, commonconfig.WithKeepAlivesDisabled())
	}
	if l.Dial != nil {
		opts = append(opts, commonconfig.WithDialContextFunc(l.Dial))
	}
	c, err := l.Config.NewClient(l.Name, opts...)
	if err != nil {
		return nil, err
	}
	l.client = c
	return c, nil
}

// Close closes the idle connections.
func (l *Lazy) Close() {
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
}
