// Package loki writes the history of alerts into Loki. It writes one line when an alert opens, at most one every few
// minutes while it lasts and changes, and one when it ends. A dashboard can show these lines beside the logs, and Loki
// keeps them longer than Alertmanager keeps alerts.
//
// It uses github.com/grafana/loki-client-go, whose client can block for minutes and loses
// entries silently. The type pusher works around these problems.
package loki

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks/internal/delivery"
)

const (
	defaultTimeout     = 10 * time.Second
	defaultUpdateDelay = 5 * time.Minute
	pushPath           = "/loki/api/v1/push"
	example            = "http://loki:3100"
)

// Formats of a line.
const (
	formatJSON   = "json"
	formatLogfmt = "logfmt"
)

var ownLabels = []string{"service_name", "cluster", "severity"}

// Config sets the Loki to which alerts are written, and how.
type Config struct {
	// Name is the name of the sink, unique among the sinks. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// URL is the base address of Loki, without /loki/api.
	URL string `yaml:"url" bounds:"0,4096" strict:"required"`
	// Tenant is the value of the header X-Scope-OrgID. If empty, the header is not sent.
	Tenant string `yaml:"tenant" bounds:"0,4096"`
	// HTTP configures TLS, credentials and proxies. Redirects are never followed, because they could leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Timeout is the time limit of one request. Default 10s.
	Timeout time.Duration `yaml:"timeout" bounds:"0|10ms,1m"`
	// UpdateDelay is the shortest time between two lines of an alert that lasts. Default 5m.
	UpdateDelay time.Duration `yaml:"update_delay" bounds:"0|1s,1d"`
	// Labels are added to the stream labels, which are service_name, cluster and severity. Each
	// combination of values creates a separate stream.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// Format is the format of a line, json (the default) or logfmt.
	Format string `yaml:"format" bounds:"0,4096"`
	// ExternalLabels are the labels that every alert has. The label cluster becomes a stream
	// label. The others become structured metadata.
	ExternalLabels map[string]string `yaml:"external_labels" bounds:"0,64,4096"`
	// ExternalURL is the address of crowsnest's own pages, to which alerts link. Without it, alerts have no link.
	ExternalURL string `yaml:"external_url" bounds:"0,4096"`
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "loki")
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.UpdateDelay = cmp.Or(c.UpdateDelay, defaultUpdateDelay)
	c.Format = cmp.Or(c.Format, formatJSON)
	c.URL = strings.TrimRight(c.URL, "/")
	c.ExternalURL = strings.TrimRight(c.ExternalURL, "/")
	return c
}

// Validate returns every problem of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error {
	c = c.withDefaults()
	errs := []error{
		c.validateURL(),
		delivery.CheckLabels("labels", c.Labels, ownLabels...),
		delivery.CheckLabels("external_labels", c.ExternalLabels, "alertname", "severity", "resolves", "overflow"),
	}
	if c.Format != formatJSON && c.Format != formatLogfmt {
		errs = append(errs, fmt.Errorf("format: %q is not known; use json or logfmt", c.Format))
	}
	if strings.ContainsAny(c.Tenant, "|\r\n") || len(c.Tenant) > 150 {
		errs = append(errs, errors.New("tenant: only one tenant is allowed; use at most 150 bytes and no |"))
	}
	return errors.Join(append(errs, delivery.CheckShared(c.ExternalURL, c.HTTP))...)
}

func (c Config) validateURL() error {
	if c.URL == "" {
		return fmt.Errorf("url: the address is missing; write the base address of Loki, such as %s", example)
	}
	u, err := httpconfig.BaseURL(c.URL, example)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if i := strings.Index(u.Path, "/loki/api"); i >= 0 {
		return fmt.Errorf("url: give the base address, without %s", u.Path[i:])
	}
	return nil
}
