// Package httpconfig is the part of a configuration for the connection to an HTTP server. It
// has TLS, credentials and proxies, like Prometheus' http_config.
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

// refuseRedirect is a CheckRedirect function for http.Client that follows no redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
