package export

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/internal/text"
	"crowsnest/internal/yamltext"
)

// WriteGroups writes a file with rule groups in the format of Prometheus and Loki's ruler. It writes comment above the
// groups, line by line.
func (r Result) WriteGroups(w io.Writer, comment string) error {
	_, err := io.WriteString(w, commentLines(comment)+r.groupsMap().String())
	return err
}

// WritePrometheusRule writes the groups as a PrometheusRule object for the Prometheus Operator.
func (r Result) WritePrometheusRule(w io.Writer, name, comment string) error {
	object := yamltext.Map{
		{Key: "apiVersion", Value: yamltext.Raw("monitoring.coreos.com/v1")},
		{Key: "kind", Value: yamltext.Raw("PrometheusRule")},
		{Key: "metadata", Value: yamltext.Map{{Key: "name", Value: name}}},
		{Key: "spec", Value: r.groupsMap()},
	}
	_, err := io.WriteString(w, commentLines(comment)+object.String())
	return err
}

// commentLines returns a text as YAML comments. An empty text results in "".
func commentLines(text string) string {
	out := ""
	for line := range strings.SplitSeq(text, "\n") {
		if text != "" {
			out += strings.TrimRight("# "+line, " ") + "\n"
		}
	}
	return out
}

func (r Result) groupsMap() yamltext.Map {
	var groups yamltext.List
	for _, g := range r.Groups {
		group := yamltext.Map{{Key: "name", Value: g.Name}}
		group.Add("interval", optionalDuration(g.Interval))
		var all yamltext.List
		for _, a := range g.Rules {
			rule := yamltext.Map{{Key: "alert", Value: a.Alert}, {Key: "expr", Value: a.Expr}}
			rule.Add("for", optionalDuration(a.For))
			rule.Add("labels", sortedMap(a.Labels))
			rule.Add("annotations", sortedMap(a.Annotations))
			all = append(all, rule)
		}
		groups = append(groups, append(group, yamltext.Entry{Key: "rules", Value: all}))
	}
	if len(groups) == 0 {
		return yamltext.Map{{Key: "groups", Value: yamltext.Raw("[]")}}
	}
	return yamltext.Map{{Key: "groups", Value: groups}}
}

func sortedMap(all map[string]string) (out yamltext.Map) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, yamltext.Entry{Key: name, Value: all[name]})
	}
	return out
}

func optionalDuration(d time.Duration) yamltext.Raw {
	if d <= 0 {
		return ""
	}
	return yamltext.Raw(model.Duration(d).String())
}

// Summary lists the rules that were not exported with the reasons, one line for each finding.
func (r Result) Summary() string { return summarize(r.CountExported(), r.RefusedRules, r.Warnings) }

func summarize(exported int, refused, warnings []Finding) string {
	var b strings.Builder
	for _, f := range refused {
		fmt.Fprintf(&b, "refused %s (%s): %s\n", f.Rule.Alert, f.Rule.Pack, f.Reason)
	}
	for _, f := range warnings {
		fmt.Fprintf(&b, "warning %s (%s): %s\n", f.Rule.Alert, f.Rule.Pack, f.Reason)
	}
	fmt.Fprintf(&b, "%d exported, %d refused, %s\n", exported, len(refused), text.Plural(len(warnings), "warning"))
	return b.String()
}
