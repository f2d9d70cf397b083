package victorialogs

import (
	"strconv"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/rules/selector"
	"crowsnest/sources/internal/rangeread"
)

// Config selects the streams that are read from a VictoriaLogs.
type Config struct {
	rangeread.Config `yaml:",inline"`
	// Fields are the fields into which an agent parses lines of JSON or klog. The source writes
	// these lines again. A name may end with *, and its part before * is removed from the name of
	// the field. A name after ! is excluded. Empty means that _msg is the whole line. Otherwise
	// every line of the selected streams is read, because the texts of rules may be in any field.
	Fields []string `yaml:"fields" bounds:"0,64,4096"`
}

// dialect describes VictoriaLogs.
func (c Config) dialect() *rangeread.Dialect {
	return &rangeread.Dialect{
		Key: "victorialogs", Server: "VictoriaLogs", Address: "http://victorialogs:9428", API: "/select/logsql",
		Header: header, Query: query, Decode: lineWriter{fields: c.Fields, labels: c.Labels}.decode,
		NeedsEnd:    true, // a response has one line for each entry, and nothing after them
		ListStreams: listStreams, DecodeStreams: decodeStreams, Refine: refine,
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
func (c Config) Validate() error { return c.Check(c.dialect()) }

// Source reads the streams of one tenant.
type Source = rangeread.Source

// New returns the sources of a configuration, one for each tenant. It does no I/O.
func New(cfg Config) []*Source { return rangeread.New(cfg.dialect(), cfg.Config) }
