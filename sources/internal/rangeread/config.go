package rangeread

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

	"crowsnest/internal/httpconfig"
	"crowsnest/rules"
)

// Dialect describes a kind of server. A query begins with a selector of streams in braces, as in
// LogQL and LogsQL. A filter for the texts of rules may follow.
type Dialect struct {
	Key    string // key of the kind in the configuration, and default name of a source
	Server string // name of the server in messages
	// Address is an example of a base address, and API is the path below it at which requests
	// begin.
	Address, API string
	// Client returns a client for one tenant. "" means that requests name no tenant.
	Client func(cfg Config, tenant string) Client
	// CheckTenant returns what is wrong with a name of a tenant and how to mend it, or "".
	CheckTenant func(name string) string
	// Text renders one text of a filter. Open, the texts with Or between them, and Close are a
	// filter for the lines that contain one of the texts. The filter may select more lines.
	Text            func(t Text) string
	Open, Or, Close string
	MaxQuery        int // largest number of bytes of a query
	MaxQueries      int // largest number of queries that read what rules can match
	// ParseSelector parses the configured selector.
	ParseSelector func(s string) (rules.Selector, error)
	// IsName reports whether a label in the server can have a name, and Names says what such
	// names consist of.
	IsName func(name string) bool
	Names  string
	// ReadsAll means that queries have no filter, and every line of the streams is read.
	ReadsAll bool
	// CachesNothingFound means that the server may answer a repeated query from a cache of times
	// without entries. Queries then differ by a comment.
	CachesNothingFound bool
}

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

// Config selects the streams that are read from a server. Package loki describes the fields.
type Config struct {
	Name          string
	URL           string
	HTTP          httpconfig.Config
	Tenants       []string
	Selector      string
	Labels        map[string]string
	IgnoreLabels  []string
	LookBack      time.Duration
	Lateness      time.Duration
	FastInterval  time.Duration
	FastOverlap   time.Duration
	SlowInterval  time.Duration
	SlowOverlap   time.Duration
	Limit         int
	Timeout       time.Duration
	SelfNamespace string
	SelfPod       string
	Clock         func() time.Time
	Transport     http.RoundTripper
	MaxBody       int
	MaxKeys       int // largest number of keys of read entries in memory, for all tenants
}

func (c Config) withDefaults(d *Dialect) Config {
	c.Name = cmp.Or(c.Name, d.Key)
	c.LookBack = cmp.Or(c.LookBack, defaultLookBack)
	c.Lateness = cmp.Or(c.Lateness, defaultLateness)
	c.FastInterval = cmp.Or(c.FastInterval, defaultFastInterval)
	c.FastOverlap = cmp.Or(c.FastOverlap, defaultFastOverlap)
	c.SlowInterval = cmp.Or(c.SlowInterval, defaultSlowInterval)
	c.SlowOverlap = cmp.Or(c.SlowOverlap, defaultSlowOverlap)
	c.Limit = cmp.Or(c.Limit, defaultLimit)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MaxBody = cmp.Or(c.MaxBody, maxBody)
	c.MaxKeys = cmp.Or(c.MaxKeys, maxKeys)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// Check returns all errors of the configuration, each with advice. It does no I/O.
func (c Config) Check(kind *Dialect) error {
	d := c.withDefaults(kind)
	_, selectorError := kind.ParseSelector(c.Selector) // it refuses selectors that require no label, as Loki does
	errs := []error{
		kind.checkURL(c.URL), prefixed("selector", selectorError), c.checkTenants(kind), c.checkLabels(kind),
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

func (d *Dialect) checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("url: the address cannot be read; write it like %s", d.Address) // err quotes the address, which may contain a password
	case u.User != nil:
		return errors.New("url: it has credentials in it; use http_config.basic_auth")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url: %q has no scheme; write http:// or https:// in front", raw)
	case u.Hostname() == "":
		return fmt.Errorf("url: %q has no host; write it like %s", raw, d.Address)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("url: %q is more than a base address; remove what follows the path", raw)
	case strings.Contains(u.Path, d.API):
		return fmt.Errorf("url: %q is not the base address; remove %s", raw, u.Path[strings.Index(u.Path, d.API):])
	}
	return nil
}

func (c Config) checkTenants(d *Dialect) error {
	var errs []error
	seen := map[string]bool{}
	for _, t := range c.Tenants {
		switch wrong := d.CheckTenant(t); {
		case wrong != "":
			errs = append(errs, fmt.Errorf("tenants: %q %s", t, wrong))
		case seen[t]:
			errs = append(errs, fmt.Errorf("tenants: %q is listed twice; remove one", t))
		}
		seen[t] = true
	}
	return errors.Join(errs...)
}

func (c Config) checkLabels(d *Dialect) error {
	var errs []error
	for _, from := range slices.Sorted(maps.Keys(c.Labels)) {
		to := c.Labels[from]
		switch {
		case !d.IsName(from):
			errs = append(errs, fmt.Errorf("labels: %q is not a label name; use %s", from, d.Names))
		case !model.LegacyValidation.IsValidLabelName(to):
			errs = append(errs, fmt.Errorf("labels: %q is not a label name; use letters, digits and _", to))
		case to == tenantLabel && len(c.Tenants) > 1:
			errs = append(errs, fmt.Errorf("labels: %s is the label of the tenant; use another name for %s", tenantLabel, from))
		}
	}
	for _, name := range c.IgnoreLabels {
		if !d.IsName(name) {
			errs = append(errs, fmt.Errorf("ignore_labels: %q is not a label name; use %s", name, d.Names))
		}
	}
	return errors.Join(errs...)
}
