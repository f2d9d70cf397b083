package victorialogs

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"crowsnest/internal/httpconfig"
	"crowsnest/internal/lazyre"
	"crowsnest/rules/selector"
	"crowsnest/sources/internal/rangeread"
)

// Config selects the streams that are read from a VictoriaLogs.
type Config struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// URL is the base address of VictoriaLogs, of vlselect, or of a proxy in front of them.
	URL string `yaml:"url" bounds:"0,4096" strict:"required"`
	// HTTP configures TLS, credentials and proxies. Redirects are never followed, because they
	// could leak credentials.
	HTTP httpconfig.Config `yaml:"http_config"`
	// Tenants are the tenants to read, as AccountID:ProjectID. Each is read by its own source. If
	// empty, requests name no tenant, which VictoriaLogs understands as 0:0. If there are several
	// tenants, every stream has the label tenant.
	Tenants []string `yaml:"tenants" bounds:"0,1000,4096"`
	// Selector selects the streams to read by their stream fields, for example
	// {kubernetes.pod_namespace=~".+"}. Anyone who can push to VictoriaLogs can choose the fields
	// of a stream.
	Selector string `yaml:"selector" bounds:"0,4096" strict:"required"`
	// Labels renames stream fields and other fields to labels. It maps the name in VictoriaLogs to
	// the name in rules, for example {kubernetes.pod_namespace: namespace}. Renamed labels take
	// precedence.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// IgnoreLabels are labels that do not identify a stream, in addition to those that always
	// differ between sources.
	IgnoreLabels []string `yaml:"ignore_labels" bounds:"0,1000,4096"`
	// Fields are the fields into which an agent parses lines of JSON or klog. The source writes
	// these lines again. A name may end with *, and its part before * is removed from the name of
	// the field. A name after ! is excluded. Empty means that _msg is the whole line. Otherwise
	// every line of the selected streams is read, because the texts of rules may be in any field.
	Fields []string `yaml:"fields" bounds:"0,64,4096"`
	// LookBack is the maximum age of lines that are read without a saved position. Default
	// 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Lateness is the longest delay with which a line may become visible in VictoriaLogs and still
	// count before a decision. Default 2m.
	Lateness time.Duration `yaml:"lateness" bounds:"0s,1y"`
	// FastInterval is the interval of the queries for new lines, and FastOverlap is how far
	// such a query reaches back. Default 15s and 10s.
	FastInterval time.Duration `yaml:"fast_interval" bounds:"0s,1y"`
	FastOverlap  time.Duration `yaml:"fast_overlap" bounds:"0s,1y"`
	// SlowInterval is the interval of the queries for late lines, and SlowOverlap is how far
	// such a query reaches back. Default 5m and 1h. VictoriaLogs accepts lines of its whole
	// retention.
	SlowInterval time.Duration `yaml:"slow_interval" bounds:"0s,1y"`
	SlowOverlap  time.Duration `yaml:"slow_overlap" bounds:"0s,1y"`
	// Limit is the largest number of lines per response. Default 5000. If VictoriaLogs has too
	// little memory to sort so many, the source requests less.
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

func (c Config) shared() rangeread.Config {
	return rangeread.Config{
		Name: c.Name, URL: c.URL, HTTP: c.HTTP, Tenants: c.Tenants, Selector: c.Selector, Labels: c.Labels,
		IgnoreLabels: c.IgnoreLabels, LookBack: c.LookBack, Lateness: c.Lateness, FastInterval: c.FastInterval,
		FastOverlap: c.FastOverlap, SlowInterval: c.SlowInterval, SlowOverlap: c.SlowOverlap, Limit: c.Limit,
		Timeout: c.Timeout, SelfNamespace: c.SelfNamespace, SelfPod: c.SelfPod, Clock: c.Clock, Transport: c.Transport,
		MaxBody: c.MaxBody,
	}
}

// dialect describes VictoriaLogs.
func (c Config) dialect() *rangeread.Dialect {
	return &rangeread.Dialect{
		Key: "victorialogs", Server: "VictoriaLogs", Address: "http://victorialogs:9428", API: "/select/logsql",
		Client: func(cfg rangeread.Config, tenant string) rangeread.Client {
			return newClient(cfg, tenant, lineWriter{fields: c.Fields, labels: c.Labels})
		},
		CheckTenant: checkTenant, ParseSelector: selector.ParseFields,
		IsName: fieldName.MatchString, Names: "letters, digits and _./-",
		Text: filterText, Open: " (", Or: " or ", Close: ")", ReadsAll: len(c.Fields) > 0,
		// VictoriaLogs accepts queries of 16 KiB.
		MaxQuery: 16<<10 - overhead, MaxQueries: 16,
	}
}

// fieldName matches the names of fields that a selector can have.
var fieldName = lazyre.New(`^[a-zA-Z_][a-zA-Z0-9_./-]*$`)

func checkTenant(name string) string {
	account, project, _ := strings.Cut(name, ":")
	for _, id := range []string{account, project} {
		if _, err := strconv.ParseUint(id, 10, 32); err != nil {
			return "is not a tenant; write it as AccountID:ProjectID, such as 0:0"
		}
	}
	return ""
}

// Validate returns all errors of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error { return c.shared().Check(c.dialect()) }

// Source reads the streams of one tenant.
type Source = rangeread.Source

// New returns the sources of a configuration, one for each tenant. It does no I/O.
func New(cfg Config) []*Source { return rangeread.New(cfg.dialect(), cfg.shared()) }
