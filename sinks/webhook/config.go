// Package webhook posts alerts as JSON to any HTTP server, for example a ticket system, a chat
// gateway or a function. The requests are described in docs/webhook.md.
package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks/internal/delivery"
)

const defaultTimeout = 10 * time.Second

// Config sets where alerts are posted, and how.
type Config struct {
	// Name is the name of the sink, unique among the sinks. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// URL is the address to which alerts are posted. It is treated as a secret, because many
	// services put a secret into it.
	URL commonconfig.Secret `yaml:"url" bounds:"0,4096"`
	// URLFile is a file that contains the URL. It is read again for each request.
	URLFile string `yaml:"url_file" bounds:"0,4096"`
	// HTTP configures TLS, credentials and proxies. Redirects are never followed, because they could leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Timeout is the time limit of one request. Default 10s.
	Timeout time.Duration `yaml:"timeout" bounds:"0|10ms,1m"`
	// UpdateDelay is the shortest time between two requests about an alert that lasts and
	// changes. With the default 0, only the start and the end are sent.
	UpdateDelay time.Duration `yaml:"update_delay" bounds:"0|1s,1d"`
	// SendResolved enables requests about ends. Default true.
	SendResolved *bool `yaml:"send_resolved"`
	// ExternalLabels are labels that are added to every alert that lacks them, and are part of the alert's identity.
	ExternalLabels map[string]string `yaml:"external_labels" bounds:"0,64,4096"`
	// ExternalURL is the address of crowsnest's own pages, to which alerts link. Without it, alerts have no link.
	ExternalURL string `yaml:"external_url" bounds:"0,4096"`
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "webhook")
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.SendResolved = cmp.Or(c.SendResolved, new(true))
	c.ExternalURL = strings.TrimRight(c.ExternalURL, "/")
	return c
}

// Validate returns every problem of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error {
	c = c.withDefaults()
	errs := []error{
		delivery.CheckLabels("external_labels", c.ExternalLabels, "alertname", "severity", "resolves", "overflow"),
	}
	switch {
	case c.URL == "" && c.URLFile == "":
		errs = append(errs, errors.New("url: the address is missing; write the address that receives the alerts, or set url_file to a file that contains it"))
	case c.URL != "" && c.URLFile != "":
		errs = append(errs, errors.New("url: url and url_file are both set; remove one of them"))
	case c.URL != "":
		if _, err := parseTarget(string(c.URL)); err != nil {
			errs = append(errs, fmt.Errorf("url: %w", err))
		}
	}
	return errors.Join(append(errs, delivery.CheckShared(c.ExternalURL, c.HTTP))...)
}

// parseTarget parses the address. Its errors do not quote the address.
func parseTarget(raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return nil, errors.New("invalid address; write it like https://hooks.example.org/crowsnest")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the address has no scheme; write http:// or https:// in front")
	case u.Hostname() == "":
		return nil, errors.New("the address has no host; write it like https://hooks.example.org/crowsnest")
	case u.User != nil:
		return nil, errors.New("no credentials in an address; use http_config.basic_auth")
	case u.Fragment != "":
		return nil, errors.New("remove what follows the #")
	}
	return u, nil
}

// postURL returns the address to which alerts are posted. It reads the file if one is configured.
func (c Config) postURL() (*url.URL, error) {
	raw := string(c.URL)
	if c.URLFile != "" {
		data, err := os.ReadFile(c.URLFile)
		if err != nil {
			return nil, fmt.Errorf("read url_file: %w", err)
		}
		raw = string(data)
	}
	return parseTarget(raw)
}

// receiverName returns the name of the receiver. It omits path and query of the address, which may contain a secret.
func (c Config) receiverName() string {
	if c.URLFile != "" {
		return "url_file " + c.URLFile
	}
	u, err := parseTarget(string(c.URL))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
