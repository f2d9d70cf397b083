package export

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"crowsnest/internal/literals"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// streamNames are the labels that all collectors of Kubernetes logs set on a stream.
var streamNames = []string{"namespace", "pod", "container", "node_name", "filename", "stream", "service_name", "job"}

func toLoki(t *translation) {
	r := t.rule
	t.checkStateless()
	if len(t.refusals) > 0 {
		t.setTexts(groupNames(r, nil))
		t.warnings = nil
		return
	}
	q := &query{exact: true, groups: map[group]string{}, wants: keyNames(r)}
	m := &r.Steps[0].Matcher
	q.collectExtractions(m, true)
	q.prependText(r)
	q.addFilters(*m)
	values := q.valueSources(r, m)
	if isNarrow(*m) {
		t.refuse("in: a query searches the whole line")
	}
	if len(q.hidden) > 0 {
		t.refuse("%s", strings.Join(q.hidden, "; "))
	}
	if !r.From.DemandsAny() {
		t.warn("it reads only logs of containers; crowsnest also reads logs of units and files, for which Loki's selector would have to accept every stream")
	}
	window := r.KeepFiringFor
	if openingCount(r) > 1 {
		window = r.Within
		t.warn("it resolves when fewer than %d lines lie within %s; crowsnest keeps it open for %s after the last line that completed the count",
			openingCount(r), model.Duration(r.Within), model.Duration(r.KeepFiringFor))
	}
	t.out.Expr = q.countQuery(r, ruleSelector(t.set, r), m, values, model.Duration(window).String())
	t.setTexts(groupNames(r, nil))
}

// isNarrow reports whether a matcher applies only to the message or the error.
func isNarrow(m rules.Matcher) bool {
	return m.In == rules.InMessage || m.In == rules.InError || slices.ContainsFunc(m.Any, isNarrow)
}

// prependText prepends a filter for a text that each matching line contains, so that the expressions after it run on
// few lines.
func (q *query) prependText(r *rules.Rule) {
	m := &r.Steps[0].Matcher
	if len(m.Contains) > 0 {
		return // the text is already the first filter
	}
	info := matcher.Texts(r)
	if len(info) == 0 || info[0].EveryLine || info[0].Escaped || slices.ContainsFunc(info[0].Texts, func(t literals.Text) bool { return t.Fold }) {
		return
	}
	texts := info[0].Texts
	switch {
	case len(texts) == 1:
		q.filters = append(q.filters, "|= "+quoteLogQL(texts[0].Text))
	case m.Regex != nil:
		parts := make([]string, len(texts))
		for i, text := range texts {
			parts[i] = textFilter(text.Text)
		}
		q.filters = append(q.filters, "|~ "+quoteLogQL(strings.Join(parts, "|")))
	}
}

// keyNames returns the names in the rule's key, by which the query groups.
func keyNames(r *rules.Rule) []string {
	names := slices.Clone(r.By)
	if name := r.DistinctName(); name != "" && !slices.Contains(names, name) {
		names = append(names, name)
	}
	return names
}

// namedExpr is a name with an expression, in the template language, for its value.
type namedExpr struct{ name, expr string }

// valueSources returns expressions for the names whose values are not just labels of the stream. A value comes from the
// capture, otherwise from the label, otherwise from the field of the line.
func (q *query) valueSources(r *rules.Rule, m *rules.Matcher) []namedExpr {
	var out []namedExpr
	for _, name := range q.wants {
		expr, always := q.valueExpr(m, name)
		var parts []string
		if expr != "" {
			parts = append(parts, expr)
		}
		ofStream := slices.Contains(streamNames, name) || selects(r.From, name)
		if !always {
			parts = append(parts, "."+name)
			if !ofStream {
				parts = append(parts, "."+q.addField(name))
			}
		}
		if expr == "" && ofStream {
			continue
		}
		if len(parts) > 1 {
			parts = append(parts, `""`)
		}
		out = append(out, namedExpr{name, strings.TrimSuffix(strings.TrimPrefix(joinParts("or", parts), "("), ")")})
	}
	return out
}

