package loki

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/httpconfig"
	"crowsnest/internal/lazyre"
	"crowsnest/rules/selector"
)

// Defaults of the configuration.
const (
	defaultLookBack     = 15 * time.Minute
	defaultLateness     = 2 * time.Minute
	defaultFastInterval = 15 * time.Second
	defaultFastOverlap  = 10 * time.Second
	defaultSlowInterval = 5 * time.Minute
	defaultSlowOverlap  = time.Hour
	defaultLimit        = 5000
	defaultTimeout      = 10 * time.Second
)

// maxAhead is the time into the future up to which entries are read. It equals Loki's limit
// for ingestion.
const maxAhead = 10 * time.Minute

// tenantLabel is the label that holds the tenant of a stream if several tenants are read.
const tenantLabel = "tenant"

// ownService is the value of service_name in streams that this program writes.
const ownService = "crowsnest"

// Config selects the streams that are read from a Loki.
type Config struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// URL is the base address of Loki, or of the gateway in front of it.
	URL string `yaml:"url" bounds:"0,4096" strict:"required"`
	// HTTP configures TLS, credentials and proxies. Redirects are never followed, because they
	// could leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Tenants are the tenants to read. Each is read by its own source. If empty, requests name
	// no tenant, which suits a Loki without auth_enabled. If there are several tenants, every
	// stream has the label tenant.
	Tenants []string `yaml:"tenants" bounds:"0,1000,4096"`
	// Selector is a LogQL selector of the streams to read. Anyone who can push to Loki can
	// choose the labels of a stream.
	Selector string `yaml:"selector" bounds:"0,4096" strict:"required"`
	// Labels renames labels of streams and structured metadata. It maps the name in Loki to the
	// name in rules, for example {k8s_namespace_name: namespace}. Renamed labels take
	// precedence.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// IgnoreLabels are labels that do not identify a stream, in addition to those that always
	// differ between sources.
	IgnoreLabels []string `yaml:"ignore_labels" bounds:"0,1000,4096"`
	// LookBack is the maximum age of lines that are read without a saved position. Default
	// 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Lateness is the longest delay with which an entry may reach Loki and still count before a
	// decision. Default 2m.
	Lateness time.Duration `yaml:"lateness" bounds:"0s,1y"`
	// FastInterval is the interval of the queries for new entries, and FastOverlap is how far
	// such a query reaches back. Default 15s and 10s.
	FastInterval time.Duration `yaml:"fast_interval" bounds:"0s,1y"`
	FastOverlap  time.Duration `yaml:"fast_overlap" bounds:"0s,1y"`
	// SlowInterval is the interval of the queries for late entries, and SlowOverlap is how far
	// such a query reaches back. Default 5m and 1h. Loki accepts entries that are late by up to
	// half of its max_chunk_age, which is 1h by default.
	SlowInterval time.Duration `yaml:"slow_interval" bounds:"0s,1y"`
	SlowOverlap  time.Duration `yaml:"slow_overlap" bounds:"0s,1y"`
	// Limit is the largest number of entries per response. Default 5000, which is the default
	// of Loki's max_entries_limit_per_query. If Loki allows less, the source requests less.
	Limit int `yaml:"limit" bounds:"0,100000"`
	// Timeout is the time limit of one request. Default 10s.
	Timeout time.Duration `yaml:"timeout" bounds:"0s,1y"`

	// SelfNamespace and SelfPod name the pod in which this program runs. The log of this pod is
	// never read, because it contains lines that were already matched.
	SelfNamespace string `yaml:"-"`
	SelfPod       string `yaml:"-"`
	// Clock replaces time.Now in tests.
	Clock func() time.Time `yaml:"-"`
	// Transport replaces the transport that HTTP configures. Tests set it.
	Transport http.RoundTripper `yaml:"-"`
	// MaxBody is the largest number of bytes of a response. Default 8 MiB. Tests set it.
	MaxBody int `yaml:"-"`
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "loki")
	c.LookBack = cmp.Or(c.LookBack, defaultLookBack)
	c.Lateness = cmp.Or(c.Lateness, defaultLateness)
	c.FastInterval = cmp.Or(c.FastInterval, defaultFastInterval)
	c.FastOverlap = cmp.Or(c.FastOverlap, defaultFastOverlap)
	c.SlowInterval = cmp.Or(c.SlowInterval, defaultSlowInterval)
	c.SlowOverlap = cmp.Or(c.SlowOverlap, defaultSlowOverlap)
	c.Limit = cmp.Or(c.Limit, defaultLimit)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// tenantName matches the tenant names that Loki accepts.
