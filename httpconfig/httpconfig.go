// Package httpconfig is the part of a configuration that says how an HTTP server
// is reached: TLS, credentials and proxies, as Prometheus' http_config.
package httpconfig

import (
	"net/http"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/strictyaml"
)

// Config is Prometheus' http_config. Whether redirects are followed cannot be
// configured: they never are, as credentials leak over them.
type Config struct {
	commonconfig.HTTPClientConfig
}

// DecodeYAML reads the part with Prometheus' own strict decoder.
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

// Check returns what is wrong with the configuration; it does no I/O.
func (c Config) Check() error {
	http := c.HTTPClientConfig // Validate changes its receiver
	return http.Validate()
}

// Client makes a client that follows no redirects; name is for its errors. It
// reads the files that the configuration names.
func (c Config) Client(name string, opts ...commonconfig.HTTPClientOption) (*http.Client, error) {
	h, err := commonconfig.NewClientFromConfig(c.HTTPClientConfig, name, opts...)
	if err != nil {
		return nil, err
	}
	h.CheckRedirect = Stay
	return h, nil
}

// Stay is an http.Client's CheckRedirect that follows no redirect.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
