package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/internal/text"
)

// WriteGroups writes a file of rule groups in the format of Prometheus and Loki's ruler.
// comment is written at its top, line by line.
func (r Result) WriteGroups(w io.Writer, comment string) error {
	y := &yamlWriter{}
	y.comment(comment)
	y.groups(r.Groups, "")
	_, err := w.Write(y.b.Bytes())
	return err
}

// WritePrometheusRule writes the object for the Prometheus Operator.
func (r Result) WritePrometheusRule(w io.Writer, name, comment string) error {
	y := &yamlWriter{}
	y.comment(comment)
	y.line("", "apiVersion: monitoring.coreos.com/v1")
	y.line("", "kind: PrometheusRule")
	y.line("", "metadata:")
	y.entry("  ", "name", name)
	y.line("", "spec:")
	y.groups(r.Groups, "  ")
	_, err := w.Write(y.b.Bytes())
	return err
}

// yamlWriter writes the small subset of YAML that is needed. It writes strings with
// several lines as blocks, and others in double quotes, where JSON and YAML agree.
type yamlWriter struct{ b bytes.Buffer }

func (y *yamlWriter) comment(text string) {
	if text == "" {
		return
	}
	for _, l := range strings.Split(text, "\n") {
		y.line("", strings.TrimRight("# "+l, " "))
	}
}

func (y *yamlWriter) line(indent, text string) { y.b.WriteString(indent + text + "\n") }

func (y *yamlWriter) entry(indent, key, value string) {
	if !blockable(value) {
		y.line(indent, key+": "+quoteYAML(value))
		return
	}
	y.line(indent, key+": |-")
	for _, l := range strings.Split(value, "\n") {
		y.line(indent+"  ", l)
	}
}

// blockable reports whether a string can be written as a block without loss.
func blockable(s string) bool {
	lines := strings.Split(s, "\n")
	if len(lines) < 2 || lines[0] == "" || lines[0][0] == ' ' {
		return false
	}
	for _, l := range lines {
		if l == "" || strings.ContainsFunc(l, func(r rune) bool {
			return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffd
		}) {
			return false
		}
	}
	return true
}

func quoteYAML(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // strings always encode, and writes to a buffer succeed
	return strings.TrimSuffix(b.String(), "\n")
}

func (y *yamlWriter) groups(groups []Group, indent string) {
	if len(groups) == 0 {
		y.line(indent, "groups: []")
		return
	}
	y.line(indent, "groups:")
	for _, g := range groups {
		y.line(indent, "- name: "+quoteYAML(g.Name))
		if g.Interval > 0 {
			y.line(indent, "  interval: "+duration(g.Interval))
		}
		y.line(indent, "  rules:")
		for _, r := range g.Rules {
			y.rule(r, indent+"  ")
		}
	}
}

func (y *yamlWriter) rule(r AlertRule, indent string) {
	y.line(indent, "- alert: "+quoteYAML(r.Alert))
	in := indent + "  "
	y.entry(in, "expr", r.Expr)
	if r.For > 0 {
		y.line(in, "for: "+duration(r.For))
	}
	for _, part := range []struct {
		name    string
		entries map[string]string
	}{{"labels", r.Labels}, {"annotations", r.Annotations}} {
		if len(part.entries) == 0 {
			continue
		}
		y.line(in, part.name+":")
		for _, name := range slices.Sorted(maps.Keys(part.entries)) {
			y.entry(in+"  ", name, part.entries[name])
		}
	}
}

func duration(d time.Duration) string { return model.Duration(d).String() }

// Summary lists what was not exported, and why, with one line per finding.
func (r Result) Summary() string {
	var b strings.Builder
	for _, f := range r.Refused {
		fmt.Fprintf(&b, "refused %s (%s): %s\n", f.Rule.Alert, f.Rule.Pack, f.Reason)
	}
	for _, f := range r.Warnings {
		fmt.Fprintf(&b, "warning %s (%s): %s\n", f.Rule.Alert, f.Rule.Pack, f.Reason)
	}
	fmt.Fprintf(&b, "%d exported, %d refused, %s\n", r.Exported(), len(r.Refused), text.Plural(len(r.Warnings), "warning"))
	return b.String()
}
