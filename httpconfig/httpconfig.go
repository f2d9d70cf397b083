// Package httpconfig is the part of a configuration for the connection to an HTTP
// server: TLS, credentials and proxies, as in Prometheus' http_config.
package httpconfig

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/strictyaml"
)

// Config is Prometheus' http_config. Clients never follow redirects, and this cannot
// be configured: redirects would leak credentials.
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

// Check returns the errors of the configuration; it does no I/O.
func (c Config) Check() error {
	http := c.HTTPClientConfig // Validate changes its receiver
	return http.Validate()
}

// Client creates a client that follows no redirects. It reads the files that the
// configuration names; name is for its errors.
func (c Config) Client(name string, opts ...commonconfig.HTTPClientOption) (*http.Client, error) {
	h, err := commonconfig.NewClientFromConfig(c.HTTPClientConfig, name, opts...)
	if err != nil {
		return nil, err
	}
	h.CheckRedirect, h.Transport = stay, plainErrors{h.Transport}
	return h, nil
}

// Unanswered describes the error of a request without a response: whether a time limit
// ended it, and its cause without the URL, which may be a secret.
func Unanswered(err error) (timeout bool, cause error) {
	limit, _ := errors.AsType[net.Error](err)
	timeout = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || limit != nil && limit.Timeout()
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return timeout, err
}

// stay is a CheckRedirect for http.Client that follows no redirect.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
