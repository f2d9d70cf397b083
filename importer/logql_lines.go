package importer

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"crowsnest/rules/selector"
)

// streamLabels are labels that collectors set, so a condition on one of them is about the stream.
var streamLabels = []string{
	"namespace", "pod", "container", "app", "job", "node", "node_name", "instance", "cluster", "tenant", "filename", "stream",
	"service_name", "component", "unit", "identifier", "transport", "host", "hostname",
}

// lineTranslator turns the stages of a pipeline into conditions on streams and lines.
type lineTranslator struct {
	selector   string
	conditions []pattern
	// captured are the names of the stages pattern and regexp, with the pattern, or nil.
	captured map[string]*linePattern
	parser   string            // json or logfmt, "" before either
	names    map[string]string // labels that the parser extracts, and their fields; nil: all
	warn     func(format string, args ...any)
}

// linesOf translates the selection of lines.
func linesOf(q *lineQuery, warn func(string, ...any)) (from string, m pattern, err error) {
	t := &lineTranslator{selector: q.selector, captured: map[string]*linePattern{}, warn: warn}
	for i := range q.stages {
		if err := t.stage(&q.stages[i]); err != nil {
			return "", m, err
		}
	}
	m = all(t.conditions)
	if !m.isPositive() {
		m = all(append(t.conditions, pattern{regex: anyText}))
	}
	if _, err := selector.Parse(t.selector); err != nil {
		return "", m, queryErrorf(0, "the selector %s cannot be used: %s", shorten(t.selector), err)
	}
	return t.selector, m, nil
}

func (t *lineTranslator) add(m pattern) { t.conditions = append(t.conditions, m) }

func (t *lineTranslator) stage(s *stage) error {
	switch s.kind {
	case "|=":
		t.texts(s.text)
	case "!=":
		if s.text[0] == "" {
			return queryErrorf(s.at, "`!= \"\"` matches no line")
		}
		t.add(pattern{not: &pattern{contains: s.text}})
	case "|~", "!~":
		return t.expressions(s)
	case "json", "logfmt":
		if t.parser != "" {
			return queryErrorf(s.at, "a second parser follows `%s`", t.parser)
		}
		t.parser = s.kind
		if len(s.names) > 0 {
			t.names = s.names
		}
	case "pattern", "regexp":
		return t.capture(s)
	case "filter":
		m, err := t.filter(s.filter, true)
		if err == nil && !m.empty() {
			t.add(m)
		}
		return err
	}
	return nil
}

// texts adds texts of which a line contains one.
func (t *lineTranslator) texts(texts []string) {
	var branches []pattern
	for _, text := range texts {
		if text == "" {
			return // every line contains it
		}
		branches = append(branches, pattern{contains: []string{text}})
	}
	t.add(oneOf(branches))
}

func (t *lineTranslator) expressions(s *stage) error {
	var branches []pattern
	for _, expr := range s.text {
		if err := validExpression(s.at, expr); err != nil {
			return err
		}
		if matchesAll(expr) {
			if s.kind == "!~" {
				return queryErrorf(s.at, "`!~` with an expression that matches every line matches none")
			}
			return nil
		}
		if text, ok := plainText(expr); ok {
			branches = append(branches, pattern{contains: []string{text}})
			continue
		}
		branches = append(branches, pattern{regex: expr})
	}
	m := oneOf(branches)
	if s.kind == "!~" {
		m = negation(m)
	}
	t.add(m)
	return nil
}

// matchesAll reports whether an expression matches the empty text, and with it every line.
func matchesAll(expr string) bool {
	re, err := regexp.Compile(expr)
	return err == nil && re.MatchString("")
}

