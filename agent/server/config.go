package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"crowsnest/rules"
)

// Defaults of Config.
const (
	defaultListen      = ":9798"
	defaultMaxAgents   = 500
	defaultSilentAfter = 15 * time.Second
	defaultForgetAfter = time.Hour
)

// Config sets where agents connect, and how they are authenticated.
type Config struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// ListenAddress is the address to which agents connect. Default :9798.
	ListenAddress string `yaml:"listen_address" bounds:"0,4096"`
	// WebConfigFile is a web configuration file of exporter-toolkit. It configures TLS, client
	// certificates and basic authentication.
	WebConfigFile string `yaml:"web_config_file" bounds:"0,4096"`
	// BearerTokenFile holds the token that agents must present. It is read again when it changes.
	BearerTokenFile string `yaml:"bearer_token_file" bounds:"0,4096"`
	// TokenReview requires service account tokens from agents.
	TokenReview *TokenReview `yaml:"token_review"`
	// CertificateName allows an agent to send only for the node that its client certificate names, as the common name
	// or a DNS name. WebConfigFile must require and verify client certificates.
	CertificateName bool `yaml:"certificate_name"`
	// AdminTokenFile holds the token with which an operator may make the aggregator forget a node. It is read again
	// when it changes. If only TokenReview is set, the API server decides who may do so (see docs/agents.md).
	AdminTokenFile string `yaml:"admin_token_file" bounds:"0,4096"`
	// MaxAgents is the largest number of known nodes. Default 500.
	MaxAgents int `yaml:"max_agents" bounds:"0,10000"`
	// SilentAfter is the time without messages from an agent after which another agent may take the agent's name.
	// Default 15s.
	SilentAfter time.Duration `yaml:"silent_after" bounds:"0|5s,1h"`
	// ForgetAfter is the time for which the aggregator waits for an unreachable node. During
	// this time, decisions that need the node's logs are on hold. Default 1h.
	ForgetAfter time.Duration `yaml:"forget_after" bounds:"0|5s,30d"`
	// Lateness is how much longer decisions wait for the lines of an agent, so that a late line still counts. Default
	// 10s.
	Lateness time.Duration `yaml:"lateness" bounds:"0|1s,1h"`

	// Nodes configures a watch that detects that a node has left the cluster. Without it, a
	// node is forgotten after ForgetAfter.
	Nodes *Nodes `yaml:"nodes"`

	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
	// Leads reports whether this process may accept messages now, and otherwise who may. nil means that it always may.
	Leads func() (leads bool, who string) `yaml:"-"`
	// Transport replaces the connection to the API server in tests.
	Transport http.RoundTripper `yaml:"-"`
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "agents")
	c.ListenAddress = cmp.Or(c.ListenAddress, defaultListen)
	c.MaxAgents = cmp.Or(c.MaxAgents, defaultMaxAgents)
	c.SilentAfter = cmp.Or(c.SilentAfter, defaultSilentAfter)
	c.ForgetAfter = cmp.Or(c.ForgetAfter, defaultForgetAfter)
	c.Lateness = cmp.Or(c.Lateness, rules.Lateness)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// IsGuarded reports whether this configuration authenticates agents. It assumes that a WebConfigFile configures
// authentication.
func (c Config) IsGuarded() bool {
	return c.WebConfigFile != "" || c.BearerTokenFile != "" || c.TokenReview != nil
}

// Validate returns every problem of the configuration. It does no I/O.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if _, _, err := net.SplitHostPort(c.ListenAddress); err != nil {
		errs = append(errs, fmt.Errorf("listen_address: %q is not an address; write it like :9798 or 10.0.0.1:9798", c.ListenAddress))
	}
	if c.TokenReview != nil {
		errs = append(errs, c.TokenReview.validate())
		if c.BearerTokenFile != "" {
			errs = append(errs, errors.New("bearer_token_file: bearer_token_file and token_review are both set, but an agent sends only one token; remove one of them"))
		}
	}
	if c.CertificateName && c.WebConfigFile == "" {
		errs = append(errs, errors.New("certificate_name needs a web_config_file with client_auth_type: RequireAndVerifyClientCert"))
	}
	if c.ForgetAfter < c.SilentAfter {
		errs = append(errs, fmt.Errorf("forget_after: %s is less than silent_after; use at least %s", c.ForgetAfter, c.SilentAfter))
	}
	return errors.Join(errs...)
}