func selects(from rules.Selector, name string) bool {
	return slices.ContainsFunc(from.Matchers(), func(m selector.Matcher) bool { return m.Name == name })
}

// groupNames returns the labels by which the query groups. These are the names in the key and the identity labels,
// which are a part of every key.
func groupNames(r *rules.Rule, values []namedExpr) []string {
	names := slices.Clone(r.By)
	for _, name := range rules.DefaultIdentity {
		switch {
		case !slices.Contains(names, name):
			names = append(names, name)
		case isComputed(values, name):
			names = append(names, "stream_"+name)
		}
	}
	return names
}

func isComputed(values []namedExpr, name string) bool {
	return slices.ContainsFunc(values, func(v namedExpr) bool { return v.name == name })
}

// identityStages returns stages that preserve identity labels, because fields of lines may overwrite them. Each label
// is preserved as stream_NAME. before is placed before the stages that may overwrite the labels, and after is placed
// after these stages.
func identityStages(values []namedExpr) (before, after []string) {
	for _, name := range rules.DefaultIdentity {
		if isComputed(values, name) {
			kept := "stream_" + name
			before = append(before, "| label_format "+kept+"="+templateLogQL("{{ ."+name+" }}"))
			after = append(after, "| label_format "+kept+"="+templateLogQL("{{ if ne ."+kept+" ."+name+" }}{{ ."+kept+" }}{{ end }}"))
		}
	}
	return before, after
}

// ruleSelector returns the selector of a rule, restricted to the namespaces that the rule trusts. Loki refuses a
// selector that requires no label. In that case a condition on service_name is added, because Loki sets this label on
// every stream.
func ruleSelector(set *rules.Set, r *rules.Rule) string {
	from := r.From.String()
	if !r.From.DemandsAny() {
		from = strings.TrimSuffix(from, "}") + `, service_name=~".+"}`
	}
	if !r.Infrastructure || set.Namespaces.All() {
		return from
	}
	in, out := set.Namespaces.Patterns()
	more := ", namespace=~" + strconv.Quote(in)
	if out != "" {
		more += ", namespace!~" + strconv.Quote(out)
	}
	return strings.TrimSuffix(from, "}") + more + "}"
}

func (q *query) countQuery(r *rules.Rule, selector string, m *rules.Matcher, values []namedExpr, window string) string {
	stages := slices.Clone(q.filters)
	for _, e := range q.exprs {
		stages = append(stages, "| regexp "+quoteLogQL(e))
	}
	stages = append(stages, q.fieldStages()...)
	if q.exact {
		stages = append(stages, q.fieldFilters(m)...)
	} else {
		stages = append(stages, "| label_format "+labelPrefix+"match="+templateLogQL("{{ if "+q.conditionExpr(m)+" }}1{{ end }}"), "| "+labelPrefix+`match="1"`)
	}
	before, after := identityStages(values)
	stages = append(stages, before...)
	var formats []string
	for _, v := range values {
		formats = append(formats, v.name+"="+templateLogQL("{{ "+v.expr+" }}"))
	}
	if len(formats) > 0 {
		stages = append(stages, "| label_format "+strings.Join(formats, ", "))
	}
	stages = append(stages, after...)
	distinct := r.Distinct
	if unit := r.DistinctTime(); unit > 0 {
		distinct = labelPrefix + r.Distinct
		stages = append(stages, "| label_format "+distinct+"="+templateLogQL(fmt.Sprintf("{{ div (int (unixEpoch __timestamp__)) %d }}", int(unit.Seconds()))))
	} else if distinct != "" {
		stages = append(stages, "| "+distinct+` != ""`)
	}
	names := groupNames(r, values)
	lines := "count_over_time(\n    " + selector + "\n"
	for _, s := range stages {
		lines += "      " + s + "\n"
	}
	lines += "    [" + window + "]\n  )"
	if distinct != "" {
		each := append(slices.Clone(names), distinct)
		if slices.Contains(names, distinct) {
			each = names
		}
		lines = groupBy("sum", each) + " (" + lines + ")"
		return groupBy("count", names) + " (\n  " + lines + "\n) >= " + fmt.Sprint(openingCount(r))
	}
	return groupBy("sum", names) + " (\n  " + lines + "\n) " + thresholdExpr(openingCount(r))
}

