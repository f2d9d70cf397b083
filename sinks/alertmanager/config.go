package alertmanager

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// Limits of a request. An Alertmanager accepts more, but a receiver behind it may not.
const (
	maxLabels         = 20
	maxExternalLabels = 10
	maxValue          = delivery.MaxValue
	maxBatch          = 256     // largest number of alerts per request
	maxBody           = 1 << 20 // largest size of a request, in bytes
)

const example = "http://alertmanager-0:9093"

const (
	defaultTimeout = 10 * time.Second
	// defaultEndsAfter allows an hour without a resend. An eviction, a volume that attaches
	// slowly, or an Alertmanager that is cut off can cause such a pause.
	defaultEndsAfter = 75 * time.Minute
	heartbeatResends = 4 // number of missed resends after which Alertmanager ends a heartbeat
)

// Config sets which Alertmanagers are notified, and how.
type Config struct {
	// Name is the name of the sink, unique among the sinks. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// URLs are the base addresses of all Alertmanagers of the cluster, and never that of a load
	// balancer in front of them.
	URLs []string `yaml:"urls" bounds:"0,1000,4096" jsonschema:"anyof_required=urls"`
	// DNSConfigs find Alertmanagers by DNS, instead of URLs or in addition to them. The page
	// receivers.md says what happens when the answer changes.
	DNSConfigs []DNSConfig `yaml:"dns_sd_configs" bounds:"0,16" jsonschema:"anyof_required=dns_sd_configs"`
	// FileConfigs find Alertmanagers in files that another program writes.
	FileConfigs []FileConfig `yaml:"file_sd_configs" bounds:"0,16" jsonschema:"anyof_required=file_sd_configs"`
	// Scheme is the scheme of the Alertmanagers that are found, http or https. Default http.
	Scheme string `yaml:"scheme" bounds:"0,4096" jsonschema:"enum=http,enum=https"`
	// PathPrefix is the path in front of the API of the Alertmanagers that are found.
	PathPrefix string `yaml:"path_prefix" bounds:"0,4096"`
	// HTTP configures TLS, credentials and proxies. Redirects are never followed, because they could leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Timeout is the time limit of one request. Default 10s.
	Timeout time.Duration `yaml:"timeout" bounds:"0|10ms,1m"`
	// ResendDelay is the time after which an alert is sent again. Default 1m.
	ResendDelay time.Duration `yaml:"resend_delay" bounds:"0|100ms,1h"`
	// EndsAfter is how long an Alertmanager keeps an alert firing after it was last sent. Default 75m, or four times
	// ResendDelay if that is longer. If crowsnest is down for longer, alerts resolve although their failures may last.
	// An end that crowsnest detects is sent immediately.
	EndsAfter time.Duration `yaml:"ends_after" bounds:"0|400ms,1d"`
	// MinFiring is how long an alert must have been firing in an Alertmanager before crowsnest sends the alert's end.
	// Default 1m. It must be longer than the group_wait of the routes. Otherwise short alerts are never notified.
	MinFiring *time.Duration `yaml:"min_firing" bounds:"0s,1h"`
	// Inhibit lets Alertmanager notify only of the cause if a failure has symptoms. It requires the inhibit rules that
	// `crowsnest export alertmanager` writes (see docs/receivers.md). Default false.
	Inhibit bool `yaml:"inhibit"`
	// ExternalLabels are labels that are added to every alert that lacks them, and are part of the alert's identity.
	ExternalLabels map[string]string `yaml:"external_labels" bounds:"0,64,4096"`
	// ExternalURL is the address of crowsnest's own pages, to which alerts link. Without it, alerts have no link.
	ExternalURL string `yaml:"external_url" bounds:"0,4096"`
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "alertmanager")
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.ResendDelay = cmp.Or(c.ResendDelay, sinks.DefaultResend)
	c.EndsAfter = cmp.Or(c.EndsAfter, max(defaultEndsAfter, 4*c.ResendDelay))
	c.MinFiring = cmp.Or(c.MinFiring, new(sinks.DefaultMinFiring))
	c.ExternalURL = strings.TrimRight(c.ExternalURL, "/")
	return c
}

// Validate returns every problem of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error {
	c = c.withDefaults()
	errs := []error{c.validateURLs(), c.validateDiscovery(), c.validateLabels()}
	if c.EndsAfter < 4*c.ResendDelay {
		errs = append(errs, fmt.Errorf("ends_after: %s is less than four times resend_delay; use at least %s", c.EndsAfter, 4*c.ResendDelay))
	}
	return errors.Join(append(errs, delivery.CheckShared(c.ExternalURL, c.HTTP))...)
}

func (c Config) validateURLs() error {
	if len(c.URLs)+len(c.DNSConfigs)+len(c.FileConfigs) == 0 {
		return errors.New("urls: the list is empty; list the address of every Alertmanager, such as " + example + ", or set dns_sd_configs or file_sd_configs")
	}
	var errs []error
	seen := map[string]bool{}
	for _, raw := range c.URLs {
		u, err := httpconfig.BaseURL(raw, example)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("urls: %w", err))
		case strings.Contains(u.Path, "/api/v"):
			errs = append(errs, fmt.Errorf("urls: %s: give the base address, without %s", u.Redacted(), u.Path[strings.Index(u.Path, "/api/v"):]))
		case seen[endpointName(u)]:
			errs = append(errs, fmt.Errorf("urls: %s is listed twice; remove one", endpointName(u)))
		default:
			seen[endpointName(u)] = true
		}
	}
	return errors.Join(errs...)
}

func endpointName(u *url.URL) string {
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
}

func (c Config) validateLabels() error {
	var errs []error
	if len(c.ExternalLabels) > maxExternalLabels {
		errs = append(errs, fmt.Errorf("external_labels: %d given, at most %d are sent", len(c.ExternalLabels), maxExternalLabels))
	}
	for name, value := range c.ExternalLabels {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			errs = append(errs, fmt.Errorf("external_labels: %q is not a label name; use letters, digits and _", name))
		case name == "alertname" || name == "severity" || name == "resolves" || name == "overflow":
			errs = append(errs, fmt.Errorf("external_labels: %s is reserved for labels that rules set; use another name", name))
		case value == "" || len(value) > maxValue || !utf8.ValidString(value):
			errs = append(errs, fmt.Errorf("external_labels: the value of %s must be 1 to %d bytes of UTF-8", name, maxValue))
		}
	}
	return errors.Join(errs...)
}
