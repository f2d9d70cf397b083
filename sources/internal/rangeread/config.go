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
	"crowsnest/sources"
)

// Dialect describes a kind of server. A query begins with a selector of streams in braces, as in
// LogQL and LogsQL. A filter for the texts of rules may follow.
type Dialect struct {
	Key    string // key of the kind in the configuration, and default name of a source
	Server string // name of the server in messages
	// Address is an example of a base address, and API is the path below it at which requests begin.
	Address, API string
	// Header returns the headers of a request. "" means that the request names no tenant.
	Header func(tenant string) map[string]string
	// Query returns the path below the base address and the parameters of a query.
	Query func(q Query) (path string, form url.Values)
	// Decode parses a.Body. It keeps all complete entries even if it returns an error. An error
	// means that the body is incomplete, or not a response to a query.
	Decode func(a *Answer) error
	// NeedsEnd means that the text of a response does not show whether it is complete.
	NeedsEnd bool
	// ListStreams returns the path and the parameters of a request for the streams that have
	// entries around time t. most is the largest number of streams that are needed.
	ListStreams func(selector string, t int64, most int) (path string, form url.Values)
	// DecodeStreams returns the labels of each stream in the response to ListStreams.
	DecodeStreams func(body []byte) ([]map[string]string, error)
	// Refine sets the reason of an error response whose meaning depends on the kind of server. code is the status of
	// the response, and said is its text.
	Refine func(f *Failure, code int, said string)
	// CheckTenant returns what is wrong with a name of a tenant and how to mend it, or "".
	CheckTenant func(name string) string
	// Text renders one text of a filter. Open, the rendered texts with Or between them, and Close form a filter for the
	// lines that contain one of the texts. The filter may select more lines.
	Text            func(t Text) string
	Open, Or, Close string
	MaxQuery        int // largest number of bytes of a query
	MaxQueries      int // largest number of queries into which the filter for the texts of rules is divided
	// ParseSelector parses the configured selector.
	ParseSelector func(s string) (rules.Selector, error)
	// IsName reports whether a label in the server can have this name. Names describes the allowed characters.
	IsName func(name string) bool
	Names  string
	// ReadsAll means that queries have no filter, and every line of the streams is read.
	ReadsAll bool
	// CachesNothingFound means that the server may answer a repeated query from a cache of times
	// without entries. Queries then differ by a comment.
	CachesNothingFound bool
}

// maxAhead is the time into the future up to which entries are read. It equals Loki's limit for ingestion.
const maxAhead = 10 * time.Minute

// tenantLabel is the label that holds the tenant of a stream if several tenants are read.
const tenantLabel = "tenant"

// ownService is the value of service_name in streams that this program writes.
const ownService = "crowsnest"

