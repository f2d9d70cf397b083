package loki

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/internal/httpconfig"
	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/sources/internal/rangeread"
)

// dialect describes Loki.
var dialect = &rangeread.Dialect{
	Key: "loki", Server: "Loki", Address: "http://loki-gateway:3100", API: "/loki/api",
	Client: newClient, CheckTenant: checkTenant, ParseSelector: selector.Parse,
	IsName: model.LegacyValidation.IsValidLabelName, Names: "letters, digits and _, as Loki does (dots become _)",
	Text: filterText, Open: ` |~ "`, Or: "|", Close: `"`,
	// Loki accepts queries of 128 KiB, and before version 2.9 only of 5 KiB.
	MaxQuery: 64 << 10, MaxQueries: 8,
	CachesNothingFound: true,
}

// filterText returns a regular expression for a text, without the quotes around it. The group
// around the text keeps Loki's parser from combining texts with a common prefix. Loki then
// searches for each text separately, and runs no regular expression.
func filterText(t rangeread.Text) string {
	expr := regexp.QuoteMeta(t.Text)
	if t.Fold {
		expr = "(?i)" + expr
	}
	quoted := strconv.Quote("(" + expr + ")")
	return quoted[1 : len(quoted)-1]
}

// tenantName matches the tenant names that Loki accepts.
var tenantName = lazyre.New(`^[a-zA-Z0-9!_.*'()-]{1,150}$`)

func checkTenant(name string) string {
	switch {
	case strings.Contains(name, "|"):
		return "names several; list them one by one"
	case !tenantName.MatchString(name) || name == "." || name == "..":
		return "is not a tenant name; use letters, digits and !-_.*'()"
	}
	return ""
}

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
	// MaxKeys is the largest number of read entries that are remembered. Default 1048576. Tests
	// set it.
	MaxKeys int `yaml:"-"`
}

// Validate returns all errors of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error { return rangeread.Config(c).Check(dialect) }

// Source reads the streams of one tenant.
type Source = rangeread.Source

// New returns the sources of a configuration, one for each tenant. It does no I/O.
func New(cfg Config) []*Source { return rangeread.New(dialect, rangeread.Config(cfg)) }

// Serves returns a function like Source.Serves for a configuration. cfg must be valid.
func Serves(cfg Config) func(rules.Selector) bool {
	return rangeread.Serves(dialect, rangeread.Config(cfg))
}

// Range is the input of ReadRange.
type Range = rangeread.Range

// ReadRange reads a time range and passes each line to f once, as package rangeread describes. From
// cfg, it uses url, http_config, tenants, selector, labels, limit and timeout.
func ReadRange(ctx context.Context, cfg Config, rg Range, f func(s *matcher.Stream, rec matcher.Record) error) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return rangeread.ReadRange(ctx, dialect, rangeread.Config(cfg), rg, f)
}
