// Package httpconfig is the part of a configuration for the connection to an HTTP server. It
// has TLS, credentials and proxies, like Prometheus' http_config.
package httpconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/internal/strictyaml"
)

// Config is Prometheus' http_config. Clients never follow redirects, because redirects would
// leak credentials. This cannot be configured.
type Config struct {
	commonconfig.HTTPClientConfig
}

// DecodeYAML decodes the section with Prometheus' own strict decoder.
func (c *Config) DecodeYAML(n *strictyaml.Node) {
	var raw strictyaml.Raw
	raw.DecodeYAML(n)
	if !raw.Present {
		return
	}
	cfg, err := commonconfig.LoadHTTPConfig(string(raw.Text))
	if err != nil {
		n.Errorf("bad-value", "%s: %v", n.Name(), err)
		return
	}
	c.HTTPClientConfig = *cfg
}

// Check returns the errors of the configuration. It does no I/O.
func (c Config) Check() error {
	http := c.HTTPClientConfig // a copy, because Validate changes its receiver
	return http.Validate()
}

// NewClient creates a client that follows no redirects. It reads the files that the
// configuration names. name is used in its errors.
func (c Config) NewClient(name string, opts ...commonconfig.HTTPClientOption) (*http.Client, error) {
	h, err := commonconfig.NewClientFromConfig(c.HTTPClientConfig, name, opts...)
	if err != nil {
		return nil, err
	}
	h.CheckRedirect, h.Transport = refuseRedirect, plainErrors{h.Transport}
	return h, nil
}

// DescribeNoResponse describes the error of a request without a response. It reports whether a
// time limit ended the request. It returns the cause without the URL, which may be a secret.
func DescribeNoResponse(err error) (timeout bool, cause error) {
	limit, _ := errors.AsType[net.Error](err)
	timeout = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || limit != nil && limit.Timeout()
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return timeout, err
}

func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// BaseURL parses the base address of a server. It refuses an address with credentials, because
// they would appear in logs and on pages.
func BaseURL(raw, example string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("invalid address; write it like " + example) // err quotes the address, which may contain a password
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("%s: no credentials in an address; use http_config.basic_auth", u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q has no scheme; write http:// or https:// in front", raw)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q has no host; write it like %s", raw, example)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%q: remove what follows the path (? or #)", raw)
	}
	return u, nil
}

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

// Lazy is an HTTP client that is created when it is first needed, because creating it reads
// files. It is safe for concurrent use.
type Lazy struct {
	Config    Config
	Name      string // name of the client in errors
	UserAgent string
	Idle      time.Duration // time after which an idle connection is closed; if it is zero, connections are not kept open
	// Dial connects to a server. If it is nil, the default is used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Transport replaces the configured transport in tests.
	Transport http.RoundTripper

	mu     sync.Mutex
	client *http.Client
}

// Client returns the client, which follows no redirects. An error names the file that cannot be
// used. The next call tries again.
func (l *Lazy) Client() (*http.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
}

// RetryAfter returns how long a response asks the client to wait, between 0 and limit. It
// accepts both forms of the header Retry-After (RFC 9110, 10.2.3). It compares a date with the
// date of the response, so the local clock does not matter. It returns 0 if the header is
// missing or invalid.
func RetryAfter(h http.Header, limit time.Duration) time.Duration {
	said := h.Get("Retry-After")
	d := time.Duration(0)
	if n, err := strconv.ParseInt(said, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(said); err == nil {
		if from, err := http.ParseTime(h.Get("Date")); err == nil {
			d = at.Sub(from)
		}
	}
	return min(max(d, 0), limit)
}