// Config selects the streams that are read from a server.
type Config struct {
	sources.Common `yaml:",inline"`
	sources.OwnPod `yaml:",inline"`
	// URL is the base address of the server, or of the gateway or proxy in front of it.
	URL string `yaml:"url" bounds:"0,4096" strict:"required"`
	// HTTP configures TLS, credentials and proxies. Redirects are never followed, because they could leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Tenants are the tenants to read. Each is read by its own source. If empty, requests name no tenant, which suits a
	// Loki without auth_enabled and means 0:0 for VictoriaLogs. A tenant of VictoriaLogs is AccountID:ProjectID. If
	// there are several tenants, every stream has the label tenant.
	Tenants []string `yaml:"tenants" bounds:"0,1000,4096"`
	// Selector selects the streams to read by their labels in Loki or their stream fields in VictoriaLogs, for example
	// {kubernetes.pod_namespace=~".+"}. Anyone who can push to the server can choose the labels of a stream.
	Selector string `yaml:"selector" bounds:"0,4096" strict:"required"`
	// Labels renames labels of streams and fields of entries, such as structured metadata. It maps the name in the
	// server to the name in rules, for example {k8s_namespace_name: namespace}. Renamed labels replace labels of the
	// same name.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// IgnoreLabels are further labels that do not identify a stream, besides the labels that always differ between
	// sources.
	IgnoreLabels []string `yaml:"ignore_labels" bounds:"0,1000,4096"`
	// LookBack is the maximum age of the lines that are read if there is no saved position. Default 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1d"`
	// Lateness is the time for which decisions from the absence of lines wait, because an entry may become visible in
	// the server late. Default 2m.
	Lateness time.Duration `yaml:"lateness" bounds:"0|1s,1h"`
	// FastInterval is the time between queries for new entries, and FastOverlap is how far back each of these queries
	// reaches. Default 15s and 10s.
	FastInterval time.Duration `yaml:"fast_interval" bounds:"0|100ms,20s"`
	FastOverlap  time.Duration `yaml:"fast_overlap" bounds:"0|1s,10m"`
	// SlowInterval is the time between queries for late entries, and SlowOverlap is how far back each of these
	// queries reaches. Default 5m and 1h. Loki accepts entries that are late by up to half of its max_chunk_age,
	// which is 1h by default. VictoriaLogs accepts entries of its whole retention.
	SlowInterval time.Duration `yaml:"slow_interval" bounds:"0|1s,1h"`
	SlowOverlap  time.Duration `yaml:"slow_overlap" bounds:"0|1s,1d"`
	// Limit is the largest number of entries per response. Default 5000, which is the default of
	// Loki's max_entries_limit_per_query. If the server allows less, or has too little memory to
	// sort so many, the source requests less.
	Limit int `yaml:"limit" bounds:"0,100000"`
	// Timeout is the time limit of one request. Default 10s.
	Timeout time.Duration `yaml:"timeout" bounds:"0|100ms,5m"`

	// Transport replaces the transport that HTTP configures. Tests set it.
	Transport http.RoundTripper `yaml:"-"`
	// MaxBody is the largest number of bytes of a response. Default 8 MiB. Tests set it.
	MaxBody int `yaml:"-"`
	// MaxKeys is the largest number of read entries that are remembered for all tenants. Default
	// 1048576. Tests set it.
	MaxKeys int `yaml:"-"`
}

func (c Config) withDefaults(d *Dialect) Config {
	c.Common = c.WithDefaults(d.Key)
	c.LookBack = cmp.Or(c.LookBack, 15*time.Minute)
	c.Lateness = cmp.Or(c.Lateness, 2*time.Minute)
	c.FastInterval = cmp.Or(c.FastInterval, 15*time.Second)
	c.FastOverlap = cmp.Or(c.FastOverlap, 10*time.Second)
	c.SlowInterval = cmp.Or(c.SlowInterval, 5*time.Minute)
	c.SlowOverlap = cmp.Or(c.SlowOverlap, time.Hour)
	c.Limit = cmp.Or(c.Limit, 5000)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.MaxBody = cmp.Or(c.MaxBody, maxBody)
	c.MaxKeys = cmp.Or(c.MaxKeys, maxKeys)
	return c
}

// Check returns all errors of the configuration, each with advice. It does no I/O.
func (c Config) Check(kind *Dialect) error {
	_, selectorError := kind.ParseSelector(c.Selector) // it refuses selectors that require no label, as Loki does
	errs := []error{
		kind.checkURL(c.URL), prefixed("selector", selectorError), c.checkTenants(kind), c.checkLabels(kind), prefixed("http_config", c.HTTP.Check()),
	}
	if d := c.withDefaults(kind); d.SlowOverlap < d.FastOverlap {
		errs = append(errs, fmt.Errorf("slow_overlap: %s is less than fast_overlap; use at least %s", d.SlowOverlap, d.FastOverlap))
	}
	return errors.Join(errs...)
}

func prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (d *Dialect) checkURL(raw string) error {
	u, err := httpconfig.BaseURL(raw, d.Address)
	if err != nil {
		return prefixed("url", err)
	}
	if i := strings.Index(u.Path, d.API); i >= 0 {
		return fmt.Errorf("url: %q is not the base address; remove %s", raw, u.Path[i:])
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
