package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/internal/httpconfig"
)

const defaultTimeout = 10 * time.Second

// Config sets the addresses of the aggregator and the node of this agent.
type Config struct {
	// URL is the base address of the aggregator's agents source. All addresses of its host name are tried, for
	// example those of a headless Service.
	URL string `yaml:"url" bounds:"0,4096"`
	// URLs are the base addresses of an aggregator and its standby. They replace URL.
	URLs []string `yaml:"urls" bounds:"0,16,4096"`
	// Node is the name of this node, which must be unique among the agents. Default: the
	// variable NODE_NAME, or else the host name.
	Node string `yaml:"node" bounds:"0,4096"`
	// HTTP configures TLS, credentials and proxies. Redirects are never followed, because they could leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Timeout is the time limit of one request. Default 10s.
	Timeout time.Duration `yaml:"timeout" bounds:"0|100ms,1m"`
	// FinalGoodbye states that this node does not come back after a stop, so the aggregator need not wait for the
	// node. Set it only on machines that are removed when they stop.
	FinalGoodbye bool `yaml:"final_goodbye"`
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.URL = strings.TrimRight(c.URL, "/")
	if c.URL != "" {
		c.URLs = []string{c.URL}
		return c
	}
	c.URLs = slices.Clone(c.URLs)
	for i, u := range c.URLs {
		c.URLs[i] = strings.TrimRight(u, "/")
	}
	return c
}

// Validate returns every problem of the configuration, each with advice. It does no I/O. A
// missing node name is not a problem, because the name may be set later.
func (c Config) Validate() error {
	var errs []error
	if c.URL != "" && len(c.URLs) > 0 {
		errs = append(errs, errors.New("urls: url and urls are both set; write every address into urls, and remove url"))
	}
	c = c.withDefaults()
	if len(c.URLs) == 0 {
		errs = append(errs, checkURL(""))
	}
	for _, u := range c.URLs {
		errs = append(errs, checkURL(u))
	}
	if c.Node != "" {
		if err := wire.CheckName(c.Node); err != nil {
			errs = append(errs, fmt.Errorf("node: %w", err))
		}
	}
	if err := c.HTTP.Check(); err != nil {
		errs = append(errs, fmt.Errorf("http_config: %w", err))
	}
	return errors.Join(errs...)
}

func checkURL(raw string) error {
	if raw == "" {
		return errors.New("url: the address is missing; write the address of the aggregator, such as https://crowsnest-aggregator:9798")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("url: invalid address; write it like https://crowsnest-aggregator:9798") // err quotes the address, which may contain a password
	case u.User != nil:
		return fmt.Errorf("url: %s: no credentials in an address; use http_config", u.Redacted())
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("url: %q is not an absolute http or https address; write it like https://crowsnest-aggregator:9798", raw)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("url: %q: remove what follows the path (? or #)", raw)
	case strings.HasSuffix(u.Path, wire.Path):
		return fmt.Errorf("url: %q: give the base address, without %s", raw, wire.Path)
	}
	return nil
}