func groupBy(op string, names []string) string {
	if len(names) == 0 {
		return op
	}
	return op + " by (" + strings.Join(names, ", ") + ")"
}

func thresholdExpr(n int) string {
	if n == 1 {
		return "> 0"
	}
	return fmt.Sprintf(">= %d", n)
}

// fieldStages returns stages that parse the fields of a line as crowsnest does. A line that is a JSON object is parsed
// as JSON, with object references as namespace/name. Any other line is parsed as text. Loki's own logfmt stage is not
// used, because it parses inside quoted messages, and because renaming fields with it fails in metric queries.
func (q *query) fieldStages() []string {
	if len(q.fields) == 0 {
		return nil
	}
	var json, text, formats []string
	for i, name := range q.fields {
		l := fieldLabel(i)
		path := jsonPath(name)
		json = append(json, l+"_json="+quoteLogQL(path), l+"_ns="+quoteLogQL(path+".namespace"), l+"_name="+quoteLogQL(path+".name"))
		text = append(text, "| regexp "+quoteLogQL(textField(name, l)))
		if name == "msg" {
			text = append(text, "| regexp "+quoteLogQL(textMessage(l)))
		}
		formats = append(formats, l+"="+templateLogQL(strings.ReplaceAll(
			`{{ if hasPrefix "{" __line__ }}{{ if .F_name }}{{ if .F_ns }}{{ .F_ns }}/{{ end }}{{ .F_name }}`+
				`{{ else if not (or (hasPrefix "{" .F_json) (hasPrefix "[" .F_json)) }}{{ .F_json }}{{ end }}`+
				`{{ else }}{{ or .F_bare (replace "\\\"" "\"" (or .F_quoted .F_message)) }}{{ end }}`, "F", l)))
	}
	stages := []string{"| json " + strings.Join(json, ", "), "| drop __error__, __error_details__"}
	return append(append(stages, text...), "| label_format "+strings.Join(formats, ", "))
}

// textField returns an expression for the last field with a name, outside quotes, in a text line.
func textField(name, label string) string {
	name = regexp.QuoteMeta(name)
	return `^(?:(?:[^"]|"(?:[^"\\]|\\.)*")*[\s,;])?(?:` + name + `|"` + name + `")=` +
		`(?:"(?P<` + label + `_quoted>(?:[^"\\]|\\.)*)"|(?P<` + label + `_bare>[^\s"]\S*?)[,;]?(?:\s|$))`
}

// textMessage returns an expression for the quoted message of a klog line.
func textMessage(label string) string {
	return `^(?:(?:[^"]*\s)?[^"\s]+:\d+\]\s+)?"(?P<` + label + `_message>(?:[^"\\]|\\.)*)"(?:[^=]|$)`
}

func (q *query) fieldFilters(m *rules.Matcher) []string {
	var out []string
	for _, f := range m.Fields {
		if f.Regex != nil {
			out = append(out, "| "+q.addField(f.Name)+" =~ "+quoteLogQL(f.Regex.String()))
		} else {
			out = append(out, "| "+q.addField(f.Name)+" = "+quoteLogQL(f.Value))
		}
	}
	return out
}

// jsonPath formats the path of a field. Dots in name separate nested objects.
func jsonPath(name string) string {
	var b strings.Builder
	for i, part := range strings.Split(name, ".") {
		switch {
		case !model.LegacyValidation.IsValidLabelName(part):
			b.WriteString(`["` + strings.ReplaceAll(strings.ReplaceAll(part, `\`, `\\`), `"`, `\"`) + `"]`)
		case i > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
	}
	return b.String()
}