func validExpression(at int, expr string) error {
	if len(expr) > maxRegex {
		return queryErrorf(at, "the expression has %d bytes, more than %d", len(expr), maxRegex)
	}
	if _, err := regexp.Compile(expr); err != nil {
		return queryErrorf(at, "the expression is not RE2: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return nil
}

// capture translates the stages pattern and regexp. In LogQL a line that does not match keeps its
// place without the labels; in a rule the expression is a condition.
func (t *lineTranslator) capture(s *stage) error {
	expr := s.text[0]
	var l *linePattern
	if s.kind == "pattern" {
		var err error
		if l, err = parsePattern(expr); err != nil {
			return queryErrorf(s.at, "%s", err)
		}
		expr = l.regex(nil)
	}
	if err := validExpression(s.at, expr); err != nil {
		return err
	}
	if matchesAll(expr) {
		return queryErrorf(s.at, "the expression of `%s` matches every line", s.kind)
	}
	named := false
	for _, name := range regexp.MustCompile(expr).SubexpNames() {
		if name != "" {
			t.captured[name], named = l, true
		}
	}
	if !named {
		return nil
	}
	t.add(pattern{regex: expr})
	t.warn("lines that the stage `%s` does not match count no longer; in LogQL they count without its labels", s.kind)
	return nil
}

// filter translates a condition on labels. top means that the whole line depends on it, so that a
// condition on a label of the stream can go into the selector.
func (t *lineTranslator) filter(f *labelFilter, top bool) (pattern, error) {
	if f.join == "" {
		return t.compare(f, top)
	}
	var parts []pattern
	for _, one := range f.parts {
		m, err := t.filter(one, top && f.join == "and")
		if err != nil {
			return m, err
		}
		if m.empty() {
			continue
		}
		if f.join == "or" && !m.isPositive() {
			m = all([]pattern{m, {regex: anyText}})
		}
		parts = append(parts, m)
	}
	switch {
	case len(parts) == 0:
		return pattern{}, nil
	case f.join == "and":
		return all(parts), nil
	}
	return oneOf(parts), nil
}

func (t *lineTranslator) compare(f *labelFilter, top bool) (pattern, error) {
	if f.name == "__error__" || f.name == "__error_details__" {
		if f.value != "" || f.op != "=" {
			return pattern{}, queryErrorf(f.at, "%s is compared with %q: a rule does not know the errors of a parser", f.name, f.value)
		}
		if t.parser == "json" {
			return pattern{regex: `^\s*\{`}, nil
		}
		return pattern{}, nil
	}
	if l, ok := t.captured[f.name]; ok {
		return capturedCondition(l, f)
	}
	if t.ofStream(f.name) {
		return pattern{}, t.narrow(f, top)
	}
	if t.parser == "" {
		return pattern{}, queryErrorf(f.at, "the label %s is compared, and no parser before extracts it", f.name)
	}
	return t.field(f)
}

// capturedCondition translates a comparison with a label that a stage captures.
func capturedCondition(l *linePattern, f *labelFilter) (pattern, error) {
	if f.op == "!=" && f.value == "" && !f.number {
		return pattern{}, nil // the expression is a condition already
	}
	if l == nil {
		return pattern{}, queryErrorf(f.at, "the label %s, which the stage `regexp` captures, is compared: put the text into the expression instead", f.name)
	}
	value, negated, err := fieldCondition(f)
	if err != nil {
		return pattern{}, err
	}
	if expr, ok := strings.CutPrefix(value, "~"); ok {
		value = "(?:" + expr + ")"
	} else {
		value = quoteMeta(value)
	}
	m := pattern{regex: l.regex(map[string]string{f.name: value})}
	if negated {
		m = negation(m)
	}
	return m, nil
}

// ofStream reports whether a name is a label of the stream and not of the line.
func (t *lineTranslator) ofStream(name string) bool {
	if _, extracted := t.names[name]; extracted {
		return false
	}
	s, err := selector.Parse(t.selector)
	if err == nil && slices.ContainsFunc(s.Matchers(), func(m selector.Matcher) bool { return m.Name == name }) {
		return true
	}
	return slices.Contains(streamLabels, name)
}

// narrow adds a condition on a label of the stream to the selector.
func (t *lineTranslator) narrow(f *labelFilter, top bool) error {
	switch {
	case f.number || f.op != "=" && f.op != "!=" && f.op != "=~" && f.op != "!~":
		return queryErrorf(f.at, "the label %s of the stream is compared with a number", f.name)
	case !top:
		return queryErrorf(f.at, "the label %s of the stream is one of several alternatives: write a rule for each", f.name)
	}
	t.selector = strings.TrimSuffix(t.selector, "}") + ", " + f.name + f.op + strconv.Quote(f.value) + "}"
	return nil
}

// field translates a comparison with a field of the line.
func (t *lineTranslator) field(f *labelFilter) (pattern, error) {
	value, negated, err := fieldCondition(f)
	if err != nil {
		return pattern{}, err
	}
	var branches []pattern
	for _, name := range t.fieldNames(f.name) {
		branches = append(branches, pattern{fields: []entry{{name, value}}})
	}
	m := oneOf(branches)
	if negated && f.number { // an absent label is no number
		var present []pattern
		for _, name := range t.fieldNames(f.name) {
			present = append(present, pattern{fields: []entry{{name, "~(?s:.+)"}}})
		}
		return all([]pattern{oneOf(present), negation(m)}), nil
	}
	if negated {
		m = negation(m)
	}
	return m, nil
}

// fieldCondition returns the condition on the value of a field.
func fieldCondition(f *labelFilter) (value string, negated bool, err error) {
	if f.number {
		value, negated, err = numberCondition(f)
		return value, negated, err
	}
	switch f.op {
	case "=~", "!~":
		if err := validExpression(f.at, f.value); err != nil {
			return "", false, err
		}
		if regexp.MustCompile("^(?:" + f.value + ")$").MatchString("") {
			return "", false, queryErrorf(f.at, "the expression for %s also matches an absent label, which a field condition does not", f.name)
		}
		return "~" + f.value, f.op == "!~", nil
	}
	negated = f.op == "!="
	if f.value == "" { // absent or empty
		return "~(?s:.+)", !negated, nil
	}
	return fieldValue(f.value), negated, nil
}

// fieldNames returns the fields that a label of a parser stands for. The JSON parser joins the
// names of nested objects with _.
func (t *lineTranslator) fieldNames(label string) []string {
	if path, ok := t.names[label]; ok {
		return []string{strings.TrimPrefix(path, ".")}
	}
	label = strings.TrimSuffix(label, "_extracted")
	n := strings.Count(label, "_")
	if t.parser != "json" || n == 0 {
		return []string{label}
	}
	if n > 3 {
		return []string{label, strings.ReplaceAll(label, "_", ".")}
	}
	words := strings.Split(label, "_")
	var out []string
	for bits := range 1 << n {
		name := words[0]
		for i, w := range words[1:] {
			name += string("_."[bits>>i&1]) + w
		}
		out = append(out, name)
	}
	return out
}
