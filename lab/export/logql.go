package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/literals"
	"crowsnest/rules"
)

// labelPrefix is the prefix of the labels that a query creates.
const labelPrefix = "cn_"

// query collects the stages of a log query: first line filters, then stages that extract values from lines, then
// conditions on these values.
type query struct {
	filters []string // filters for the whole line, in order
	exact   bool     // whether the filters have the same effect as the matcher

	fields []string         // names of fields to extract from the line, in order
	exprs  []string         // expressions with renamed groups
	groups map[group]string // label for each group of an expression
	wants  []string         // names of the captures that the query needs

	hidden []string // reasons why the rule cannot be expressed as a query
}

// group is a named group in one expression of the rule.
type group struct {
	re   *literals.Expression
	name string
}

// quoteLogQL returns a string literal of LogQL. It avoids escapes if the result stays readable.
func quoteLogQL(s string) string {
	if strings.ContainsAny(s, "\\\"") && !strings.ContainsAny(s, "`") && strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

// templateLogQL returns a LogQL literal with a template. String literals in the template come from quoteInTemplate.
func templateLogQL(s string) string { return "`" + s + "`" }

// quoteInTemplate returns a string literal for use inside a template in backticks.
func quoteInTemplate(s string) string {
	return strings.ReplaceAll(strconv.Quote(s), "`", `\x60`)
}

// singleFilter returns the filter for a matcher that consists of one text or one expression.
func singleFilter(m rules.Matcher) (expr string, literal, ok bool) {
	if len(m.Fields)+len(m.Any) > 0 || m.Not != nil {
		return "", false, false
	}
	switch {
	case len(m.Contains) == 1 && m.Regex == nil:
		return m.Contains[0], true, true
	case len(m.Contains) == 0 && m.Regex != nil:
		return m.Regex.String(), false, true
	}
	return "", false, false
}

// addFilters adds line filters. It sets exact to false if they are weaker than the matcher.
func (q *query) addFilters(m rules.Matcher) {
	for _, text := range m.Contains {
		q.filters = append(q.filters, "|= "+quoteLogQL(text))
	}
	if m.Regex != nil {
		q.filters = append(q.filters, "|~ "+quoteLogQL(lineFilter(m.Regex.String())))
	}
	if len(m.Any) > 0 {
		q.filterAny(m.Any)
	}
	if m.Not != nil {
		q.filterNot(*m.Not)
	}
}

// filterAny adds one filter for all branches. The filter is exact if each branch consists of one text or one
// expression. Otherwise it searches for a list of texts. Each branch requires a text of the list.
func (q *query) filterAny(branches []rules.Matcher) {
	var parts []string
	for _, b := range branches {
		expr, literal, ok := singleFilter(b)
		switch {
		case ok:
		case len(b.Contains) > 0:
			expr, literal = longestText(b.Contains), true
		case b.Regex != nil:
			expr = b.Regex.String()
		default:
			q.exact = false
			return // the branch requires no text
		}
		q.exact = q.exact && ok
		if literal {
			expr = textFilter(expr)
		} else {
			expr, _ = renameGroups(expr, func(string) string { return "" })
			expr = "(" + lineFilter(expr) + ")"
		}
		parts = append(parts, expr)
	}
	q.filters = append(q.filters, "|~ "+quoteLogQL(strings.Join(parts, "|")))
}

func longestText(texts []string) string {
	return slices.MaxFunc(texts, func(a, b string) int { return len(a) - len(b) })
}

// filterNot adds filters if `not` consists of one condition, or of several alternatives.
func (q *query) filterNot(not rules.Matcher) {
	all := []rules.Matcher{not}
	if len(not.Any) > 0 && len(not.Contains)+len(not.Fields) == 0 && not.Regex == nil && not.Not == nil {
		all = not.Any
	}
	var out []string
	for _, m := range all {
		expr, literal, ok := singleFilter(m)
		if !ok {
			q.exact = false
			return
		}
		op := "!~ "
		if literal {
			op = "!= "
		} else {
			expr = lineFilter(expr)
		}
		out = append(out, op+quoteLogQL(expr))
	}
	q.filters = append(q.filters, out...)
}

func (q *query) collectExtractions(m *rules.Matcher, top bool) {
	if m.Regex != nil {
		q.visitGroups(m.Regex)
	}
	for _, f := range m.Fields {
		q.addField(f.Name)
		q.exact = q.exact && top // at the top level, a label filter expresses the condition
		if f.Regex == nil && f.Value == "" || f.Regex != nil && f.Regex.MatchString("") {
			q.hidden = append(q.hidden, fmt.Sprintf("field %s may be empty, and LogQL cannot distinguish an empty field from a missing one", f.Name))
		}
	}
	for i := range m.Any {
		q.collectExtractions(&m.Any[i], false)
	}
	if m.Not != nil {
		inner := *q
		inner.wants = nil
		inner.collectExtractions(m.Not, false)
		q.fields, q.exact, q.hidden = inner.fields, inner.exact, inner.hidden
	}
}

func (q *query) visitGroups(re *literals.Expression) {
	n := len(q.exprs) + 1
	found := false
	expr, err := renameGroups(re.String(), func(name string) string {
		if !slices.Contains(q.wants, name) {
			return ""
		}
		found = true
		label := fmt.Sprintf("%s%d_%s", labelPrefix, n, name)
		q.groups[group{re, name}] = label
		return label
	})
	if err != nil {
		q.hidden = append(q.hidden, err.Error())
		return
	}
	if found {
		q.exprs = append(q.exprs, expr)
	}
}

// addField adds a field to extract and returns the label for it.
func (q *query) addField(name string) string {
	i := slices.Index(q.fields, name)
	if i < 0 {
		i = len(q.fields)
		q.fields = append(q.fields, name)
	}
	return fieldLabel(i)
}

func fieldLabel(i int) string { return fmt.Sprintf("%sf%d", labelPrefix, i+1) }

// conditionExpr returns the matcher as a condition in the template language.
func (q *query) conditionExpr(m *rules.Matcher) string {
	var all []string
	for _, text := range m.Contains {
		all = append(all, "(contains "+quoteInTemplate(text)+" __line__)")
	}
	if m.Regex != nil {
		all = append(all, countExpr(m.Regex, "__line__"))
	}
	for _, f := range m.Fields {
		label := "." + q.addField(f.Name)
		if f.Regex != nil {
			all = append(all, countExpr(f.Regex, label))
		} else {
			all = append(all, "(eq "+label+" "+quoteInTemplate(f.Value)+")")
		}
	}
	if len(m.Any) > 0 {
		var branches []string
		for i := range m.Any {
			branches = append(branches, q.conditionExpr(&m.Any[i]))
		}
		all = append(all, joinParts("or", branches))
	}
	if m.Not != nil {
		all = append(all, "(not "+q.conditionExpr(m.Not)+")")
	}
	return joinParts("and", all)
}

func countExpr(re *literals.Expression, in string) string {
	return "(gt (count " + quoteInTemplate(re.String()) + " " + in + ") 0)"
}

func joinParts(op string, parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + op + " " + strings.Join(parts, " ") + ")"
}

// valueExpr returns an expression, in the template language, for the value of a name on a matching line. always reports
// whether the value is never empty.
func (q *query) valueExpr(m *rules.Matcher, name string) (expr string, always bool) {
	var candidates []string
	if m.Regex != nil {
		if label := q.groups[group{m.Regex, name}]; label != "" {
			candidates = append(candidates, "."+label)
			if always = alwaysCaptures(m.Regex.String(), name); always {
				return "." + label, true
			}
		}
	}
	for _, f := range m.Fields {
		if f.Regex == nil || !slices.Contains(f.Regex.SubexpNames(), name) {
			continue
		}
		candidates = append(candidates, fmt.Sprintf("(regexReplaceAll %s .%s %s)",
			quoteInTemplate(f.Regex.String()), q.addField(f.Name), quoteInTemplate("${"+name+"}")))
		if always = alwaysCaptures(f.Regex.String(), name); always {
			return firstExpr(candidates), true
		}
	}
	if e, ok := q.valueOfAny(m.Any, name); e != "" {
		candidates = append(candidates, e)
		always = ok
	}
	return firstExpr(candidates), always
}

func firstExpr(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	return joinParts("or", candidates)
}

// valueOfAny returns an expression for the value that the first matching branch captures.
func (q *query) valueOfAny(branches []rules.Matcher, name string) (expr string, always bool) {
	always = len(branches) > 0
	simple := true
	exprs := make([]string, len(branches))
	some := false
	for i := range branches {
		e, ok := q.valueExpr(&branches[i], name)
		_, _, isLone := singleFilter(branches[i])
		always = always && ok
		simple = simple && ok && isLone
		exprs[i] = e
		some = some || e != ""
	}
	if !some {
		return "", false
	}
	if simple {
		return joinParts("or", exprs), true // a branch matches if its group has a value, so the first non-empty value comes from the first matching branch
	}
	var out, before []string
	for i := range branches {
		cond := q.conditionExpr(&branches[i])
		if exprs[i] != "" {
			out = append(out, joinParts("and", append(append(slices.Clone(before), cond), exprs[i])))
		}
		before = append(before, "(not "+cond+")")
	}
	return joinParts("or", append(out, `""`)), always
}
