package loki

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources/internal/rangeread"
)

// dialect describes Loki.
var dialect = &rangeread.Dialect{
	Key: "loki", Server: "Loki", Address: "http://loki-gateway:3100", API: "/loki/api",
	Header: header, Query: query, Decode: decode, ListStreams: listStreams, DecodeStreams: decodeStreams, Refine: refine,
	CheckTenant: checkTenant, ParseSelector: selector.Parse,
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
	rangeread.Config `yaml:",inline"`
}

// Validate returns all errors of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error { return c.Check(dialect) }

// Source reads the streams of one tenant.
type Source = rangeread.Source

// New returns the sources of a configuration, one for each tenant. It does no I/O.
func New(cfg Config) []*Source { return rangeread.New(dialect, cfg.Config) }

// Range is the input of ReadRange.
type Range = rangeread.Range

// ReadRange reads a time range and passes each line to f once, as package rangeread describes. From
// cfg, it uses url, http_config, tenants, selector, labels, limit and timeout.
func ReadRange(ctx context.Context, cfg Config, rg Range, f func(s *matcher.Stream, rec matcher.Record) error) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return rangeread.ReadRange(ctx, dialect, cfg.Config, rg, f)
}