var tenantName = lazyre.New(`^[a-zA-Z0-9!_.*'()-]{1,150}$`)

// Validate returns all errors of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error {
	d := c.withDefaults()
	_, selectorError := selector.Parse(c.Selector) // it refuses selectors that require no label, as Loki does
	errs := []error{
		checkURL(c.URL), prefixed("selector", selectorError), c.checkTenants(), c.checkLabels(),
		inRange("look_back", c.LookBack, 0, maxBehind),
		inRange("lateness", d.Lateness, time.Second, time.Hour),
		inRange("fast_interval", d.FastInterval, 100*time.Millisecond, 20*time.Second),
		inRange("fast_overlap", d.FastOverlap, time.Second, 10*time.Minute),
		inRange("slow_interval", d.SlowInterval, time.Second, time.Hour),
		inRange("slow_overlap", d.SlowOverlap, d.FastOverlap, maxBehind),
		inRange("timeout", d.Timeout, 100*time.Millisecond, 5*time.Minute),
	}
	if d.Limit < 1 || d.Limit > 100_000 {
		errs = append(errs, fmt.Errorf("limit: %d is not between 1 and 100000", c.Limit))
	}
	return errors.Join(append(errs, prefixed("http_config", c.HTTP.Check()))...)
}

func prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func inRange(name string, d, low, high time.Duration) error {
	if d < low || d > high {
		return fmt.Errorf("%s: %s is not between %s and %s", name, d, low, high)
	}
	return nil
}

func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("url: the address cannot be read; write it like http://loki-gateway:3100") // err quotes the address, which may contain a password
	case u.User != nil:
		return errors.New("url: it has credentials in it; use http_config.basic_auth")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url: %q has no scheme; write http:// or https:// in front", raw)
	case u.Hostname() == "":
		return fmt.Errorf("url: %q has no host; write it like http://loki-gateway:3100", raw)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("url: %q is more than a base address; remove what follows the path", raw)
	case strings.Contains(u.Path, "/loki/api"):
		return fmt.Errorf("url: %q is not the base address; remove %s", raw, u.Path[strings.Index(u.Path, "/loki/api"):])
	}
	return nil
}

func (c Config) checkTenants() error {
	var errs []error
	seen := map[string]bool{}
	for _, t := range c.Tenants {
		switch {
		case strings.Contains(t, "|"):
			errs = append(errs, fmt.Errorf("tenants: %q names several; list them one by one", t))
		case !tenantName.MatchString(t) || t == "." || t == "..":
			errs = append(errs, fmt.Errorf("tenants: %q is not a tenant name; use letters, digits and !-_.*'()", t))
		case seen[t]:
			errs = append(errs, fmt.Errorf("tenants: %q is listed twice; remove one", t))
		}
		seen[t] = true
	}
	return errors.Join(errs...)
}

func (c Config) checkLabels() error {
	var errs []error
	for _, from := range slices.Sorted(maps.Keys(c.Labels)) {
		to := c.Labels[from]
		for _, name := range []string{from, to} {
			if !model.LegacyValidation.IsValidLabelName(name) {
				errs = append(errs, fmt.Errorf("labels: %q is not a label name; use letters, digits and _, as Loki does (dots become _)", name))
			}
		}
		if to == tenantLabel && len(c.Tenants) > 1 {
			errs = append(errs, fmt.Errorf("labels: %s is the label of the tenant; use another name for %s", tenantLabel, from))
		}
	}
	for _, name := range c.IgnoreLabels {
		if !model.LegacyValidation.IsValidLabelName(name) {
			errs = append(errs, fmt.Errorf("ignore_labels: %q is not a label name; use letters, digits and _", name))
		}
	}
	return errors.Join(errs...)
}
